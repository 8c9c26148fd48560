//! The rows of a group's members: read at one timestamp, and deleted once nobody needs them.

mod poll;
mod tidy;

pub(crate) use poll::{holder, poll, poll_in_turn, taken_until};
pub(crate) use tidy::{remove_released, search_and_tidy, tidy, tidy_pause};
