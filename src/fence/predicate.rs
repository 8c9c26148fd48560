//! The fence as a condition of SQL.

use google_cloud_spanner::statement::StatementBuilder;

use super::condition::Fence;

impl Fence {
    /// Returns the fence as a condition of SQL, `EXISTS (SELECT …)`, which is true as long as the
    /// term is the lock's. It is for DML in transactions of your own.
    ///
    /// Its parameters are `@fence_lock`, `@fence_token` and `@fence_writer`;
    /// [`bind`](Fence::bind) gives a statement their values. In GoogleSQL; the PostgreSQL dialect
    /// numbers its parameters, use [`check`](Fence::check) there.
    ///
    /// A statement that changes no row says nothing: a condition that is false and a row that
    /// isn't there look the same. Check the number of rows that were changed, and roll back when it
    /// is not what it should be. [`check`](Fence::check) in the same transaction says which of the
    /// two it was. The rest of the transaction, outside of such statements, is not covered.
    ///
    /// The transaction must be SERIALIZABLE with pessimistic reads, the client's default. Then the
    /// condition is read under a lock, which keeps the next term from beginning before the commit.
    /// Under REPEATABLE READ the condition is read from a snapshot, and the next term's begin
    /// doesn't conflict with it. Partitioned DML runs in many transactions, each of which checks
    /// for itself: it may stop halfway.
    ///
    /// ```no_run
    /// # use spindle::google_cloud_spanner::{self as client, statement::Statement};
    /// # use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
    /// # async fn example(
    /// #     fence: spindle::Fence,
    /// #     transaction: ReadWriteTransaction,
    /// # ) -> client::Result<()> {
    /// let sql = format!(
    ///     "UPDATE orders SET paid = true WHERE id = @id AND {}",
    ///     fence.predicate()
    /// );
    /// let statement = Statement::builder(sql).add_param("id", "o-7");
    /// let changed = transaction.execute_update(fence.bind(statement).build()).await?;
    /// if changed != 1 {
    ///     fence.check(&transaction).await?; // was it the fence?
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn predicate(&self) -> String {
        // The table is an identifier, checked when the lock was built or the fence was read, and may be
        // a keyword; all that is data is a parameter.
        format!(
            "EXISTS (SELECT 1 FROM `{table}` AS fence WHERE fence.name = @fence_lock \
             AND fence.token = @fence_token AND fence.writer = @fence_writer)",
            table = self.table.replace('.', "`.`")
        )
    }

    /// Adds the parameters of [`predicate`](Fence::predicate) to a statement.
    pub fn bind(&self, statement: StatementBuilder) -> StatementBuilder {
        let token = self.token.to_datetime().to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
        statement
            .add_param("fence_lock", self.lock.as_str())
            .add_param("fence_token", token)
            .add_param("fence_writer", self.writer.as_str())
    }
}
