//! The schemas that DDL can make, and how the information schema shows them.

use super::*;

const PARENT: &str = "
    CREATE TABLE Parent (Id INT64 NOT NULL, Name STRING(9) NOT NULL, Other STRING(9))
      PRIMARY KEY (Id);
    CREATE TABLE Child (Id INT64 NOT NULL, Part STRING(9), Name STRING(9), Note STRING(9),
      CHECK (Id > 0),
      CONSTRAINT KnowsName FOREIGN KEY (Name) REFERENCES Parent (Name),
      CONSTRAINT KnowsId FOREIGN KEY (Id) REFERENCES Parent (Id) ON DELETE CASCADE,
    ) PRIMARY KEY (Id, Part), INTERLEAVE IN PARENT Parent;
    CREATE INDEX ByNote ON Child (Note);
    CREATE NULL_FILTERED INDEX ByName ON Child (Name)";

async fn start() -> World {
    let world = World::start().await;
    change(&world, PARENT).unwrap();
    world
}

fn refused(world: &World, ddl: &str, code: &str, reason: &str) {
    let refused = change(world, ddl).unwrap_err();
    assert_eq!(format!("{:?}", refused.code()), code, "{ddl}: {refused}");
    assert!(refused.to_string().contains(reason), "{ddl}: {refused}");
}

#[tokio::test]
async fn ddl_refers_to_what_is_there_in_its_case() {
    let world = start().await;
    for ddl in [
        "CREATE INDEX i ON child (Note)",
        "CREATE INDEX i ON Child (Id, Note), INTERLEAVE IN parent",
        "CREATE TABLE t (Id INT64 NOT NULL) PRIMARY KEY (Id), INTERLEAVE IN PARENT parent",
        "CREATE TABLE t (Id INT64, FOREIGN KEY (Id) REFERENCES parent (Id)) PRIMARY KEY (Id)",
        "ALTER TABLE child ADD COLUMN n INT64",
        "DROP TABLE child",
    ] {
        refused(&world, ddl, "NotFound", "Table not found: ");
    }
    refused(&world, "DROP INDEX bynote", "NotFound", "Index not found: bynote");
    let absent = "which does not exist in its base table Child";
    refused(&world, "CREATE INDEX i ON Child (note)", "InvalidArgument", absent);
    let fk = "CREATE TABLE t (Id INT64, FOREIGN KEY (id) REFERENCES Parent (Id)) PRIMARY KEY (Id)";
    refused(&world, fk, "FailedPrecondition", "Column `id` not found for table `t`");
    let child = "CREATE TABLE t (id INT64 NOT NULL) PRIMARY KEY (id), INTERLEAVE IN PARENT Parent";
    refused(&world, child, "FailedPrecondition", "must have key column Id of its parent");
    assert!(spindle_emulator::sql::parse_ddl("CREATE TABLE t (k INT64) PRIMARY KEY (K)").is_err());
    change(&world, "DROP TABLE IF EXISTS child; DROP INDEX IF EXISTS bynote").unwrap();
    assert!(world.emulator.database(DATABASE).unwrap().schema().table("Child").is_some());
}

#[tokio::test]
async fn what_is_interleaved_has_the_key_of_its_parent() {
    let world = start().await;
    let nullable = "CREATE TABLE t (Id INT64) PRIMARY KEY (Id), INTERLEAVE IN PARENT Parent";
    let reason = "references parent key column Id that is not null, but child key is nullable";
    refused(&world, nullable, "FailedPrecondition", reason);
    change(&world, "CREATE TABLE n (Note STRING(9), Id INT64) PRIMARY KEY (Note, Id)").unwrap();
    for (ddl, reason) in [
        ("CREATE INDEX i ON Child (Note), INTERLEAVE IN Parent", "parent key column Id."),
        ("CREATE INDEX i ON Child (Id DESC), INTERLEAVE IN Parent", "incorrect type or order"),
        ("CREATE INDEX i ON n (Id), INTERLEAVE IN Parent", "child key is nullable"),
        ("CREATE INDEX i ON Child (Note), INTERLEAVE IN n", "not a prefix of the keys of table n"),
    ] {
        refused(&world, ddl, "FailedPrecondition", reason);
    }
    change(
        &world,
        "CREATE INDEX Local ON Child (Id, Note), INTERLEAVE IN Parent;
         CREATE NULL_FILTERED INDEX Far ON n (Id), INTERLEAVE IN Parent",
    )
    .unwrap();
    let own = "ALTER TABLE Child ALTER COLUMN Id INT64 NOT NULL";
    refused(&world, own, "InvalidArgument", "Cannot alter parent key column Child.Id");
    let above = "ALTER TABLE Parent ALTER COLUMN Id INT64 NOT NULL";
    refused(&world, above, "InvalidArgument", "change to key column Parent.Id could not be made");
    change(&world, "ALTER TABLE Child ALTER COLUMN Part STRING(20)").unwrap();
}

#[tokio::test]
async fn an_index_has_a_key_whose_nulls_it_knows() {
    let world = start().await;
    let none = "CREATE INDEX i ON Child ()";
    refused(&world, none, "InvalidArgument", "Index i does not specify any key columns");
    let reason = "column Note is not allowed because it affects index ByNote";
    let change_null = "ALTER TABLE Child ALTER COLUMN Note STRING(9) NOT NULL";
    refused(&world, change_null, "FailedPrecondition", reason);
    change(&world, "ALTER TABLE Child ALTER COLUMN Note STRING(12)").unwrap();
}
