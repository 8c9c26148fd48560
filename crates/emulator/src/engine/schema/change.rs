//! The changes that DDL asks for.

use super::super::column::{Column, ColumnDefault};
use super::super::index::Index;
use super::super::table::{Constraint, Table};

/// One change to a [`super::Schema`], as a DDL statement asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// `CREATE TABLE [IF NOT EXISTS]`
    CreateTable {
        /// The new table.
        table: Table,
        /// True if a table of that name makes this a no-op rather than an error.
        if_not_exists: bool,
    },
    /// `DROP TABLE [IF EXISTS]`
    DropTable {
        /// Its name, in any case.
        table: String,
        /// True if a missing table makes this a no-op rather than an error.
        if_exists: bool,
    },
    /// `CREATE INDEX [IF NOT EXISTS]`
    CreateIndex {
        /// The new index.
        index: Index,
        /// True if an index of that name makes this a no-op rather than an error.
        if_not_exists: bool,
    },
    /// `DROP INDEX [IF EXISTS]`
    DropIndex {
        /// Its name, in any case.
        index: String,
        /// True if a missing index makes this a no-op rather than an error.
        if_exists: bool,
    },
    /// `ALTER TABLE … ADD COLUMN [IF NOT EXISTS]`
    AddColumn {
        /// The table's name, in any case.
        table: String,
        /// The new column.
        column: Column,
        /// True if a column of that name makes this a no-op rather than an error.
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
    /// A statement that is kept and has no effect but in what DDL is shown.
    Keep {
        /// The kept thing.
        kept: Kept,
        /// True if it comes in the place of another one: `CREATE OR REPLACE`.
        replaces: bool,
    },
    /// `DROP` of something that is kept.
    Forget {
        /// Its kind, as [`Kept::kind`].
        kind: String,
        /// Its name, in any case.
        name: String,
        /// True if it may be missing.
        if_exists: bool,
    },
    /// `ALTER TABLE … ADD | REPLACE | DROP ROW DELETION POLICY`, which is kept and deletes nothing.
    SetRowDeletionPolicy {
        /// The table's name, in any case.
        table: String,
        /// The policy as it was written, without the parentheses around it; `None` to have none.
        policy: Option<String>,
    },
    /// `ALTER TABLE … ADD [CONSTRAINT …] …`
    AddConstraint {
        /// The table's name, in any case.
        table: String,
        /// The new constraint.
        constraint: Constraint,
    },
    /// `ALTER TABLE … DROP CONSTRAINT`
    DropConstraint {
        /// The table's name, in any case.
        table: String,
        /// The constraint's name, in any case.
        constraint: String,
    },
}

/// A statement that is kept for whoever asks for the DDL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The kind of the thing that it makes or changes: `VIEW`, `SEQUENCE`.
    pub kind: String,
    /// The name of that; empty for what has none.
    pub name: String,
    /// The statement as it was written.
    pub text: String,
}
