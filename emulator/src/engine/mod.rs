//! The database itself: values, schema, versions, locks and transactions, without a network.

mod civil;
mod error;
mod schema;
mod value;

pub use error::{Code, Detail, Error, Result};
pub use schema::{
    BYTES_MAX_LENGTH, Column, KeyColumn, STRING_MAX_LENGTH, Schema, SchemaChange, Table,
};
pub use value::{Date, Key, KeyPart, KeyRange, Timestamp, Type, Value};
