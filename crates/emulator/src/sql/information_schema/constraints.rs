//! The constraints of the tables as rows. A primary key, a NOT NULL and the unique index of a
//! foreign key count as constraints too.

use crate::engine::{ForeignKey, OnDelete, Schema, Table, Value};

const TABLE_CONSTRAINTS: &[&str] = &[
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "CONSTRAINT_TYPE",
    "IS_DEFERRABLE",
    "INITIALLY_DEFERRED",
    "ENFORCED",
];

const CONSTRAINT_TABLE_USAGE: &[&str] = &[
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
];

const CONSTRAINT_COLUMN_USAGE: &[&str] = &[
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "COLUMN_NAME",
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
];

const KEY_COLUMN_USAGE: &[&str] = &[
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "COLUMN_NAME",
    "ORDINAL_POSITION",
    "POSITION_IN_UNIQUE_CONSTRAINT",
];

const CHECK_CONSTRAINTS: &[&str] = &[
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "CHECK_CLAUSE",
    "SPANNER_STATE",
];

const REFERENTIAL_CONSTRAINTS: &[&str] = &[
    "CONSTRAINT_CATALOG",
    "CONSTRAINT_SCHEMA",
    "CONSTRAINT_NAME",
    "UNIQUE_CONSTRAINT_CATALOG",
    "UNIQUE_CONSTRAINT_SCHEMA",
    "UNIQUE_CONSTRAINT_NAME",
    "MATCH_OPTION",
    "UPDATE_RULE",
    "DELETE_RULE",
    "SPANNER_STATE",
];

type Rows = Vec<Vec<Value>>;

/// A constraint, as the tables that are about constraints tell of it.
struct Fact<'a> {
    name: String,
    kind: Kind<'a>,
    /// The table that has it.
    table: &'a str,
    /// The columns of that table that are its key, if it is one.
    key: Vec<&'a str>,
    /// The table whose columns it uses: for a foreign key, the other one.
    used_table: &'a str,
    used: Vec<&'a str>,
}

enum Kind<'a> {
    PrimaryKey,
    Unique,
    Check { clause: String },
    ForeignKey { key: &'a ForeignKey, unique: String },
}

/// Returns the columns and rows of the table of this name, in upper case, if it is one about
/// constraints.
pub(super) fn view<'a>(name: &str, schema: &'a Schema) -> Option<(&'static [&'static str], Rows)> {
    let (columns, rows_of): (_, fn(&Fact<'a>) -> Rows) = match name {
        "TABLE_CONSTRAINTS" => (TABLE_CONSTRAINTS, Fact::table_constraints),
        "CONSTRAINT_TABLE_USAGE" => (CONSTRAINT_TABLE_USAGE, Fact::table_usage),
        "CONSTRAINT_COLUMN_USAGE" => (CONSTRAINT_COLUMN_USAGE, Fact::column_usage),
        "KEY_COLUMN_USAGE" => (KEY_COLUMN_USAGE, Fact::key_usage),
        "CHECK_CONSTRAINTS" => (CHECK_CONSTRAINTS, Fact::checks),
        "REFERENTIAL_CONSTRAINTS" => (REFERENTIAL_CONSTRAINTS, Fact::references),
        _ => return None,
    };
    Some((columns, facts(schema).iter().flat_map(rows_of).collect()))
}

fn facts(schema: &Schema) -> Vec<Fact<'_>> {
    let mut facts = Vec::new();
    for table in schema.tables() {
        let about = |name: String, kind, key: Vec<_>, used| {
            let table = table.name.as_str();
            Fact { name, kind, table, key, used_table: table, used }
        };
        let key = table.primary_key.iter().map(|part| table.columns[part.position].name.as_str());
        let key: Vec<&str> = key.collect();
        facts.push(about(primary_key_name(table), Kind::PrimaryKey, key.clone(), key));
        for column in table.columns.iter().filter(|column| column.not_null) {
            let name = format!("CK_IS_NOT_NULL_{}_{}", table.name, column.name);
            let clause = format!("{} IS NOT NULL", column.name);
            facts.push(about(name, Kind::Check { clause }, Vec::new(), vec![&column.name]));
        }
        for check in &table.checks {
            let names = table.columns.iter().map(|column| column.name.as_str());
            let used = names.filter(|name| check.condition.uses(name)).collect();
            let clause = check.condition.text().to_owned();
            facts.push(about(check.name.clone(), Kind::Check { clause }, Vec::new(), used));
        }
        facts.extend(table.foreign_keys.iter().map(|key| foreign_key(schema, table, key)));
    }
    let managed = schema.indexes().map(|index| &index.definition);
    for index in managed.filter(|index| index.is_managed && index.unique) {
        let key: Vec<&str> = index.columns.iter().map(|column| column.name.as_str()).collect();
        let (name, table) = (index.name.clone(), index.table.as_str());
        let used = key.clone();
        facts.push(Fact { name, kind: Kind::Unique, table, key, used_table: table, used });
    }
    facts
}

fn foreign_key<'a>(schema: &Schema, table: &'a Table, key: &'a ForeignKey) -> Fact<'a> {
    let names = |columns: &'a [String]| columns.iter().map(String::as_str).collect();
    Fact {
        name: key.name.clone(),
        kind: Kind::ForeignKey { key, unique: schema.referenced_constraint(key) },
        table: &table.name,
        key: names(&key.columns),
        used_table: &key.table,
        used: names(&key.referenced),
    }
}

/// Returns what happens to a row when the one that it refers to, or belongs to, is deleted.
pub(super) fn action(on_delete: OnDelete) -> &'static str {
    match on_delete {
        OnDelete::Cascade => "CASCADE",
        OnDelete::NoAction => "NO ACTION",
    }
}

fn primary_key_name(table: &Table) -> String {
    format!("PK_{}", table.name)
}

impl Fact<'_> {
    /// The columns that each of its rows has: catalog, schema and name of the constraint.
    fn named(&self) -> [Value; 3] {
        ["".into(), "".into(), self.name.as_str().into()]
    }

    fn table_constraints(&self) -> Rows {
        let (kind, is_enforced) = match &self.kind {
            Kind::PrimaryKey => ("PRIMARY KEY", true),
            Kind::Unique => ("UNIQUE", true),
            Kind::Check { .. } => ("CHECK", true),
            Kind::ForeignKey { key, .. } => ("FOREIGN KEY", key.is_enforced),
        };
        let enforced = if is_enforced { "YES" } else { "NO" };
        let mut row = Vec::from(self.named());
        row.extend(["", "", self.table, kind, "NO", "NO", enforced].map(Value::from));
        vec![row]
    }

    fn table_usage(&self) -> Rows {
        let mut row = Vec::from(["", "", self.used_table].map(Value::from));
        row.extend(self.named());
        vec![row]
    }

    fn column_usage(&self) -> Rows {
        let row = |column: &&str| {
            let mut row = Vec::from(["", "", self.used_table, column].map(Value::from));
            row.extend(self.named());
            row
        };
        self.used.iter().map(row).collect()
    }

    fn key_usage(&self) -> Rows {
        let is_foreign = matches!(self.kind, Kind::ForeignKey { .. });
        let row = |(place, column): (i64, &&str)| {
            let mut row = Vec::from(self.named());
            row.extend(["", "", self.table, column].map(Value::from));
            row.extend([place.into(), is_foreign.then_some(place).into()]);
            row
        };
        (1..).zip(&self.key).map(row).collect()
    }

    fn checks(&self) -> Rows {
        let Kind::Check { clause } = &self.kind else { return Vec::new() };
        let mut row = Vec::from(self.named());
        row.extend([clause.as_str(), "COMMITTED"].map(Value::from));
        vec![row]
    }

    fn references(&self) -> Rows {
        let Kind::ForeignKey { key, unique } = &self.kind else { return Vec::new() };
        let delete = key.on_delete.map_or("NO ACTION", action);
        let mut row = Vec::from(self.named());
        let rest = ["", "", unique.as_str(), "SIMPLE", "NO ACTION", delete, "COMMITTED"];
        row.extend(rest.map(Value::from));
        vec![row]
    }
}
