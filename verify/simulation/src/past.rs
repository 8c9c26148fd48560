//! The past of each lock, as the library tells it from the engine's old versions.

use std::time::Duration;

use spindle::operate::{HistoryEnd, PastTerm};
use spindle::simulation::{Past, Version, history};
use spindle_emulator::engine::Timestamp as EngineTimestamp;
use spindle_protocol::{StoredRow, Timestamp};

use crate::network::COLUMNS;
use crate::rows::{decode, timestamp};
use crate::world::World;

/// Well within what the engine keeps.
pub(crate) const WINDOW: Duration = Duration::from_secs(55 * 60);

struct LockRow<'a> {
    world: &'a World,
    lock: &'a str,
}

impl Past for LockRow<'_> {
    async fn now(&self) -> spindle::Result<(Option<StoredRow>, Timestamp)> {
        let read_at = self.world.read_timestamp();
        let row = self.read(read_at).await.expect("a strong read is answered");
        Ok((row, timestamp(read_at)))
    }

    async fn at(&self, at: Timestamp) -> spindle::Result<Version> {
        let at = EngineTimestamp::from_nanos(i128::from(at.0));
        let found = match at {
            Some(at) => self.read(at).await,
            None => None,
        };
        Ok(match found {
            Some(Some(row)) => Version::Row(row),
            Some(None) => Version::None,
            None => Version::End(HistoryEnd::Forgotten),
        })
    }
}

impl LockRow<'_> {
    /// None if the version is forgotten.
    async fn read(&self, at: EngineTimestamp) -> Option<Option<StoredRow>> {
        let cells = self.world.cells_at(self.lock, at).await?;
        Some(cells.map(|cells| decode(self.lock, &COLUMNS, &cells)))
    }
}

/// The terms of a lock, the latest first, and when they were read.
pub(crate) async fn told(world: &World, lock: &str) -> (Vec<PastTerm>, Timestamp) {
    history(&LockRow { world, lock }, WINDOW).await.expect("the engine answers")
}
