//! The rules that an onlooker holds a lock to, whoever runs it: the simulation judges by them step by step, and a chaos
//! run afterwards by its history.

mod outcome;
mod terms;

pub use outcome::Outcome;
pub use terms::{Disorder, Mode, Terms};
