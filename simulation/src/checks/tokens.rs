//! I2: the tokens of a lock strictly increase from term to term.

/// The highest token that was published, by lock.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<u64>);

impl Tokens {
    pub(crate) fn new(locks: usize) -> Tokens {
        Tokens(vec![0; locks])
    }

    /// A term was published.
    pub(crate) fn began(&mut self, lock: usize, token: u64) -> Result<(), String> {
        let highest = &mut self.0[lock];
        if token <= *highest {
            return Err(format!("a term began with token {token}, after one with {highest}"));
        }
        *highest = token;
        Ok(())
    }

    /// As [`began`](Tokens::began); none if there is no such lock.
    pub(crate) fn try_began(&mut self, lock: usize, token: u64) -> Option<Result<(), String>> {
        (lock < self.0.len()).then(|| self.began(lock, token))
    }

    pub(crate) fn latest(&self, lock: usize) -> u64 {
        self.0[lock]
    }
}
