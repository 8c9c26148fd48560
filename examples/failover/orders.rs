//! The orders that the fleet writes, each under a fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::{Error, Fence};

use crate::fleet::Failure;

pub const DATABASE: &str = "projects/demo/instances/demo/databases/demo";

/// Writes orders, each only if the term of its fence is still the lock's.
#[derive(Clone)]
pub struct Orders {
    client: DatabaseClient,
    id: String,
    number: Arc<AtomicU64>,
}

pub enum Written {
    Accepted,
    Refused(Error),
}

impl Orders {
    pub async fn connect(endpoint: &str, id: &str) -> Result<Orders, Failure> {
        let client = connect(endpoint).await?;
        Ok(Orders { client, id: id.to_string(), number: Arc::default() })
    }

    pub async fn write(&self, fence: Fence, kind: &'static str) -> Result<Written, Failure> {
        let number = self.number.fetch_add(1, Ordering::SeqCst);
        let order = Mutation::new_insert_builder("orders")
            .set("id")
            .to(format!("{}-{number}", self.id))
            .set("token")
            .to(fence.token().to_string())
            .set("kind")
            .to(kind)
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        match fence.write(&self.client, [order]).await {
            Ok(_) => Ok(Written::Accepted),
            Err(error) if error.is_fenced() => Ok(Written::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes an order that was decided in another time, and logs the answer.
    pub async fn write_late(&self, fence: Fence) {
        match self.write(fence, "late").await {
            Ok(Written::Accepted) => log("late-write accepted"),
            Ok(Written::Refused(error)) => log(&format!("late-write refused: {error}")),
            Err(error) => log(&format!("late-write failed: {error}")),
        }
    }
}

pub async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

pub fn log(line: &str) {
    use std::io::Write as _;
    // A closed pipe means that the parent is gone, which the closed input says too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
