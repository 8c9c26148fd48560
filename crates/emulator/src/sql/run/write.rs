//! Statements that write.

use super::query::columns;
use super::{Execution, Outcome};
use crate::engine::{Cell, Error, Key, KeyRange, Mutation, Result, Table, Value, WriteKind};
use crate::sql::eval::{Row, Rows};
use crate::sql::plan::{Action, NewValue, Node, Output, Scan, Target, Write};

/// The writes of a statement, and the rows that it shows of them.
#[derive(Default)]
pub(super) struct Changes {
    pub mutations: Vec<Mutation>,
    pub returned: Vec<Vec<Value>>,
}

impl Execution<'_, '_> {
    /// Writes, and says how many rows.
    pub(super) async fn write(&mut self, write: &Write) -> Result<Outcome> {
        let Write { target, action, returning } = write;
        let returning = returning.as_deref();
        let changes = match action {
            Action::Insert(insertion) => self.insertions(target, insertion, returning).await?,
            Action::Update { filter, assignments } => {
                self.updates(target, filter, assignments, returning).await?
            }
            Action::Delete { filter } => self.deletions(target, filter, returning).await?,
        };
        let count = changes.mutations.len() as u64;
        if count > 0 {
            self.access.write(changes.mutations).await?;
        }
        let columns = returning.map(columns).unwrap_or_default();
        Ok(Outcome { written: Some(count), columns, rows: changes.returned })
    }

    async fn updates(
        &mut self,
        target: &Target,
        filter: &Node,
        assignments: &[(usize, NewValue)],
        returning: Option<&[Output]>,
    ) -> Result<Changes> {
        let table = &target.scan.table;
        let key = table.primary_key.iter().map(|part| part.position);
        let written: Vec<usize> = key.chain(assignments.iter().map(|(at, _)| *at)).collect();
        let names = names(table, &written);
        let mut changes = Changes::default();
        for row in self.rows_of(&target.scan, target.width, filter).await? {
            let key = row.iter().take(table.primary_key.len()).cloned();
            let mut cells: Vec<Cell> = key.map(Cell::Value).collect();
            for (_, value) in assignments {
                cells.push(self.cell(value, &row).await?);
            }
            if let Some(outputs) = returning {
                let row = overlaid(target, row, &written, &cells)?;
                changes.returned.push(self.outputs(outputs, &row, &[]).await?);
            }
            changes.mutations.push(Mutation::Write {
                kind: WriteKind::Update,
                table: table.name.clone(),
                columns: names.clone(),
                cells,
            });
        }
        Ok(changes)
    }

    async fn deletions(
        &mut self,
        target: &Target,
        filter: &Node,
        returning: Option<&[Output]>,
    ) -> Result<Changes> {
        let table = &target.scan.table;
        let mut changes = Changes::default();
        for row in self.rows_of(&target.scan, target.width, filter).await? {
            let keys = vec![KeyRange::prefix(key(table, &row)?)];
            changes.mutations.push(Mutation::Delete { table: table.name.clone(), keys });
            if let Some(outputs) = returning {
                changes.returned.push(self.outputs(outputs, &row, &[]).await?);
            }
        }
        Ok(changes)
    }

    pub(super) async fn cell(&mut self, value: &NewValue, row: &[Value]) -> Result<Cell> {
        match value {
            NewValue::CommitTimestamp => Ok(Cell::CommitTimestamp),
            NewValue::Computed(node) => {
                self.value(node, Rows { row, ..Rows::default() }).await.map(Cell::Value)
            }
        }
    }
}

/// Returns the key of a row whose first columns are those of the key.
pub(super) fn key(table: &Table, row: &[Value]) -> Result<Key> {
    table.key(row.iter().take(table.primary_key.len()).cloned())
}

/// Returns the names of the columns at these positions.
pub(super) fn names(table: &Table, positions: &[usize]) -> Vec<String> {
    positions.iter().map(|position| table.columns[*position].name.clone()).collect()
}

/// Returns a row, as far as a statement uses it, with what is written to the columns at these
/// positions.
pub(super) fn overlaid(
    target: &Target,
    mut row: Row,
    written: &[usize],
    cells: &[Cell],
) -> Result<Row> {
    for (position, slot) in &target.scan.used {
        match written.iter().position(|written| written == position).map(|index| &cells[index]) {
            None => {}
            Some(Cell::Value(new)) => row[*slot] = new.clone(),
            Some(Cell::CommitTimestamp) => {
                return Err(Error::invalid_argument(format!(
                    "Column {} cannot be returned: the PENDING_COMMIT_TIMESTAMP() function may only \
                     be used as a value for INSERT or UPDATE",
                    target.scan.table.columns[*position].name
                )));
            }
        }
    }
    generate(target, &mut row)?;
    Ok(row)
}

/// Puts into a row what its generated columns hold, as far as a statement uses them.
fn generate(target: &Target, row: &mut Row) -> Result<()> {
    let Target { scan: Scan { table, used, .. }, .. } = target;
    if !used.iter().any(|(position, _)| table.columns[*position].generated.is_some()) {
        return Ok(());
    }
    let mut whole = vec![Value::Null; table.columns.len()];
    used.iter().for_each(|(position, slot)| whole[*position] = row[*slot].clone());
    table.generate(&mut whole)?;
    used.iter().for_each(|(position, slot)| row[*slot] = whole[*position].clone());
    Ok(())
}
