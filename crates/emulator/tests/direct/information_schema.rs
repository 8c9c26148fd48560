//! The columns of the views of `INFORMATION_SCHEMA`: those of Cloud Spanner, in its order. Google's emulator lists them
//! in `info_schema_columns_metadata.csv` and leaves out `IS_HIDDEN`, `ON_UPDATE_EXPRESSION` and `FILTER`.

use crate::memory::Memory;

#[test]
fn a_view_of_the_information_schema_has_the_columns_of_cloud_spanners() {
    let database = Memory::with_orders();
    for (view, columns) in [
        (
            "TABLES",
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARENT_TABLE_NAME ON_DELETE_ACTION TABLE_TYPE SPANNER_STATE \
             INTERLEAVE_TYPE ROW_DELETION_POLICY_EXPRESSION",
        ),
        (
            "COLUMNS",
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION COLUMN_DEFAULT DATA_TYPE IS_NULLABLE \
             SPANNER_TYPE IS_GENERATED IS_HIDDEN GENERATION_EXPRESSION ON_UPDATE_EXPRESSION IS_STORED SPANNER_STATE \
             IS_IDENTITY IDENTITY_GENERATION IDENTITY_KIND IDENTITY_START_WITH_COUNTER IDENTITY_SKIP_RANGE_MIN \
             IDENTITY_SKIP_RANGE_MAX",
        ),
        (
            "INDEXES",
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME INDEX_NAME INDEX_TYPE PARENT_TABLE_NAME IS_UNIQUE IS_NULL_FILTERED \
             INDEX_STATE FILTER SPANNER_IS_MANAGED",
        ),
        (
            "INDEX_COLUMNS",
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME INDEX_NAME INDEX_TYPE COLUMN_NAME ORDINAL_POSITION COLUMN_ORDERING \
             IS_NULLABLE SPANNER_TYPE",
        ),
        (
            "COLUMN_OPTIONS",
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME OPTION_NAME OPTION_TYPE OPTION_VALUE",
        ),
        ("DATABASE_OPTIONS", "CATALOG_NAME SCHEMA_NAME OPTION_NAME OPTION_TYPE OPTION_VALUE"),
        ("SCHEMATA", "CATALOG_NAME SCHEMA_NAME EFFECTIVE_TIMESTAMP SCHEMA_OWNER"),
    ] {
        let outcome = database.run(&format!("SELECT * FROM INFORMATION_SCHEMA.{view}")).unwrap();
        let names: Vec<&str> = outcome.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.join(" "), columns, "{view}");
        assert!(outcome.rows.iter().all(|row| row.len() == names.len()), "{view}");
    }
    let filter = "SELECT FILTER FROM INFORMATION_SCHEMA.INDEXES WHERE TABLE_NAME = 'Flags'";
    assert_eq!(database.rows(filter), ["NULL"]);
}
