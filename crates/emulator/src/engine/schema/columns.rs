//! Changes of a table's columns.

use super::super::check::{check_table, duplicate_column};
use super::super::column::{Column, check_column};
use super::super::error::{Error, Result};
use super::super::table::Table;
use super::super::value::Type;
use super::Schema;

impl Schema {
    pub(super) fn add_column(
        &mut self,
        table: &str,
        column: &Column,
        if_not_exists: bool,
    ) -> Result<()> {
        let table = self.table_mut(table)?;
        if table.position(&column.name).is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(duplicate_column(&table.name, &column.name)),
            };
        }
        if column.not_null && column.default.is_none() && column.generated.is_none() {
            return Err(Error::unimplemented(format!(
                "Cannot add NOT NULL column {}.{} to existing table {}.",
                table.name, column.name, table.name
            )));
        }
        check_column(&table.name, column)?;
        let mut changed = table.clone();
        changed.columns.push(column.clone());
        check_table(&changed)?;
        *table = changed;
        Ok(())
    }

    pub(super) fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        self.check_unused(table, column)?;
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
            return Err(Error::invalid_argument(format!(
                "Cannot drop key column {} from table {}.",
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

    pub(super) fn replace_column(
        &mut self,
        table: &str,
        column: &str,
        change: impl FnOnce(Column) -> Column,
    ) -> Result<()> {
        let (table, position) = self.column_mut(table, column)?;
        let mut changed = table.clone();
        changed.columns[position] = change(table.columns[position].clone());
        check_table(&changed)?;
        *table = changed;
        let name = table.name.clone();
        self.bind_indexes(&name)
    }

    /// A column that has foreign keys, or that an index with NULL has, stays with NULL or without.
    fn check_nulls_unused(&self, table: &str, column: &str) -> Result<()> {
        let change = format_args!("change the nullability for column `{column}` of");
        self.check_no_foreign_key(table, column, change)?;
        let mut indexes = self.indexes_of(table).map(|index| &index.definition);
        let found = indexes.find(|index| {
            let mut key = index.columns.iter();
            !index.null_filtered && key.any(|part| part.name.eq_ignore_ascii_case(column))
        });
        match found {
            None => Ok(()),
            Some(index) => Err(Error::failed_precondition(format!(
                "Changing NOT NULL constraints on column {column} is not allowed because it \
                 affects index {}.",
                index.name
            ))),
        }
    }

    /// The columns that interleaved tables share stay as they are.
    pub(super) fn check_interleaved_column(&self, table: &str, column: &str) -> Result<()> {
        let table = self.named(table)?;
        let Some(at) = table.position(column).filter(|at| table.is_key(*at)) else {
            return Ok(());
        };
        let named = format!("{}.{}", table.name, table.columns[at].name);
        let parent = table.parent.as_ref().and_then(|parent| self.table(&parent.table));
        if parent.is_some_and(|parent| parent.position(column).is_some()) {
            return Err(Error::invalid_argument(format!(
                "Cannot alter parent key column {named}."
            )));
        }
        let is_child =
            |other: &Table| other.parent.as_ref().is_some_and(|parent| parent.table == table.name);
        match self.tables().any(is_child) {
            true => Err(Error::invalid_argument(format!(
                "Requested change to key column {named} could not be made."
            ))),
            false => Ok(()),
        }
    }

    pub(super) fn alter_column(&mut self, table: &str, new: &Column) -> Result<()> {
        self.check_interleaved_column(table, &new.name)?;
        let nulls = self.check_nulls_unused(table, &new.name);
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
                return Err(Error::invalid_argument(format!(
                    "Cannot change the type of {named} from {from} to {to}."
                )));
            }
            _ if old.not_null != new.not_null && nulls.is_err() => return nulls,
            _ if old.generated.is_some() && new.generated.is_none() => {
                return Err(Error::invalid_argument(format!(
                    "Cannot convert generated column `{}.{}` to a regular column.",
                    table.name, old.name
                )));
            }
            _ if old.generated.is_none() && new.generated.is_some() => {
                return Err(Error::invalid_argument(format!(
                    "Cannot convert column `{}.{}` to a generated column.",
                    table.name, old.name
                )));
            }
            _ if old.generated != new.generated => {
                return Err(Error::invalid_argument(format!(
                    "Cannot change the expression of a generated column `{}.{}` because it is \
                     stored or has other dependencies.",
                    table.name, old.name
                )));
            }
            _ if old.not_null != new.not_null && table.is_key(position) => {
                return Err(Error::invalid_argument(format!(
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
}
