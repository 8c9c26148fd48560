//! `INFORMATION_SCHEMA`: the schema as rows.

use super::ast::TableName;
use super::error::SqlError;
use crate::engine::{Column, Dialect, Index, OnDelete, Parent, Schema, Table, Type, Value};

/// The name of the schema, in any case.
pub const NAME: &str = "INFORMATION_SCHEMA";

/// A table of `INFORMATION_SCHEMA`.
pub struct View {
    /// Its columns.
    pub columns: Vec<(String, Type)>,
    /// Its rows, by name of what they describe.
    pub rows: Vec<Vec<Value>>,
}

const TABLES: &str = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARENT_TABLE_NAME ON_DELETE_ACTION \
     TABLE_TYPE SPANNER_STATE INTERLEAVE_TYPE ROW_DELETION_POLICY_EXPRESSION";

const SCHEMATA: &str = "CATALOG_NAME SCHEMA_NAME EFFECTIVE_TIMESTAMP SCHEMA_OWNER";

const COLUMNS: &str = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION \
     COLUMN_DEFAULT DATA_TYPE IS_NULLABLE SPANNER_TYPE IS_GENERATED IS_HIDDEN \
     GENERATION_EXPRESSION ON_UPDATE_EXPRESSION IS_STORED SPANNER_STATE IS_IDENTITY \
     IDENTITY_GENERATION IDENTITY_KIND IDENTITY_START_WITH_COUNTER IDENTITY_SKIP_RANGE_MIN \
     IDENTITY_SKIP_RANGE_MAX";

const INDEXES: &str = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME INDEX_NAME INDEX_TYPE \
     PARENT_TABLE_NAME IS_UNIQUE IS_NULL_FILTERED INDEX_STATE FILTER SPANNER_IS_MANAGED";

const INDEX_COLUMNS: &str = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME INDEX_NAME INDEX_TYPE COLUMN_NAME \
     ORDINAL_POSITION COLUMN_ORDERING IS_NULLABLE SPANNER_TYPE";

const COLUMN_OPTIONS: &str =
    "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME OPTION_NAME OPTION_TYPE OPTION_VALUE";

const DATABASE_OPTIONS: &str = "CATALOG_NAME SCHEMA_NAME OPTION_NAME OPTION_TYPE OPTION_VALUE";

/// Returns the table of this name, in any case, for the tables of `schema`.
///
/// The tables of `INFORMATION_SCHEMA` itself are not among its rows.
pub fn view(name: &str, schema: &Schema) -> Option<View> {
    let name = name.to_ascii_uppercase();
    let (columns, rows) = match name.as_str() {
        "TABLES" => (TABLES, schema.tables().map(table_row).chain(view_rows(schema)).collect()),
        "COLUMNS" => {
            let spanner_type = match schema.dialect() {
                Dialect::GoogleSql => Column::spanner_type,
                Dialect::PostgreSql => Column::postgresql_type,
            };
            let row = |table: &Table, position, column: &Column| {
                column_row(table, position, column, spanner_type(column))
            };
            (COLUMNS, column_rows(schema, row))
        }
        "INDEXES" => (INDEXES, index_rows(schema)),
        "INDEX_COLUMNS" => (INDEX_COLUMNS, index_column_rows(schema)),
        "COLUMN_OPTIONS" => {
            let mut rows = column_rows(schema, option_row);
            // In the other dialect the type says it.
            rows.retain(|row| !row.is_empty() && schema.dialect() == Dialect::GoogleSql);
            (COLUMN_OPTIONS, rows)
        }
        "DATABASE_OPTIONS" => (DATABASE_OPTIONS, database_option_rows(schema)),
        "SCHEMATA" if schema.dialect() == Dialect::GoogleSql => {
            let row = |name: &str| vec!["".into(), name.into(), Value::Null, Value::Null];
            (SCHEMATA, ["", NAME, "SPANNER_SYS"].map(row).into())
        }
        _ => return None,
    };
    Some(shown(schema, columns, rows))
}

/// Returns true for its own name and those of its tables, in any case.
pub fn is_of_information_schema(name: &str, schema: &Schema) -> bool {
    name.eq_ignore_ascii_case(NAME) || view(name, schema).is_some()
}

/// Tables of the other dialect are in a schema that has a name.
fn shown(schema: &Schema, columns: &str, mut rows: Vec<Vec<Value>>) -> View {
    let kind = |name: &str| match name {
        "ORDINAL_POSITION" | "EFFECTIVE_TIMESTAMP" => Type::Int64,
        "IS_HIDDEN" | "IS_UNIQUE" | "IS_NULL_FILTERED" | "SPANNER_IS_MANAGED" => Type::Bool,
        _ => Type::String,
    };
    let columns: Vec<_> = columns.split(' ').map(|name| (name.to_owned(), kind(name))).collect();
    if schema.dialect() == Dialect::PostgreSql {
        let schemas = columns.iter().enumerate().filter(|(_, (name, _))| name.ends_with("_SCHEMA"));
        for (at, _) in schemas {
            rows.iter_mut().for_each(|row| row[at] = "public".into());
        }
    }
    View { columns, rows }
}

/// Other tables of `INFORMATION_SCHEMA` may exist in Spanner, so this one isn't called missing.
pub fn missing(name: &TableName) -> SqlError {
    SqlError::unsupported(name.at, format_args!("{NAME}.{}", name.name))
}

fn column_rows(
    schema: &Schema,
    row: impl Fn(&Table, usize, &Column) -> Vec<Value>,
) -> Vec<Vec<Value>> {
    let columns = |table: &'_ Table| -> Vec<Vec<Value>> {
        let columns = table.columns.iter().enumerate();
        columns.map(|(position, column)| row(table, position, column)).collect()
    };
    schema.tables().flat_map(columns).collect()
}

fn table_row(table: &Table) -> Vec<Value> {
    vec![
        "".into(),
        "".into(),
        table.name.as_str().into(),
        table.parent.as_ref().map(|parent| parent.table.as_str()).into(),
        table.parent.as_ref().filter(|parent| parent.is_enforced).map(on_delete).into(),
        "BASE TABLE".into(),
        "COMMITTED".into(),
        table.parent.as_ref().map(interleave_type).into(),
        table.row_deletion_policy.as_deref().into(),
    ]
}

/// The views, which are kept and not looked into.
fn view_rows(schema: &Schema) -> impl Iterator<Item = Vec<Value>> {
    let views = schema.kept().iter().filter(|kept| kept.kind == "VIEW");
    views.map(|view| {
        let mut row = vec![Value::Null; TABLES.split(' ').count()];
        row[..3].clone_from_slice(&["".into(), "".into(), view.name.as_str().into()]);
        row[5] = "VIEW".into();
        row
    })
}

fn on_delete(parent: &Parent) -> &'static str {
    match parent.on_delete {
        OnDelete::Cascade => "CASCADE",
        OnDelete::NoAction => "NO ACTION",
    }
}

fn interleave_type(parent: &Parent) -> &'static str {
    if parent.is_enforced { "IN PARENT" } else { "IN" }
}

/// The primary key of each table counts as an index.
fn index_rows(schema: &Schema) -> Vec<Vec<Value>> {
    let row = |table: &str, name: &str, kind: &str, index: Option<&Index>, unique: bool| {
        let state = index.map(|_| "READ_WRITE");
        vec![
            "".into(),
            "".into(),
            table.into(),
            name.into(),
            kind.into(),
            index.and_then(|index| index.interleaved_in.as_deref()).unwrap_or("").into(),
            unique.into(),
            index.is_some_and(|index| index.null_filtered).into(),
            state.into(),
            Value::Null,
            index.is_some_and(|index| index.is_managed).into(),
        ]
    };
    let keys =
        schema.tables().map(|table| row(&table.name, "PRIMARY_KEY", "PRIMARY_KEY", None, true));
    let indexes = schema.indexes().map(|index| {
        let index = &index.definition;
        row(&index.table, &index.name, "INDEX", Some(index), index.unique)
    });
    keys.chain(indexes).collect()
}

fn index_column_rows(schema: &Schema) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut add = |table: &str,
                   name: &str,
                   kind: &str,
                   column: &Column,
                   place: Option<(usize, bool)>,
                   filtered: bool| {
        let order = place.map(|(_, descending)| if descending { "DESC" } else { "ASC" });
        rows.push(vec![
            "".into(),
            "".into(),
            table.into(),
            name.into(),
            kind.into(),
            column.name.as_str().into(),
            place.map(|(place, _)| i64::try_from(place + 1).unwrap_or(i64::MAX)).into(),
            order.into(),
            if column.not_null || filtered { "NO" } else { "YES" }.into(),
            column.spanner_type().into(),
        ]);
    };
    for table in schema.tables() {
        for (place, part) in table.primary_key.iter().enumerate() {
            let column = &table.columns[part.position];
            let place = Some((place, part.descending));
            add(&table.name, "PRIMARY_KEY", "PRIMARY_KEY", column, place, false);
        }
    }
    for index in schema.indexes() {
        let (definition, entries) = (&index.definition, &index.entries);
        for (at, column) in entries.columns.iter().enumerate() {
            let own = definition.columns.get(at).map(|own| (at, own.descending));
            // The columns that the table's key adds aren't listed.
            if own.is_some() || !entries.is_key(at) {
                let filtered = definition.null_filtered && own.is_some();
                add(&definition.table, &definition.name, "INDEX", column, own, filtered);
            }
        }
    }
    rows
}

/// The dialect counts as an option.
fn database_option_rows(schema: &Schema) -> Vec<Vec<Value>> {
    let dialect = match schema.dialect() {
        Dialect::GoogleSql => "GOOGLE_STANDARD_SQL",
        Dialect::PostgreSql => "POSTGRESQL",
    };
    let options = std::iter::once(("database_dialect", dialect)).chain(schema.option_values());
    options
        .map(|(name, value)| {
            let kind = if name == "optimizer_version" { "INT64" } else { "STRING" };
            vec!["".into(), "".into(), name.into(), kind.into(), value.into()]
        })
        .collect()
}

fn column_row(table: &Table, position: usize, column: &Column, spanner_type: String) -> Vec<Value> {
    let ordinal = i64::try_from(position + 1).unwrap_or(i64::MAX);
    let default = column.default.as_ref().map(|default| default.text());
    // Of a kept identity column there is no text.
    let is_identity = default == Some("");
    vec![
        "".into(),
        "".into(),
        table.name.as_str().into(),
        column.name.as_str().into(),
        ordinal.into(),
        default.filter(|_| !is_identity).into(),
        Value::Null,
        if column.not_null { "NO" } else { "YES" }.into(),
        spanner_type.into(),
        if column.generated.is_some() { "ALWAYS" } else { "NEVER" }.into(),
        false.into(),
        column.generated.as_ref().map(|generated| generated.text()).into(),
        Value::Null,
        column.generated.as_ref().map(|_| "YES").into(),
        "COMMITTED".into(),
        if is_identity { "YES" } else { "NO" }.into(),
        is_identity.then_some("BY DEFAULT").into(),
        is_identity.then_some("BIT_REVERSED_POSITIVE_SEQUENCE").into(),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

fn option_row(table: &Table, _: usize, column: &Column) -> Vec<Value> {
    if !column.allow_commit_timestamp {
        return Vec::new();
    }
    let (table, column) = (table.name.as_str(), column.name.as_str());
    ["", "", table, column, "allow_commit_timestamp", "BOOL", "TRUE"].map(Value::from).to_vec()
}
