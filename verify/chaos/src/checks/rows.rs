//! The terms that the versions of the rows show, by Spanner's clock.

use std::collections::BTreeMap;

use crate::tables::Version;

/// One term of a row, from its token to its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub key: String,
    pub id: String,
    pub token: u64,
    /// The first is the token.
    pub heartbeats: Vec<u64>,
}

impl Hold {
    pub fn last(&self) -> u64 {
        self.heartbeats.last().copied().unwrap_or(self.token)
    }
}

/// Returns all terms, by token.
pub fn holds(versions: &[Version]) -> Vec<Hold> {
    let mut holds: BTreeMap<(u64, &str, &str), Hold> = BTreeMap::new();
    for version in versions {
        let Some(id) = version.holder() else { continue };
        let hold =
            holds.entry((version.token, &version.key, &version.writer)).or_insert_with(|| {
                let (key, id, token) = (version.key.clone(), id.to_string(), version.token);
                Hold { key, id, token, heartbeats: vec![token] }
            });
        if version.heartbeat > hold.last() {
            hold.heartbeats.push(version.heartbeat);
        }
    }
    holds.into_values().collect()
}
