//! How a fence travels to another process of the same term.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spindle_protocol::Writer;

use super::condition::Fence;
use crate::error::{Error, Result};
use crate::names::{check_lock_name, check_table_name};
use crate::token::FencingToken;

#[derive(Serialize, Deserialize)]
struct Parts {
    table: String,
    lock: String,
    token: FencingToken,
    writer: String,
}

impl Serialize for Fence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Fence { table, lock, token, writer, term: _ } = self.clone();
        Parts { table, lock, token, writer }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fence {
    /// Refuses what no term can have: it may come from anywhere.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fence, D::Error> {
        let parts = Parts::deserialize(deserializer)?;
        parts.check().map_err(D::Error::custom)?;
        let Parts { table, lock, token, writer } = parts;
        Ok(Fence { table, lock, token, writer, term: None })
    }
}

impl Parts {
    fn check(&self) -> Result<()> {
        check_table_name(&self.table)?;
        check_lock_name(&self.lock)?;
        // Without a nonce it could match a row that was released or evicted, which names no one.
        if Writer::from(self.writer.as_str()).nonce().is_none() {
            let Parts { lock, writer, .. } = self;
            return Err(Error::config(format!("lock `{lock}`: fence of no term: `{writer}`")));
        }
        Ok(())
    }
}
