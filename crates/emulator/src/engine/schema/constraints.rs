//! Constraints, and the indexes that foreign keys need.

use std::fmt;
use std::sync::Arc;

use super::super::check::{check_schema_name, check_table};
use super::super::column::Column;
use super::super::error::{Code, Error, Result};
use super::super::index::{Index, IndexColumn};
use super::super::table::{Check, Constraint, ForeignKey, Table};
use super::Schema;

impl Schema {
    /// Adds the constraints that a new table comes with.
    pub(super) fn add_constraints(&mut self, table: &Table) -> Result<()> {
        let checks = table.checks.iter().cloned().map(Constraint::Check);
        let keys = table.foreign_keys.iter().cloned().map(Constraint::ForeignKey);
        checks.chain(keys).try_for_each(|constraint| self.add_constraint(&table.name, &constraint))
    }

    pub(super) fn add_constraint(&mut self, name: &str, constraint: &Constraint) -> Result<()> {
        let table = self.table_mut(name)?.clone();
        match constraint {
            Constraint::Check(check) => {
                check_constraint_name("Check Constraint", &check.name)?;
                let name = self.constraint_name(&check.name, &format!("CK_{}", table.name))?;
                let mut changed = table;
                changed.checks.push(Check { name, ..check.clone() });
                check_table(&changed)?;
                self.tables.insert(changed.name.to_ascii_lowercase(), Arc::new(changed));
                Ok(())
            }
            Constraint::ForeignKey(key) => {
                check_constraint_name("Foreign Key", &key.name)?;
                let stem = format!("FK_{}_{}", table.name, key.table);
                let name = self.constraint_name(&key.name, &stem)?;
                let key = ForeignKey { name, ..key.clone() };
                self.check_foreign_key(&table, &key)?;
                self.create_managed_indexes(&table.name, &key)?;
                self.table_mut(&table.name)?.foreign_keys.push(key);
                Ok(())
            }
        }
    }

    pub(super) fn drop_constraint(&mut self, name: &str, constraint: &str) -> Result<()> {
        let table = self.table_mut(name)?;
        let is_meant = |name: &str| name.eq_ignore_ascii_case(constraint);
        if let Some(at) = table.checks.iter().position(|check| is_meant(&check.name)) {
            table.checks.remove(at);
            return Ok(());
        }
        match table.foreign_keys.iter().position(|key| is_meant(&key.name)) {
            Some(at) => {
                let key = table.foreign_keys.remove(at);
                self.drop_managed_indexes(name, &key);
                Ok(())
            }
            None => {
                let message = format!("{constraint} is not a constraint in {}", table.name);
                Err(Error::new(Code::NotFound, message))
            }
        }
    }

    /// Returns true if a constraint has this name, in any case.
    pub(super) fn has_constraint(&self, name: &str) -> bool {
        self.tables().any(|table| {
            let checks = table.checks.iter().map(|check| &check.name);
            let mut names = checks.chain(table.foreign_keys.iter().map(|key| &key.name));
            names.any(|constraint| constraint.eq_ignore_ascii_case(name))
        })
    }

    /// The name of a new constraint: the one that it has, or one that is made for it.
    fn constraint_name(&self, given: &str, stem: &str) -> Result<String> {
        if !given.is_empty() {
            return self.check_name(given).map(|()| given.to_owned());
        }
        let mut number = 1;
        while self.check_name(&format!("{stem}_{number}")).is_err() {
            number += 1;
        }
        Ok(format!("{stem}_{number}"))
    }

    fn check_foreign_key(&self, table: &Table, key: &ForeignKey) -> Result<()> {
        let refused = |message: String| Err(Error::failed_precondition(message));
        let name = &key.name;
        let above = self.named(&key.table)?;
        if key.columns.is_empty() || key.referenced.is_empty() {
            return refused(format!(
                "At least one column is required for table `{}` in foreign key `{name}`.",
                table.name
            ));
        }
        if key.columns.len() != key.referenced.len() {
            return refused(format!(
                "The number of columns are different for table `{}` and table `{}` in foreign key \
                 `{name}`.",
                table.name, above.name
            ));
        }
        let own = key_columns(table, &key.columns, name)?;
        let other = key_columns(above, &key.referenced, name)?;
        for (own, other) in own.iter().zip(other) {
            if own.column_type != other.column_type {
                return refused(format!(
                    "The column types are different for column `{}` of table `{}` and column `{}` \
                     of table `{}` in foreign key `{name}`.",
                    own.name, table.name, other.name, above.name
                ));
            }
        }
        Ok(())
    }

    /// The indexes that find the rows of both sides, where no key of a table does.
    fn create_managed_indexes(&mut self, table: &str, key: &ForeignKey) -> Result<()> {
        for (on, columns, unique) in
            [(table, &key.columns, false), (key.table.as_str(), &key.referenced, true)]
        {
            let on = self.table(on).ok_or_else(|| Error::table_not_found(on))?;
            if !key.is_enforced || has_key(on, columns, unique) {
                continue;
            }
            let name = key.index_name(&on.name, columns, unique);
            let columns = columns.iter().map(|column| {
                let position = on.position(column);
                let name = position.map_or(column, |at| &on.columns[at].name).clone();
                IndexColumn { name, descending: false }
            });
            let index = Index {
                table: on.name.clone(),
                name,
                unique,
                null_filtered: true,
                columns: columns.collect(),
                storing: Vec::new(),
                interleaved_in: None,
                is_managed: true,
            };
            self.create_index(&index, true)?;
        }
        Ok(())
    }

    pub(super) fn drop_managed_indexes(&mut self, table: &str, key: &ForeignKey) {
        for (on, columns, unique) in
            [(table, &key.columns, false), (key.table.as_str(), &key.referenced, true)]
        {
            if let Some(on) = self.table(on) {
                let name = key.index_name(&on.name, columns, unique);
                self.indexes.remove(&name.to_ascii_lowercase());
            }
        }
    }

    /// Returns the finder of the rows of one side of a foreign key by its columns: the table
    /// itself, or the index that was made for it.
    pub(in super::super) fn finder<'a>(
        &'a self,
        table: &'a Table,
        key: &ForeignKey,
        is_referenced: bool,
    ) -> Option<&'a Table> {
        let columns = if is_referenced { &key.referenced } else { &key.columns };
        if has_key(table, columns, is_referenced) {
            return Some(table);
        }
        let index = self.index(&key.index_name(&table.name, columns, is_referenced));
        index.map(|index| &index.entries)
    }

    /// Returns the enforced foreign keys that refer to a table, each with the table that has it.
    pub(in super::super) fn references_to<'a>(
        &'a self,
        table: &'a str,
    ) -> impl Iterator<Item = (&'a Table, &'a ForeignKey)> {
        self.tables().flat_map(move |child| {
            let refers =
                |key: &&ForeignKey| key.is_enforced && key.table.eq_ignore_ascii_case(table);
            child.foreign_keys.iter().filter(refers).map(move |key| (child, key))
        })
    }

    /// Refuses to drop a table that rows of others refer to.
    pub(super) fn check_unreferenced(&self, table: &Table) -> Result<()> {
        let others = self.tables().filter(|other| other.name != table.name);
        let keys = others.flat_map(|other| &other.foreign_keys);
        let keys: Vec<String> = keys
            .filter(|key| key.table.eq_ignore_ascii_case(&table.name))
            .map(|key| format!("`{}`", key.name))
            .collect();
        match keys.is_empty() {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "Cannot drop table `{}`. It is referenced by one or more foreign keys: {}. You \
                 must drop the foreign keys before dropping the table.",
                table.name,
                keys.join(", ")
            ))),
        }
    }

    /// Refuses to drop an index that a foreign key needs.
    pub(super) fn check_unmanaged(&self, index: &str) -> Result<()> {
        match self.index(index).filter(|index| index.definition.is_managed) {
            None => Ok(()),
            Some(index) => Err(Error::failed_precondition(format!(
                "Cannot drop index `{}`. It is in use by foreign keys.",
                index.definition.name
            ))),
        }
    }

    /// Refuses a change of a column that foreign keys use.
    pub(super) fn check_no_foreign_key(
        &self,
        table: &str,
        column: &str,
        change: fmt::Arguments<'_>,
    ) -> Result<()> {
        let among = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(column));
        let mut found = Vec::new();
        for child in self.tables() {
            for key in &child.foreign_keys {
                let own = child.name.eq_ignore_ascii_case(table) && among(&key.columns);
                let other = key.table.eq_ignore_ascii_case(table) && among(&key.referenced);
                if own || other {
                    found.push(format!("`{}`", key.name));
                }
            }
        }
        match found.is_empty() {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "Cannot {change} table `{table}`. It is used by one or more foreign keys: {}.",
                found.join(", ")
            ))),
        }
    }

    /// Refuses to drop a column that something else is made of.
    pub(super) fn check_unused(&self, name: &str, column: &str) -> Result<()> {
        self.check_no_foreign_key(name, column, format_args!("drop column `{column}` from"))?;
        let Some(table) = self.table(name) else { return Ok(()) };
        let uses = |other: &&Column| other.generated.as_ref().is_some_and(|f| f.uses(column));
        if let Some(other) = table.columns.iter().find(uses) {
            return Err(Error::failed_precondition(format!(
                "Cannot drop column `{column}` from table `{name}` because it is referenced by \
                 generated column `{}`.",
                other.name
            )));
        }
        match table.checks.iter().find(|check| check.condition.uses(column)) {
            None => Ok(()),
            Some(check) => Err(Error::failed_precondition(format!(
                "Cannot drop column `{column}` on which there is a dependent check constraint: {}.",
                check.name
            ))),
        }
    }
}

/// Refuses a name that a constraint cannot be given.
fn check_constraint_name(kind: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Ok(());
    }
    check_schema_name(kind, name)?;
    let begins = |prefix: &&str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    match ["PK_", "CK_IS_NOT_NULL_"].iter().find(|prefix| begins(prefix)) {
        None => Ok(()),
        Some(prefix) => Err(Error::invalid_argument(format!(
            "Invalid {kind} name: {name}. Prefix {prefix} cannot be used."
        ))),
    }
}

impl ForeignKey {
    /// Returns the name of the index over one of its sides.
    fn index_name(&self, table: &str, columns: &[String], unique: bool) -> String {
        let unique = if unique { "U_" } else { "" };
        format!("IDX_{table}_{}_{unique}{}", columns.join("_"), self.name)
    }
}

/// Returns true if the key of a table finds its rows by these columns; with `whole`, one row at
/// most.
fn has_key(table: &Table, columns: &[String], whole: bool) -> bool {
    let key = &table.primary_key;
    let count_fits = if whole { columns.len() == key.len() } else { columns.len() <= key.len() };
    count_fits
        && columns
            .iter()
            .zip(key)
            .all(|(column, part)| table.columns[part.position].name.eq_ignore_ascii_case(column))
}

fn key_columns<'a>(table: &'a Table, names: &[String], key: &str) -> Result<Vec<&'a Column>> {
    let mut columns: Vec<&Column> = Vec::new();
    for name in names {
        let found = table.columns.iter().find(|column| column.name == *name);
        let refused = match found {
            None => format!(
                "Column `{name}` not found for table `{}` in foreign key `{key}`.",
                table.name
            ),
            Some(column) if columns.iter().any(|other| other.name == column.name) => format!(
                "Column `{name}` used more than once for table `{}` in foreign key `{key}`.",
                table.name
            ),
            Some(column) if !column.column_type.is_comparable() => format!(
                "Column `{name}` for foreign key `{key}` on table `{}` has an unsupported type.",
                table.name
            ),
            Some(column) if column.allow_commit_timestamp => format!(
                "Commit timestamp column is not supported for column `{name}` of table `{}` in \
                 foreign key `{key}`.",
                table.name
            ),
            Some(column) => {
                columns.push(column);
                continue;
            }
        };
        return Err(Error::failed_precondition(refused));
    }
    Ok(columns)
}
