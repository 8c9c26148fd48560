//! The rows of a group's members: read at one timestamp, and deleted once nobody needs them.

mod poll;
mod tidy;

pub(crate) use poll::{
    Rows, holder, lives, poll, poll_beside, poll_in_turn, poll_to_tidy, taken_until,
};
pub(crate) use tidy::{remove_released, tidy};
