//! Statements that are kept though nothing here does what they ask for.

use super::super::error::{Code, Error, Result};
use super::super::index::BoundIndex;
use super::super::table::Table;
use super::Schema;
use super::change::Kept;

impl Schema {
    /// Returns every statement that is kept, in the order in which they came.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Returns the thing that is kept under this name, in any case.
    pub fn kept_as(&self, name: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| !name.is_empty() && kept.name.eq_ignore_ascii_case(name))
    }

    /// Returns the error for a table that isn't there.
    pub(crate) fn missing_table(&self, name: &str) -> Error {
        match self.kept_as(name) {
            Some(kept) => {
                Error::unimplemented(format!("Not supported here: the {} {name}", kept.kind))
            }
            None => Error::table_not_found(name),
        }
    }

    /// Returns the index of this name, in any case, which has to be one of the table's.
    ///
    /// # Errors
    /// It isn't, or isn't there.
    pub(crate) fn index_of(&self, table: &Table, name: &str) -> Result<&BoundIndex> {
        let index = self.index(name).ok_or_else(|| match self.kept_as(name) {
            Some(_) => self.missing_table(name),
            None => {
                let message = format!("No index '{name}' was found for table '{}'.", table.name);
                Error::new(Code::NotFound, message)
            }
        })?;
        let of = &index.definition.table;
        match of.eq_ignore_ascii_case(&table.name) {
            true => Ok(index),
            false => Err(Error::failed_precondition(format!(
                "Index '{name}' indexes '{of}' which does not match the given base table '{}'.",
                table.name
            ))),
        }
    }

    pub(super) fn keep(&mut self, kept: &Kept, replaces: bool) -> Result<()> {
        let is_same =
            |other: &Kept| other.kind == kept.kind && other.name.eq_ignore_ascii_case(&kept.name);
        if replaces {
            self.kept.retain(|other| !is_same(other));
        }
        if !self.kept.iter().any(is_same) {
            self.check_name(&kept.name)?;
        }
        self.kept.push(kept.clone());
        Ok(())
    }

    pub(super) fn forget(&mut self, kind: &str, name: &str, if_exists: bool) -> Result<()> {
        let before = self.kept.len();
        self.kept.retain(|kept| kept.kind != kind || !kept.name.eq_ignore_ascii_case(name));
        match before == self.kept.len() && !if_exists {
            true => Err(Error::new(Code::NotFound, format!("{kind} not found: {name}"))),
            false => Ok(()),
        }
    }
}
