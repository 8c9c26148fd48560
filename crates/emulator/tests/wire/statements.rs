//! Statements: how they run, and how they are not run twice.

use proto::execute_batch_dml_request::Statement;
use proto::execute_sql_request::QueryMode;
use proto::result_set_stats::RowCount;

use super::*;

impl World {
    pub fn statement(&self, sql: &str) -> proto::ExecuteSqlRequest {
        let (session, sql) = (self.session.clone(), sql.into());
        proto::ExecuteSqlRequest { session, sql, ..Default::default() }
    }

    pub async fn execute(
        &mut self,
        sql: &str,
        seqno: i64,
        selector: Option<Selector>,
    ) -> Result<proto::ResultSet, Status> {
        let request = proto::ExecuteSqlRequest {
            transaction: selected(selector),
            seqno,
            ..self.statement(sql)
        };
        Ok(self.client.execute_sql(request).await?.into_inner())
    }

    /// Runs a statement that writes in this transaction, and counts its rows.
    pub async fn write(&mut self, id: &[u8], seqno: i64, sql: &str) -> Result<i64, Status> {
        let result = self.execute(sql, seqno, Some(Selector::Id(id.to_vec()))).await?;
        match result.stats.unwrap().row_count.unwrap() {
            RowCount::RowCountExact(count) => Ok(count),
            RowCount::RowCountLowerBound(_) => panic!("not exact"),
        }
    }

    pub async fn query(&mut self, sql: &str) -> Result<Vec<String>, Status> {
        Ok(rows(&self.execute(sql, 0, None).await?))
    }

    pub async fn batch(
        &mut self,
        id: &[u8],
        seqno: i64,
        statements: &[&str],
    ) -> Result<proto::ExecuteBatchDmlResponse, Status> {
        let statement = |sql: &&str| Statement { sql: (*sql).into(), ..Default::default() };
        let request = proto::ExecuteBatchDmlRequest {
            session: self.session.clone(),
            transaction: selected(Selector::Id(id.to_vec())),
            statements: statements.iter().map(statement).collect(),
            seqno,
            ..Default::default()
        };
        Ok(self.client.execute_batch_dml(request).await?.into_inner())
    }
}

const INSERT: &str = "INSERT INTO users (id, name) VALUES (1, 'a')";

#[tokio::test]
async fn a_repeated_statement_is_answered_again_and_not_run_again() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    assert_eq!(world.write(&id, 1, INSERT).await.unwrap(), 1);
    assert_eq!(code(world.write(&id, 2, INSERT).await), Code::AlreadyExists);
    assert_eq!(world.write(&id, 1, INSERT).await.unwrap(), 1);
    assert_eq!(code(world.write(&id, 2, INSERT).await), Code::AlreadyExists);
}

#[tokio::test]
async fn a_sequence_number_belongs_to_one_statement_and_does_not_go_back() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let insert = |id: i64| format!("INSERT INTO users (id) VALUES ({id})");
    world.write(&id, 2, &insert(2)).await.unwrap();
    assert_eq!(code(world.write(&id, 2, &insert(55)).await), Code::InvalidArgument);
    assert_eq!(code(world.write(&id, 1, &insert(1)).await), Code::InvalidArgument);
    world.write(&id, 3, &insert(3)).await.unwrap();
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.ids().await, ["2", "3"]);
}

#[tokio::test]
async fn a_batch_stops_at_the_first_statement_that_fails() {
    let mut world = World::start().await;
    let id = world.begin_read_write().await;
    let update = "UPDATE users SET name = 'b' WHERE id = 1";
    let reply = world.batch(&id, 1, &[INSERT, update, "SELECT 1", update]).await.unwrap();
    assert_eq!(reply.result_sets.len(), 2);
    let status = reply.status.clone().unwrap();
    assert_eq!(status.code, Code::InvalidArgument as i32);
    assert_eq!(status.message, "Statement 2: 'SELECT 1' is not valid DML.");
    assert_eq!(world.batch(&id, 1, &[INSERT, update, "SELECT 1", update]).await.unwrap(), reply);
    assert_eq!(code(world.batch(&id, 2, &[]).await), Code::InvalidArgument);
    let reply = world.batch(&id, 3, &["DELETE FROM users WHERE id = 9"]).await.unwrap();
    assert_eq!((reply.result_sets.len(), reply.status.unwrap().code), (1, 0));
    world.commit(&id, []).await.unwrap();
    assert_eq!(rows(&world.users(None).await.unwrap()), ["1 b NULL"]);
}

#[tokio::test]
async fn a_profile_tells_true_stats_beside_the_rows_and_a_plan_is_refused() {
    let mut world = World::start().await;
    world.commit_once([insert(1), insert(2)]).await.unwrap();
    let selector = Some(Selector::Id(world.begin_read_write().await));
    for (sql, shown) in [("SELECT * FROM users", 2), ("DELETE FROM users WHERE true", 0)] {
        let mut request = proto::ExecuteSqlRequest {
            query_mode: QueryMode::Profile as i32,
            transaction: selected(selector.clone()),
            ..world.statement(sql)
        };
        let found = world.client.execute_sql(request.clone()).await.unwrap().into_inner();
        let stats = found.stats.unwrap().query_stats.unwrap().fields;
        assert_eq!(found.rows.len(), shown);
        assert_eq!(stats["rows_returned"], text(shown.to_string()));
        assert!(stats.contains_key("elapsed_time"));
        request.query_mode = QueryMode::Plan as i32;
        let error = world.client.execute_sql(request).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        assert!(error.message().contains("PLAN"), "{error}");
    }
}

#[tokio::test]
async fn a_batch_whose_client_went_away_halfway_goes_on_from_there_when_it_is_repeated() {
    let mut world = World::start().await;
    world.commit_once([insert(1), insert(2), update(1, "a"), update(2, "a")]).await.unwrap();
    let holder = world.begin_read_write().await;
    let lock = "SELECT name FROM users WHERE id = 2 FOR UPDATE";
    world.execute(lock, 0, Some(Selector::Id(holder.clone()))).await.unwrap();
    let first = world.change_session().await;

    let id = world.begin_read_write().await;
    let statements = [
        "UPDATE users SET name = CONCAT(name, 'x') WHERE id = 1",
        "UPDATE users SET name = CONCAT(name, 'x') WHERE id = 2",
    ];
    // The first statement runs, and the second waits for the holder.
    waits(world.batch(&id, 1, &statements)).await;
    let second = std::mem::replace(&mut world.session, first);
    world.rollback(&holder).await.unwrap();
    world.session = second;
    let reply = world.batch(&id, 1, &statements).await.unwrap();
    assert_eq!((reply.result_sets.len(), reply.status.unwrap().code), (2, 0));
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.query("SELECT name FROM users").await.unwrap(), ["ax", "ax"]);
}

#[tokio::test]
async fn nothing_comes_after_the_last_statement_but_its_repetition_and_the_end() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let id = world.begin_read_write().await;
    let own = Some(Selector::Id(id.clone()));
    let request = proto::ExecuteSqlRequest {
        transaction: selected(own.clone()),
        seqno: 1,
        last_statement: true,
        ..world.statement("UPDATE users SET age = 1 WHERE id = 1")
    };
    let done = world.client.execute_sql(request.clone()).await.unwrap().into_inner();
    assert_eq!(world.client.execute_sql(request).await.unwrap().into_inner(), done);
    let update = "UPDATE users SET age = 2 WHERE id = 1";
    assert_eq!(code(world.write(&id, 2, update).await), Code::FailedPrecondition);
    assert_eq!(code(world.batch(&id, 3, &[update]).await), Code::FailedPrecondition);
    assert_eq!(code(world.users(own.clone()).await), Code::FailedPrecondition);
    assert_eq!(code(world.execute("SELECT 1", 0, own).await), Code::FailedPrecondition);
    world.commit(&id, []).await.unwrap();
    assert_eq!(world.query("SELECT age FROM users").await.unwrap(), ["1"]);
}

#[tokio::test]
async fn only_a_read_write_transaction_locks_what_it_reads() {
    let mut world = World::start().await;
    let error = world.query("SELECT id FROM users FOR UPDATE").await;
    assert_eq!(code(error), Code::InvalidArgument);
    let mut request = proto::ReadRequest {
        lock_hint: proto::read_request::LockHint::Exclusive as i32,
        ..world.read_request("users", &["id"])
    };
    assert_eq!(code(world.client.read(request.clone()).await), Code::InvalidArgument);
    let id = Some(Selector::Id(world.begin_read_write().await));
    world.execute("SELECT id FROM users FOR UPDATE", 0, id.clone()).await.unwrap();
    request.transaction = selected(id);
    world.client.read(request).await.unwrap();
}

#[tokio::test]
async fn a_strong_query_is_answered_beside_changes_of_the_schema() {
    let mut world = World::start().await;
    world.commit_once((0..1_000).map(insert).collect::<Vec<_>>()).await.unwrap();
    let database = world.emulator.database(DATABASE).unwrap();
    let [drop, add] = ["DROP COLUMN name", "ADD COLUMN name STRING(10)"].map(|what| {
        spindle_emulator::sql::parse_ddl(&format!("ALTER TABLE users {what}")).unwrap()
    });
    for _ in 0..5 {
        // Between its two reads, it has a thousand rows to look at.
        let sql = "SELECT b.* FROM users AS a JOIN users AS b ON b.id = a.id";
        let request = world.statement(sql);
        let mut client = world.client.clone();
        let query = tokio::spawn(async move { client.execute_sql(request).await });
        for change in [&drop, &add].repeat(30) {
            database.change_schema(change).unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(query.await.unwrap().unwrap().into_inner().rows.len(), 1_000);
    }
}

#[tokio::test]
async fn partitioned_dml_commits_with_its_statement_and_has_no_other() {
    use proto::result_set_stats::RowCount;
    let mut world = World::start().await;
    world.commit_once([insert(1), insert(2), insert(3)]).await.unwrap();
    let run = |id: &[u8], sql: &str, seqno, world: &World| proto::ExecuteSqlRequest {
        transaction: selected(Selector::Id(id.to_vec())),
        seqno,
        ..world.statement(sql)
    };
    let begun = world.begin(Mode::PartitionedDml(Default::default())).await.unwrap();
    let update = run(&begun.id, "UPDATE users SET age = 7 WHERE id < 3", 1, &world);
    for _ in 0..2 {
        let answer = world.client.execute_sql(update.clone()).await.unwrap().into_inner();
        let count = answer.stats.unwrap().row_count;
        assert_eq!(count, Some(RowCount::RowCountLowerBound(2)), "and when it is repeated");
    }
    let updated = rows(&world.users(None).await.unwrap());
    assert_eq!(updated, ["1 NULL 7", "2 NULL 7", "3 NULL NULL"], "without a commit");
    let other = run(&begun.id, "DELETE FROM users WHERE true", 2, &world);
    assert_eq!(code(world.client.execute_sql(other).await), Code::FailedPrecondition);
    assert_eq!(code(world.commit(&begun.id, []).await), Code::FailedPrecondition);

    for sql in [
        "INSERT INTO users (id) VALUES (4)",
        "DELETE FROM users WHERE true THEN RETURN id",
        "SELECT 1",
    ] {
        let id = world.begin(Mode::PartitionedDml(Default::default())).await.unwrap().id;
        let refused = world.client.execute_sql(run(&id, sql, 1, &world)).await;
        assert_eq!(code(refused), Code::InvalidArgument, "{sql}");
    }
    // One that fails leaves no lock.
    let id = world.begin(Mode::PartitionedDml(Default::default())).await.unwrap().id;
    let fails = run(&id, "UPDATE users SET age = DIV(1, id - 2) WHERE true", 1, &world);
    assert_eq!(code(world.client.execute_sql(fails).await), Code::OutOfRange);
    at_once(world.commit_once([update_age_of_first()])).await;
    assert_eq!(world.ids().await, ["1", "2", "3"]);
}

#[tokio::test]
async fn partitioned_dml_that_was_aborted_unheard_says_so_when_it_is_repeated() {
    let mut world = World::start().await;
    world.commit_once([insert(1)]).await.unwrap();
    let reader = world.begin_read_write().await;
    world.users(Some(Selector::Id(reader.clone()))).await.unwrap();
    let session = world.change_session().await;
    let begun = world.begin(Mode::PartitionedDml(Default::default())).await.unwrap();
    let update = proto::ExecuteSqlRequest {
        transaction: selected(Selector::Id(begun.id)),
        seqno: 1,
        ..world.statement("UPDATE users SET age = 7 WHERE age IS NULL")
    };
    // Its commit waits for the older transaction, which then writes what it has read.
    waits(world.client.execute_sql(update.clone())).await;
    let writing = std::mem::replace(&mut world.session, session);
    world.commit(&reader, [update_age_of_first()]).await.unwrap();
    world.session = writing;
    for _ in 0..2 {
        assert_eq!(code(world.client.execute_sql(update.clone()).await), Code::Aborted);
    }
    assert_eq!(rows(&world.users(None).await.unwrap()), ["1 NULL 8"]);
}

fn update_age_of_first() -> proto::Mutation {
    mutation(Operation::Update(write("users", ["id", "age"], [text("1"), text("8")])))
}
