//! The tables: the part of a database that DDL changes.
//!
//! Names keep the case they were created with and are found in any case, as in GoogleSQL.

mod change;
mod columns;
mod constraints;
mod kept;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::{check_schema_name, check_table};
use super::column::Column;
use super::error::{Code, Error, Result};
use super::index::{BoundIndex, Index};
use super::table::Table;

pub use change::{Kept, SchemaChange};

/// The language of a database's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// GoogleSQL
    #[default]
    GoogleSql,
    /// PostgreSQL's, as Cloud Spanner speaks it.
    PostgreSql,
}

/// Returns a name as the tables and indexes are found by it.
pub(super) fn in_lower_case(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// The most tables that are interleaved in each other.
const DEPTH_MAX: usize = 7;
/// The most indexes of a table.
const INDEXES_MAX: usize = 128;

/// The tables of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    dialect: Dialect,
    /// By name in lower case.
    tables: BTreeMap<String, Arc<Table>>,
    /// By name in lower case.
    indexes: BTreeMap<String, Arc<BoundIndex>>,
    /// The database's id as the last change of its options gave it.
    database: String,
    /// The options of the database, with their values as they were written.
    options: BTreeMap<String, String>,
    /// The things that are shown with the rest and do nothing.
    kept: Vec<Kept>,
}

impl Schema {
    /// Returns a schema of this dialect, without tables.
    pub fn of(dialect: Dialect) -> Schema {
        Schema { dialect, ..Schema::default() }
    }

    /// Returns the language of its statements.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the options that the database was given, as they were written, and its id.
    pub fn options(&self) -> (&str, impl ExactSizeIterator<Item = (&String, &String)>) {
        (&self.database, self.options.iter())
    }

    /// Returns the options that the database was given, as answers show them: without quotes.
    pub fn option_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.trim_matches('\'')))
    }

    /// Returns the table of this name, in any case.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(&*in_lower_case(name))
    }

    /// Returns every table, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values().map(|table| &**table)
    }

    /// Returns the index of this name, in any case.
    pub fn index(&self, name: &str) -> Option<&BoundIndex> {
        self.indexes.get(&*in_lower_case(name)).map(|index| &**index)
    }

    /// Returns every index, by name.
    pub fn indexes(&self) -> impl Iterator<Item = &Arc<BoundIndex>> {
        self.indexes.values()
    }

    /// Returns the indexes of a table, by name.
    pub fn indexes_of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Arc<BoundIndex>> {
        self.indexes().filter(move |index| index.definition.table.eq_ignore_ascii_case(table))
    }

    /// Returns the tables whose rows need one in this table.
    pub(super) fn children_of<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Table> {
        self.tables().filter(move |child| {
            let mut parent = child.parent.iter().filter(|parent| parent.is_enforced);
            parent.any(|parent| parent.table.eq_ignore_ascii_case(table))
        })
    }

    /// Returns true if a column can hold the commit timestamp: it has the option. If it is part of
    /// the key, so have the same parts of the tables above and below.
    pub(super) fn allows_commit_timestamp(&self, table: &Table, position: usize) -> bool {
        let name = &table.columns[position].name;
        let allows = |table: &Table| {
            let found = table.position(name).map(|position| &table.columns[position]);
            found.is_none_or(|column| column.allow_commit_timestamp)
        };
        if !table.is_key(position) {
            return allows(table);
        }
        self.with_above(table).all(allows)
            && self.tables().all(|other| {
                let is_below = self.with_above(other).any(|above| above.name == table.name);
                !is_below || allows(other)
            })
    }

    /// Returns a table and those that it is interleaved in, upwards.
    fn with_above<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Table> {
        std::iter::successors(Some(table), |table| {
            self.table(&table.parent.as_ref()?.table).map(|above| &**above)
        })
    }

    /// Returns the table of this name, or what an index of this name is as a table.
    pub(super) fn relation(&self, name: &str) -> Option<&Table> {
        let table = self.table(name).map(|table| &**table);
        table.or_else(|| self.index(name).map(|index| &index.entries))
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
                self.check_unmanaged(index)?;
                let is_meant = |found: &BoundIndex| found.definition.name == *index;
                if self.index(index).is_some_and(is_meant) {
                    self.indexes.remove(&index.to_ascii_lowercase());
                } else if !if_exists {
                    return Err(Error::new(Code::NotFound, format!("Index not found: {index}")));
                }
                Ok(())
            }
            SchemaChange::AddColumn { table, column, if_not_exists } => {
                self.add_column(table, column, *if_not_exists)
            }
            SchemaChange::DropColumn { table, column } => self.drop_column(table, column),
            SchemaChange::AlterColumn { table, column } => self.alter_column(table, column),
            SchemaChange::SetDefault { table, column, default } => {
                self.check_interleaved_column(table, column)?;
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
            SchemaChange::Keep { kept, replaces } => self.keep(kept, *replaces),
            SchemaChange::Forget { kind, name, if_exists } => self.forget(kind, name, *if_exists),
            SchemaChange::SetRowDeletionPolicy { table, policy } => {
                self.table_mut(table)?.row_deletion_policy.clone_from(policy);
                Ok(())
            }
            SchemaChange::AddConstraint { table, constraint } => {
                self.add_constraint(table, constraint)
            }
            SchemaChange::DropConstraint { table, constraint } => {
                self.drop_constraint(table, constraint)
            }
            SchemaChange::SetAllowCommitTimestamp { table, column, allow } => {
                if *allow {
                    let change =
                        format_args!("set the commit_timestamp option for column `{column}` of");
                    self.check_no_foreign_key(table, column, change)?;
                }
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
        check_schema_name("Table", &table.name)?;
        self.check_name(&table.name)?;
        check_table(table)?;
        self.check_interleaving(table)?;
        let constraints = Table { checks: Vec::new(), foreign_keys: Vec::new(), ..table.clone() };
        self.tables.insert(table.name.to_ascii_lowercase(), Arc::new(constraints));
        let added = self.add_constraints(table);
        if added.is_err() {
            self.remove_table(&table.name);
        }
        added
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let is_taken = self.relation(name).is_some() || self.has_constraint(name);
        match is_taken || self.kept_as(name).is_some() {
            true => Err(Error::failed_precondition(format!("Duplicate name in schema: {name}."))),
            false => Ok(()),
        }
    }

    fn check_interleaving(&self, table: &Table) -> Result<()> {
        let Some(parent) = &table.parent else { return Ok(()) };
        let above = self.named(&parent.table)?;
        if self.with_above(table).count() > DEPTH_MAX {
            return Err(Error::failed_precondition(format!(
                "Table {} is too deeply nested; the limit is {DEPTH_MAX}.",
                table.name
            )));
        }
        for (at, part) in above.primary_key.iter().enumerate() {
            let column = &above.columns[part.position];
            let own = table.primary_key.get(at).filter(|own| {
                let found = &table.columns[own.position];
                own.descending == part.descending
                    && found.name == column.name
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
            let own = &table.columns[table.primary_key[at].position];
            check_nullability("Table", &table.name, own, column)?;
        }
        Ok(())
    }

    /// Returns true if `table` is this one, or interleaved in it over any number of others.
    fn is_ancestor(&self, above: &Table, table: &str) -> bool {
        let parent = || self.table(table).and_then(|table| table.parent.as_ref());
        table.eq_ignore_ascii_case(&above.name)
            || parent().is_some_and(|parent| self.is_ancestor(above, &parent.table))
    }

    /// The table that an index is interleaved in has the first columns of its key.
    fn check_interleaved_index(&self, index: &BoundIndex) -> Result<()> {
        let Index { name, interleaved_in, null_filtered, columns, .. } = &index.definition;
        let Some(parent) = interleaved_in else { return Ok(()) };
        let above = self.named(parent).map_err(|_| {
            Error::failed_precondition(format!(
                "Cannot interleave index {name} within nonexistent table {parent}."
            ))
        })?;
        if above.primary_key.len() > columns.len() {
            return Err(Error::failed_precondition(format!(
                "Index {name} specifies keys that are not a prefix of the keys of table {parent}, \
                 yet is to be interleaved in {parent}."
            )));
        }
        for (at, part) in above.primary_key.iter().enumerate() {
            let (own, column) = (&index.entries.columns[at], &above.columns[part.position]);
            if !own.name.eq_ignore_ascii_case(&column.name) {
                return Err(Error::failed_precondition(format!(
                    "Index {name} does not reference index parent key column {}.",
                    column.name
                )));
            }
            let form = |column: &Column| (column.column_type, column.max_length);
            if form(own) != form(column) || columns[at].descending != part.descending {
                return Err(Error::failed_precondition(format!(
                    "Index {name} references parent key column {} with incorrect type or order.",
                    column.name
                )));
            }
            if !null_filtered && !own.not_null {
                check_nullability("Index", name, own, column)?;
            }
        }
        let table = &index.definition.table;
        match self.is_ancestor(above, table) {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "Cannot interleave index {name} of table {table} within table {parent} because \
                 {parent} is not an ancestor of {table}."
            ))),
        }
    }

    fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let table = match self.named(name) {
            Err(_) if if_exists => return Ok(()),
            table => table?,
        };
        let is_below = |child: &&Table| {
            child.parent.as_ref().is_some_and(|parent| parent.table.eq_ignore_ascii_case(name))
        };
        let children: Vec<&str> =
            self.tables().filter(is_below).map(|child| child.name.as_str()).collect();
        let own = self.indexes_of(name).filter(|index| !index.definition.is_managed);
        let indexes: Vec<&str> = own.map(|index| index.definition.name.as_str()).collect();
        self.check_unreferenced(table)?;
        for (what, names) in [("interleaved tables", children), ("indices", indexes)] {
            if !names.is_empty() {
                return Err(Error::failed_precondition(format!(
                    "Cannot drop table {} with {what}: {}.",
                    table.name,
                    names.join(", ")
                )));
            }
        }
        self.remove_table(name);
        Ok(())
    }

    /// Removes a table with what only it needs.
    fn remove_table(&mut self, name: &str) {
        let keys = self.table(name).map(|table| table.foreign_keys.clone()).unwrap_or_default();
        for key in &keys {
            self.drop_managed_indexes(name, key);
        }
        self.tables.remove(&name.to_ascii_lowercase());
    }

    fn create_index(&mut self, index: &Index, if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.index(&index.name).is_some() {
            return Ok(());
        }
        if !index.is_managed {
            self.check_limits(index)?;
        }
        self.check_name(&index.name)?;
        let bound = BoundIndex::new(index.clone(), self.named(&index.table)?)?;
        self.check_interleaved_index(&bound)?;
        self.indexes.insert(index.name.to_ascii_lowercase(), Arc::new(bound));
        Ok(())
    }

    /// Refuses an index that a table cannot have.
    fn check_limits(&self, index: &Index) -> Result<()> {
        let Index { name, table, .. } = index;
        check_schema_name("Index", name)?;
        if name.eq_ignore_ascii_case("PRIMARY_KEY") {
            return Err(Error::invalid_argument(format!(
                "Cannot use reserved name {name} for a secondary index"
            )));
        }
        match self.indexes_of(table).count() < INDEXES_MAX {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "Cannot add index {name} to table {table}: too many indices (limit {INDEXES_MAX} per \
                 table)."
            ))),
        }
    }

    /// Follows a change of a table's columns.
    fn bind_indexes(&mut self, table: &str) -> Result<()> {
        let Some(table) = self.tables.get(&table.to_ascii_lowercase()) else { return Ok(()) };
        for index in self.indexes.values_mut() {
            if index.definition.table.eq_ignore_ascii_case(&table.name) {
                *index = Arc::new(BoundIndex::new(index.definition.clone(), table)?);
            }
        }
        Ok(())
    }

    /// Returns the table that a statement names: DDL keeps to the case of what it refers to.
    fn named(&self, name: &str) -> Result<&Arc<Table>> {
        let table = self.table(name).filter(|table| table.name == name);
        table.ok_or_else(|| Error::table_not_found(name))
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut Table> {
        self.named(name)?;
        let table = self.tables.get_mut(&name.to_ascii_lowercase());
        table.map(Arc::make_mut).ok_or_else(|| Error::table_not_found(name))
    }

    fn column_mut(&mut self, table: &str, column: &str) -> Result<(&mut Table, usize)> {
        let table = self.table_mut(table)?;
        let position = table.find(column)?;
        Ok((table, position))
    }
}

/// An interleaved table or index has NULL in its key where its parent has.
fn check_nullability(kind: &str, name: &str, own: &Column, above: &Column) -> Result<()> {
    let said = |column: &Column| if column.not_null { "not null" } else { "nullable" };
    match own.not_null == above.not_null {
        true => Ok(()),
        false => Err(Error::failed_precondition(format!(
            "{kind} {name} references parent key column {} that is {}, but child key is {}.",
            above.name,
            said(above),
            said(own)
        ))),
    }
}
