//! Reads, changes and writes in one fenced transaction. On the embedded Spanner, in a second.
//!
//! ```text
//! cargo run --example read_modify_write
//! ```
//!
//! Each function returns `spindle::Result`: `?` takes those of Google's requests, too. Two holders, one
//! after the other, count what they sell. The first one goes on after its term, and is refused.

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::{self as client};
use spindle::{Ddl, Error, Fence, LockTable, is_fenced};
use spindle_emulator::Emulator;

const DATABASE: &str = "projects/p/instances/i/databases/d";
const ITEM: &str = "bolt";
const STOCK: &str =
    "CREATE TABLE stock (item STRING(MAX) NOT NULL, left_over INT64) PRIMARY KEY (item)";

/// Nothing of the item is left. The caller finds this in the error of the transaction.
#[derive(Debug)]
struct SoldOut;

impl std::fmt::Display for SoldOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sold out")
    }
}

impl std::error::Error for SoldOut {}

/// Takes one from the stock, under the fence, and returns how many are left.
async fn sell(client: &DatabaseClient, fence: &Fence, item: &str) -> spindle::Result<i64> {
    let item = item.to_string();
    // It may run several times, so it does nothing that can't be done twice. It owns what it captures, so
    // that a task of `lead` may call this.
    let sold = fence.transaction(client).run(move |transaction| {
        let item = item.clone();
        async move {
            let left = left_over(&transaction, &item).await?;
            if left == 0 {
                return Err(Error::give_up(SoldOut));
            }
            transaction.buffer([stock(&item, left - 1)])?;
            Ok(left - 1)
        }
    });
    Ok(sold.await?.result)
}

/// Reads what the write depends on: in the transaction, or the write may rest on an old value.
async fn left_over(transaction: &ReadWriteTransaction, item: &str) -> client::Result<i64> {
    let keys = KeySet::builder().add_key(key![item.to_string()]).build();
    let request = ReadRequest::builder("stock", ["left_over"]).with_keys(keys).build();
    let mut rows = transaction.execute_read(request).await?;
    match rows.next().await {
        Some(row) => row?.get("left_over"),
        None => Ok(0),
    }
}

fn stock(item: &str, left: i64) -> Mutation {
    let row = Mutation::new_insert_or_update_builder("stock").set("item").to(item.to_string());
    row.set("left_over").to(left).build()
}

async fn run(client: &DatabaseClient) -> spindle::Result<()> {
    let table = LockTable::new(client.clone(), "locktable");
    let first = table.lock("shop").build()?.acquire().await?;
    // No fence: `?` takes the client's own error for one of `spindle`.
    client.write_only_transaction().build().write([stock(ITEM, 2)]).await?;
    println!("sold under {}: {} left", first.token(), sell(client, &first.fence(), ITEM).await?);

    let late = first.fence();
    first.release().await;
    let second = table.lock("shop").build()?.acquire().await?;
    match sell(client, &late, ITEM).await {
        Err(error) if is_fenced(&error) => println!("refused: {error}"),
        sold => panic!("sold {sold:?} after the term"),
    }
    println!("sold under {}: {} left", second.token(), sell(client, &second.fence(), ITEM).await?);
    match sell(client, &second.fence(), ITEM).await {
        Err(error) if error.cause::<SoldOut>().is_some() => println!("refused: {error}"),
        sold => panic!("sold {sold:?} of nothing"),
    }
    second.release().await;
    println!("read_modify_write: ok sold=2 late_refused=1 sold_out=1");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spanner = Emulator::start().await?;
    spanner
        .create_database(DATABASE, &format!("{};\n{STOCK}", LockTable::ddl(Ddl::GoogleSql)))
        .await?;
    let client = Spanner::builder().with_endpoint(spanner.endpoint()).build().await?;
    run(&client.database_client(DATABASE).build().await?).await?;
    Ok(())
}
