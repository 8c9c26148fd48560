//! Statements that are kept though nothing here does what they ask for.

use super::super::error::{Code, Error, Result};
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
    pub(in super::super) fn missing_table(&self, name: &str) -> Error {
        match self.kept_as(name) {
            Some(kept) => {
                Error::unimplemented(format!("Not supported here: the {} {name}", kept.kind))
            }
            None => Error::table_not_found(name),
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
