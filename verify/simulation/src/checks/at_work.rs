//! I1 for holders by `acquire`, `lead` or `run_once`: at most one is at work at any instant, and
//! nobody longer than the lease lasts.

use spindle::Term;

/// The work under way: on which lock, under which term.
#[derive(Debug, Default)]
pub(crate) struct AtWork {
    under_way: Vec<(u64, usize, Term)>,
    begun: u64,
}

impl AtWork {
    /// Work begins; the number is to be given back when it ends.
    pub(crate) fn begins(&mut self, lock: usize, term: &Term) -> (u64, Result<(), String>) {
        let rival = self.on(lock).map(|rival| {
            format!("lock `{}`: work under {} goes on", rival.lock(), rival.token())
                + &format!(", and that under {} begins", term.token())
        });
        self.begun += 1;
        self.under_way.push((self.begun, lock, term.clone()));
        (self.begun, rival.map_or(Ok(()), Err))
    }

    pub(crate) fn ends(&mut self, number: u64) -> Result<(), String> {
        let Some(index) = self.under_way.iter().position(|(work, ..)| *work == number) else {
            return Ok(());
        };
        let (_, _, term) = self.under_way.swap_remove(index);
        if term.remaining().is_zero() {
            let (lock, token) = (term.lock(), term.token());
            return Err(format!("lock `{lock}`: work under {token} went on after its lease"));
        }
        Ok(())
    }

    /// The term under which there is work on a lock.
    pub(crate) fn on(&self, lock: usize) -> Option<&Term> {
        self.under_way.iter().find(|(_, of, _)| *of == lock).map(|(.., term)| term)
    }

    /// How many terms are under way that are still valid.
    pub(crate) fn valid(&self) -> usize {
        self.under_way.iter().filter(|(.., term)| !term.remaining().is_zero()).count()
    }
}
