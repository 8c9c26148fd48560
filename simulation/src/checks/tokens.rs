//! I2: the tokens of a lock strictly increase from term to term.

/// The highest token that was published, by lock.
#[derive(Debug)]
pub(super) struct Tokens(Vec<u64>);

impl Tokens {
    pub(super) fn new(locks: usize) -> Tokens {
        Tokens(vec![0; locks])
    }

    /// A term was published.
    pub(super) fn began(&mut self, lock: usize, token: u64) -> Result<(), String> {
        let highest = &mut self.0[lock];
        if token <= *highest {
            return Err(format!("a term began with token {token}, after one with {highest}"));
        }
        *highest = token;
        Ok(())
    }

    pub(super) fn latest(&self, lock: usize) -> u64 {
        self.0[lock]
    }
}
