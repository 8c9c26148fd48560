//! An embedded Cloud Spanner for tests: in-process, serializable, with faults on demand.

pub mod engine;
pub mod sql;
