//! The engine and SQL, called without a network.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod ddl;
mod definitions;
mod engine;
mod indexes;
mod information_schema;
mod kept;
mod keys;
mod memory;
mod parser;
mod plans;
mod postgresql;
mod random;
mod serializability;
mod texts;
mod values;
