//! What tables there are: the part of a database that DDL changes.
//!
//! Names keep the case they were created with and are found in any case, as in GoogleSQL.

use std::collections::BTreeMap;

use super::column::{Column, ColumnDefault, check_column};
use super::error::{Code, Error, Result};
use super::index::{BoundIndex, Index};
use super::table::Table;
use super::value::Type;

/// One change to a [`Schema`], as a DDL statement asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// `CREATE TABLE [IF NOT EXISTS]`
    CreateTable {
        /// The new table.
        table: Table,
        /// Whether a table of that name makes this a no-op rather than an error.
        if_not_exists: bool,
    },
    /// `DROP TABLE [IF EXISTS]`
    DropTable {
        /// Its name, in any case.
        table: String,
        /// Whether a missing table makes this a no-op rather than an error.
        if_exists: bool,
    },
    /// `CREATE INDEX [IF NOT EXISTS]`
    CreateIndex {
        /// The new index.
        index: Index,
        /// Whether an index of that name makes this a no-op rather than an error.
        if_not_exists: bool,
    },
    /// `DROP INDEX [IF EXISTS]`
    DropIndex {
        /// Its name, in any case.
        index: String,
        /// Whether a missing index makes this a no-op rather than an error.
        if_exists: bool,
    },
    /// `ALTER TABLE … ADD COLUMN [IF NOT EXISTS]`
    AddColumn {
        /// The table's name, in any case.
        table: String,
        /// The new column.
        column: Column,
        /// Whether a column of that name makes this a no-op rather than an error.
        if_not_exists: bool,
    },
    /// `ALTER TABLE … DROP COLUMN`
    DropColumn {
        /// The table's name, in any case.
        table: String,
        /// The column's name, in any case.
        column: String,
    },
    /// `ALTER TABLE … ALTER COLUMN` with a type: the whole definition but for the options, which stay.
    AlterColumn {
        /// The table's name, in any case.
        table: String,
        /// The new definition; its name may be in any case.
        column: Column,
    },
    /// `ALTER TABLE … ALTER COLUMN … SET DEFAULT (…)` or `… DROP DEFAULT`
    SetDefault {
        /// The table's name, in any case.
        table: String,
        /// The column's name, in any case.
        column: String,
        /// The new default; `None` to have none.
        default: Option<ColumnDefault>,
    },
    /// `ALTER DATABASE … SET OPTIONS (…)`, of options that change no answer here.
    SetDatabaseOptions {
        /// The database's id, as the statement gives it.
        database: String,
        /// The options with their values, as they are written; `None` for NULL.
        options: Vec<(String, Option<String>)>,
    },
    /// `ALTER TABLE … ALTER COLUMN … SET OPTIONS (allow_commit_timestamp = …)`
    SetAllowCommitTimestamp {
        /// The table's name, in any case.
        table: String,
        /// The column's name, in any case.
        column: String,
        /// The option's new value.
        allow: bool,
    },
}

/// The language of a database's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// GoogleSQL
    #[default]
    GoogleSql,
    /// PostgreSQL's, as Cloud Spanner speaks it.
    PostgreSql,
}

/// The tables of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    dialect: Dialect,
    /// By name in lower case.
    tables: BTreeMap<String, Table>,
    /// By name in lower case.
    indexes: BTreeMap<String, BoundIndex>,
    /// The database's id as the last change of its options gave it.
    database: String,
    /// The options of the database, with their values as they were written.
    options: BTreeMap<String, String>,
}

impl Schema {
    /// A schema of this dialect, without tables.
    pub fn of(dialect: Dialect) -> Schema {
        Schema { dialect, ..Schema::default() }
    }

    /// The language of its statements.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The options that the database was given, as they were written, and its id.
    pub fn options(&self) -> (&str, impl ExactSizeIterator<Item = (&String, &String)>) {
        (&self.database, self.options.iter())
    }

    /// The table of this name, in any case.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(&name.to_ascii_lowercase())
    }

    /// Every table, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// The index of this name, in any case.
    pub fn index(&self, name: &str) -> Option<&BoundIndex> {
        self.indexes.get(&name.to_ascii_lowercase())
    }

    /// Every index, by name.
    pub fn indexes(&self) -> impl Iterator<Item = &BoundIndex> {
        self.indexes.values()
    }

    /// The indexes of a table, by name.
    pub fn indexes_of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a BoundIndex> {
        self.indexes().filter(move |index| index.definition.table.eq_ignore_ascii_case(table))
    }

    /// The tables whose rows need one in this table.
    pub(super) fn children_of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Table> {
        self.tables().filter(move |child| {
            let mut parent = child.parent.iter().filter(|parent| parent.is_enforced);
            parent.any(|parent| parent.table.eq_ignore_ascii_case(table))
        })
    }

    /// The table of this name, or what an index of this name is as a table.
    pub(super) fn relation(&self, name: &str) -> Option<&Table> {
        self.table(name).or_else(|| self.index(name).map(|index| &index.entries))
    }

    /// Applies one change.
    ///
    /// # Errors
    /// The change names something that isn't there, or that is there already, or it would leave a
    /// table that cannot be. The schema is then as it was.
    pub fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        match change {
            SchemaChange::CreateTable { table, if_not_exists } => {
                self.create_table(table, *if_not_exists)
            }
            SchemaChange::DropTable { table, if_exists } => self.drop_table(table, *if_exists),
            SchemaChange::CreateIndex { index, if_not_exists } => {
                self.create_index(index, *if_not_exists)
            }
            SchemaChange::DropIndex { index, if_exists } => {
                match self.indexes.remove(&index.to_ascii_lowercase()) {
                    None if !if_exists => {
                        Err(Error::new(Code::NotFound, format!("Index not found: {index}")))
                    }
                    _ => Ok(()),
                }
            }
            SchemaChange::AddColumn { table, column, if_not_exists } => {
                self.add_column(table, column, *if_not_exists)
            }
            SchemaChange::DropColumn { table, column } => self.drop_column(table, column),
            SchemaChange::AlterColumn { table, column } => self.alter_column(table, column),
            SchemaChange::SetDefault { table, column, default } => {
                self.replace_column(table, column, |old| Column { default: default.clone(), ..old })
            }
            SchemaChange::SetDatabaseOptions { database, options } => {
                self.database.clone_from(database);
                for (name, value) in options {
                    match value {
                        Some(value) => self.options.insert(name.clone(), value.clone()),
                        None => self.options.remove(name),
                    };
                }
                Ok(())
            }
            SchemaChange::SetAllowCommitTimestamp { table, column, allow } => {
                self.replace_column(table, column, |old| Column {
                    allow_commit_timestamp: *allow,
                    ..old
                })
            }
        }
    }

    fn create_table(&mut self, table: &Table, if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.table(&table.name).is_some() {
            return Ok(());
        }
        self.check_name(&table.name)?;
        check_table(table)?;
        self.check_interleaving(table)?;
        self.tables.insert(table.name.to_ascii_lowercase(), table.clone());
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<()> {
        match self.relation(name) {
            Some(_) => {
                Err(Error::failed_precondition(format!("Duplicate name in schema: {name}.")))
            }
            None => Ok(()),
        }
    }

    fn check_interleaving(&self, table: &Table) -> Result<()> {
        let Some(parent) = &table.parent else { return Ok(()) };
        let above = self.table(&parent.table);
        let above = above.ok_or_else(|| Error::table_not_found(&parent.table))?;
        for (at, part) in above.primary_key.iter().enumerate() {
            let column = &above.columns[part.position];
            let own = table.primary_key.get(at).filter(|own| {
                let found = &table.columns[own.position];
                own.descending == part.descending
                    && found.name.eq_ignore_ascii_case(&column.name)
                    && (found.column_type, found.max_length)
                        == (column.column_type, column.max_length)
            });
            if own.is_none() {
                return Err(Error::failed_precondition(format!(
                    "Interleaved table {} must have key column {} of its parent {} at place {} of \
                     its key, with the same type and order.",
                    table.name,
                    column.name,
                    above.name,
                    at + 1
                )));
            }
        }
        Ok(())
    }

    fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let Some(table) = self.table(name) else {
            return match if_exists {
                true => Ok(()),
                false => Err(Error::table_not_found(name)),
            };
        };
        let is_below = |child: &&Table| {
            child.parent.as_ref().is_some_and(|parent| parent.table.eq_ignore_ascii_case(name))
        };
        let children: Vec<&str> =
            self.tables().filter(is_below).map(|child| child.name.as_str()).collect();
        let indexes: Vec<&str> =
            self.indexes_of(name).map(|index| index.definition.name.as_str()).collect();
        for (what, names) in [("interleaved tables", children), ("indices", indexes)] {
            if !names.is_empty() {
                return Err(Error::failed_precondition(format!(
                    "Cannot drop table {} with {what}: {}.",
                    table.name,
                    names.join(", ")
                )));
            }
        }
        self.tables.remove(&name.to_ascii_lowercase());
        Ok(())
    }

    fn create_index(&mut self, index: &Index, if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.index(&index.name).is_some() {
            return Ok(());
        }
        self.check_name(&index.name)?;
        let table = self.table(&index.table);
        let table = table.ok_or_else(|| Error::table_not_found(&index.table))?;
        let bound = BoundIndex::new(index.clone(), table)?;
        self.indexes.insert(index.name.to_ascii_lowercase(), bound);
        Ok(())
    }

    /// Follows a change of a table's columns.
    fn bind_indexes(&mut self, table: &str) -> Result<()> {
        let Some(table) = self.tables.get(&table.to_ascii_lowercase()) else { return Ok(()) };
        for index in self.indexes.values_mut() {
            if index.definition.table.eq_ignore_ascii_case(&table.name) {
                *index = BoundIndex::new(index.definition.clone(), table)?;
            }
        }
        Ok(())
    }

    fn add_column(&mut self, table: &str, column: &Column, if_not_exists: bool) -> Result<()> {
        let table = self.table_mut(table)?;
        if table.position(&column.name).is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(duplicate_column(&table.name, &column.name)),
            };
        }
        if column.not_null && column.default.is_none() {
            return Err(Error::failed_precondition(format!(
                "Cannot add NOT NULL column {}.{} to existing table {}.",
                table.name, column.name, table.name
            )));
        }
        check_column(&table.name, column)?;
        table.columns.push(column.clone());
        Ok(())
    }

    fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        let users = self.indexes_of(table).filter(|index| index.uses(column));
        let users: Vec<&str> = users.map(|index| index.definition.name.as_str()).collect();
        if !users.is_empty() {
            return Err(Error::failed_precondition(format!(
                "Cannot drop column {column} from table {table} because it is used by index {}.",
                users.join(", ")
            )));
        }
        let (table, position) = self.column_mut(table, column)?;
        if table.is_key(position) {
            return Err(Error::failed_precondition(format!(
                "Cannot drop key column {} of table {}.",
                table.columns[position].name, table.name
            )));
        }
        table.columns.remove(position);
        for part in &mut table.primary_key {
            if part.position > position {
                part.position -= 1;
            }
        }
        let name = table.name.clone();
        self.bind_indexes(&name)
    }

    fn replace_column(
        &mut self,
        table: &str,
        column: &str,
        change: impl FnOnce(Column) -> Column,
    ) -> Result<()> {
        let (table, position) = self.column_mut(table, column)?;
        let changed = change(table.columns[position].clone());
        check_column(&table.name, &changed)?;
        table.columns[position] = changed;
        let name = table.name.clone();
        self.bind_indexes(&name)
    }

    fn alter_column(&mut self, table: &str, new: &Column) -> Result<()> {
        let (table, position) = self.column_mut(table, &new.name)?;
        let old = &table.columns[position];
        let named = format!("column {}.{}", table.name, old.name);
        let (from, to) = (old.column_type, new.column_type);
        match (from, to) {
            (Type::String, Type::Bytes) | (Type::Bytes, Type::String) => {
                return Err(Error::unimplemented(format!(
                    "Not supported here: changing the type of {named} from {from} to {to}"
                )));
            }
            _ if from != to => {
                return Err(Error::failed_precondition(format!(
                    "Cannot change the type of {named} from {from} to {to}."
                )));
            }
            _ if old.not_null != new.not_null && table.is_key(position) => {
                return Err(Error::failed_precondition(format!(
                    "Cannot change NOT NULL of key {named}."
                )));
            }
            (_, Type::Array(_)) if new.not_null && !old.not_null => {
                return Err(Error::failed_precondition(format!(
                    "Cannot add NOT NULL to {named} of type {to}."
                )));
            }
            _ => {}
        }
        let changed = Column {
            name: old.name.clone(),
            allow_commit_timestamp: old.allow_commit_timestamp,
            ..new.clone()
        };
        check_column(&table.name, &changed)?;
        table.columns[position] = changed;
        let name = table.name.clone();
        self.bind_indexes(&name)
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut Table> {
        self.tables.get_mut(&name.to_ascii_lowercase()).ok_or_else(|| Error::table_not_found(name))
    }

    fn column_mut(&mut self, table: &str, column: &str) -> Result<(&mut Table, usize)> {
        let table = self.table_mut(table)?;
        let position =
            table.position(column).ok_or_else(|| Error::column_not_found(&table.name, column))?;
        Ok((table, position))
    }
}

fn check_table(table: &Table) -> Result<()> {
    for (position, column) in table.columns.iter().enumerate() {
        if table.position(&column.name) != Some(position) {
            return Err(duplicate_column(&table.name, &column.name));
        }
        check_column(&table.name, column)?;
    }
    for (index, part) in table.primary_key.iter().enumerate() {
        if part.position >= table.columns.len() {
            return Err(Error::invalid_argument(format!(
                "Table {} references a key column that it does not have.",
                table.name
            )));
        }
        let column = &table.columns[part.position];
        if !column.column_type.is_comparable() {
            return Err(Error::invalid_argument(format!(
                "Column {}.{} has type {}, but is part of the primary key.",
                table.name, column.name, column.column_type
            )));
        }
        if table.primary_key[..index].iter().any(|other| other.position == part.position) {
            return Err(Error::invalid_argument(format!(
                "Table {} references key column {} more than once.",
                table.name, table.columns[part.position].name
            )));
        }
    }
    Ok(())
}

fn duplicate_column(table: &str, column: &str) -> Error {
    Error::failed_precondition(format!("Duplicate column name {table}.{column}."))
}

#[cfg(test)]
mod tests {
    use super::super::table::KeyColumn;
    use super::*;

    fn orders() -> Table {
        Table {
            columns: vec![
                Column::new("note", Type::String),
                Column { not_null: true, ..Column::new("id", Type::Int64) },
            ],
            primary_key: vec![KeyColumn { position: 1, descending: false }],
            ..Table::new("Orders")
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        let mut schema = Schema::default();
        let create = SchemaChange::CreateTable { table: orders(), if_not_exists: false };
        schema.apply(&create).unwrap();
        assert_eq!(schema.table("ORDERS").unwrap().position("ID"), Some(1));
        assert!(schema.apply(&create).is_err());
    }

    #[test]
    fn dropping_a_column_keeps_the_key_where_it_is() {
        let mut schema = Schema::default();
        schema.apply(&SchemaChange::CreateTable { table: orders(), if_not_exists: false }).unwrap();
        let drop = |column: &str| SchemaChange::DropColumn {
            table: "orders".into(),
            column: column.into(),
        };
        assert!(schema.apply(&drop("id")).is_err());
        schema.apply(&drop("note")).unwrap();
        let table = schema.table("orders").unwrap();
        assert_eq!(table.columns[table.primary_key[0].position].name, "id");
    }
}
