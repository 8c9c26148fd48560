//! Databases: how they come and go.

use super::*;

#[tokio::test]
async fn a_database_is_there_with_its_tables_from_its_creation_to_its_drop() {
    let mut office = Office::with_orders().await;
    let found = office.get_database(ORDERS).await.unwrap();
    assert_eq!(found.state(), database::database::State::Ready);
    assert_eq!(found.database_dialect(), database::DatabaseDialect::GoogleStandardSql);
    assert!(found.create_time.is_some());
    assert!(office.emulator.database(ORDERS).unwrap().schema().table("t").is_some());
    let again = office.create_database("CREATE DATABASE `eu-1`", &[]).await;
    assert_eq!(code(again), Code::AlreadyExists);

    office.drop_database(ORDERS).await.unwrap();
    assert_eq!(code(office.get_database(ORDERS).await), Code::NotFound);
    assert_eq!(code(office.ddl().await), Code::NotFound);
    assert_eq!(code(office.drop_database(ORDERS).await), Code::NotFound);
    assert!(office.emulator.database(ORDERS).is_none());
}

#[tokio::test]
async fn a_database_shows_its_options() {
    let mut office = Office::with_orders().await;
    assert_eq!(office.get_database(ORDERS).await.unwrap().default_leader, "");
    let set = "ALTER DATABASE `eu-1` SET OPTIONS (default_leader = 'europe-west1')";
    office.update(&[set]).await.unwrap();
    assert_eq!(office.get_database(ORDERS).await.unwrap().default_leader, "europe-west1");
    let mut client = SpannerClient::new(connected(office.emulator.endpoint()).await);
    let session = proto::CreateSessionRequest { database: ORDERS.into(), ..Default::default() };
    let query = proto::ExecuteSqlRequest {
        session: client.create_session(session).await.unwrap().into_inner().name,
        sql:
            "SELECT OPTION_NAME, OPTION_TYPE, OPTION_VALUE FROM INFORMATION_SCHEMA.DATABASE_OPTIONS
              WHERE SCHEMA_NAME = '' ORDER BY OPTION_NAME"
                .into(),
        ..Default::default()
    };
    let found = client.execute_sql(query).await.unwrap().into_inner();
    assert_eq!(
        rows(&found),
        ["database_dialect STRING GOOGLE_STANDARD_SQL", "default_leader STRING europe-west1"]
    );
}

#[tokio::test]
async fn a_database_that_the_program_made_brings_its_instance_along() {
    let world = World::start().await;
    let mut office = Office::of(world.emulator).await;
    assert_eq!(
        office.names().await,
        (vec!["projects/p/instances/i".into()], vec![DATABASE.into()])
    );
    // Set-up code that starts from nothing can drop it, and make it again.
    office.drop_database(DATABASE).await.unwrap();
    let request = database::CreateDatabaseRequest {
        parent: "projects/p/instances/i".into(),
        create_statement: "CREATE DATABASE other".into(),
        ..Default::default()
    };
    office.databases.create_database(request).await.unwrap();
    assert!(office.emulator.database("projects/p/instances/i/databases/other").is_some());
}

#[tokio::test]
async fn an_instance_takes_its_databases_and_their_sessions_along() {
    let mut world = World::start().await;
    let emulator = std::mem::replace(&mut world.emulator, Emulator::start().await.unwrap());
    let mut office = Office::of(emulator).await;
    let request = instance::DeleteInstanceRequest { name: "projects/p/instances/i".into() };
    office.instances.delete_instance(request).await.unwrap();
    assert_eq!(office.names().await, (vec![], vec![]));
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
}

#[tokio::test]
async fn a_session_stays_lost_when_its_database_is_made_again() {
    let mut world = World::start().await;
    let emulator = std::mem::replace(&mut world.emulator, Emulator::start().await.unwrap());
    let mut office = Office::of(emulator).await;
    office.drop_database(DATABASE).await.unwrap();
    let gone = world.users(None).await.unwrap_err();
    assert_eq!(gone.message(), format!("Database not found: {DATABASE}"));
    office.emulator.create_database(DATABASE, DDL).await.unwrap();
    let lost = world.users(None).await.unwrap_err();
    assert_eq!(lost.code(), Code::NotFound);
    assert_eq!(lost.message(), format!("Session not found: {}", world.session));
}

#[tokio::test]
async fn a_restart_that_loses_databases_loses_their_instances() {
    let mut office = Office::with_orders().await;
    office.emulator.restart(spindle_emulator::Restart::lose_databases()).await.unwrap();
    office.instances = InstanceAdminClient::new(connected(office.emulator.endpoint()).await);
    assert_eq!(office.names().await, (vec![], vec![]));
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing_behind() {
    let mut office = Office::open().await;
    let nowhere = office.create_database("CREATE DATABASE `eu-1`", &[]).await;
    assert_eq!(code(nowhere), Code::NotFound);
    for bad in ["Orders", "o", "orders-", ""] {
        assert_eq!(code(office.create_instance(bad).await), Code::InvalidArgument, "{bad}");
    }
    office.create_instance("orders").await.unwrap();
    for (statement, extra, expected) in [
        ("CREATE DATABASE eu-1", "", Code::InvalidArgument),
        ("CREATE DATABASE eu b", "", Code::InvalidArgument),
        ("", "", Code::InvalidArgument),
        ("CREATE DATABASE EU", "", Code::InvalidArgument),
        ("DROP DATABASE eu", "", Code::InvalidArgument),
        ("CREATE DATABASE eu", "CREATE TABLE", Code::InvalidArgument),
        ("CREATE DATABASE eu", "CREATE VIEW v AS SELECT 1", Code::Unimplemented),
        ("CREATE DATABASE eu", "DROP TABLE t", Code::NotFound),
        ("CREATE DATABASE eu", "DROP TABLE IF EXISTS t; DROP TABLE u", Code::InvalidArgument),
    ] {
        let extra: &[&str] = if extra.is_empty() { &[] } else { &[extra] };
        let refused = office.create_database(statement, extra).await;
        assert_eq!(code(refused), expected, "{statement} {extra:?}");
    }
    assert_eq!(office.names().await, (vec![INSTANCE.into()], vec![]));
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_by_its_name() {
    let mut office = Office::with_orders().await;
    let backup = database::ListBackupsRequest { parent: INSTANCE.into(), ..Default::default() };
    let refused = office.databases.list_backups(backup).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("DatabaseAdmin/ListBackups"), "{refused}");
}

#[tokio::test]
async fn a_lenient_server_keeps_the_descriptors_of_protos_and_another_refuses_them() {
    let create = |descriptors: &[u8]| database::CreateDatabaseRequest {
        parent: "projects/p/instances/orders".into(),
        create_statement: "CREATE DATABASE `eu-1`".into(),
        proto_descriptors: descriptors.to_vec(),
        ..Default::default()
    };
    let mut strict = Office::open().await;
    strict.create_instance("orders").await.unwrap();
    let refused = strict.databases.create_database(create(b"told")).await;
    assert_eq!(code(refused), Code::Unimplemented);

    let emulator = Emulator::builder().lenient_ddl().start().await.unwrap();
    let mut office = Office::of(emulator).await;
    office.create_instance("orders").await.unwrap();
    for told in [&b"told"[..], &[]] {
        office.databases.create_database(create(told)).await.unwrap();
        assert_eq!(office.ddl_of(ORDERS).await.unwrap().proto_descriptors, told);
        let update = database::UpdateDatabaseDdlRequest {
            database: ORDERS.into(),
            statements: vec![TABLE.into()],
            proto_descriptors: b"more".to_vec(),
            ..Default::default()
        };
        office.databases.update_database_ddl(update).await.unwrap();
        assert_eq!(office.ddl_of(ORDERS).await.unwrap().proto_descriptors, b"more");
        let copy = format!("{ORDERS}-copy");
        office.emulator.copy_database(ORDERS, &copy).unwrap();
        assert_eq!(office.ddl_of(&copy).await.unwrap().proto_descriptors, b"more");
        assert!(office.emulator.drop_database(&copy));
        office.drop_database(ORDERS).await.unwrap();
    }
}

#[tokio::test]
async fn a_database_of_the_postgresql_dialect_has_tables_and_no_other_statements() {
    let mut office = Office::with_orders().await;
    let name = format!("{INSTANCE}/databases/pg");
    let mut request = database::CreateDatabaseRequest {
        parent: INSTANCE.into(),
        create_statement: "CREATE DATABASE \"pg\"".into(),
        database_dialect: database::DatabaseDialect::Postgresql.into(),
        extra_statements: vec!["CREATE TABLE t (k text PRIMARY KEY)".into()],
        ..Default::default()
    };
    let refused = office.databases.create_database(request.clone()).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    request.extra_statements.clear();
    office.databases.create_database(request).await.unwrap();
    let found = office.get_database(&name).await.unwrap();
    assert_eq!(found.database_dialect(), database::DatabaseDialect::Postgresql);
    let update = |statement: &str| database::UpdateDatabaseDdlRequest {
        database: name.clone(),
        statements: vec![statement.into()],
        ..Default::default()
    };
    let google = update("CREATE TABLE t (k STRING(MAX)) PRIMARY KEY (k)");
    assert!(office.databases.update_database_ddl(google).await.is_err());
    let table = "CREATE TABLE t (
  k character varying(8) NOT NULL,
  \"At\" spanner.commit_timestamp,
  PRIMARY KEY(k)
)";
    office.databases.update_database_ddl(update(table)).await.unwrap();
    assert_eq!(office.ddl_of(&name).await.unwrap().statements, [table]);

    let mut client = SpannerClient::new(connected(office.emulator.endpoint()).await);
    let session = proto::CreateSessionRequest { database: name, ..Default::default() };
    let session = client.create_session(session).await.unwrap().into_inner().name;
    let query = |sql: &str| proto::ExecuteSqlRequest {
        session: session.clone(),
        sql: sql.into(),
        ..Default::default()
    };
    let columns = query(
        "SELECT column_name, spanner_type FROM information_schema.columns
         WHERE table_schema IN ('', 'public') AND LOWER(table_name) = 't'",
    );
    let found = client.execute_sql(columns).await.unwrap().into_inner();
    assert_eq!(rows(&found), ["k character varying(8)", "At spanner.commit_timestamp"]);
    for other in ["SELECT k FROM t", "SELECT \"k\""] {
        let refused = client.execute_sql(query(other)).await;
        assert_eq!(code(refused), Code::Unimplemented, "{other}");
    }
}
