//! An instance's account of itself: its term, its gains and losses, its health, its log.

mod contact;
mod health;
mod journal;
mod published;
mod succession;
mod term;
mod validity;
mod watch;

pub use contact::Failing;
pub use health::{Health, Role, Trouble};
pub(crate) use journal::{Journal, say};
pub(crate) use published::Published;
pub(crate) use succession::succession;
pub(crate) use term::Progress;
pub use term::Term;
pub use watch::{TermChange, TermWatch};
