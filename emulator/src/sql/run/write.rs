//! Statements that write.

use super::Execution;
use crate::engine::{Cell, Error, Key, KeyRange, Mutation, Result, Table, Value, WriteKind};
use crate::sql::access::Access;
use crate::sql::eval::Rows;
use crate::sql::plan::{InsertRows, NewValue, Node, Relation, Source, Write};

impl<A: Access> Execution<'_, A> {
    /// Writes, and says how many rows.
    pub(super) async fn write(&mut self, write: &Write) -> Result<u64> {
        let mutations = match write {
            Write::Insert { table, columns, rows } => {
                let rows = self.inserted_rows(rows).await?;
                let insert = |cells| Mutation::Write {
                    kind: WriteKind::Insert,
                    table: table.clone(),
                    columns: columns.clone(),
                    cells,
                };
                rows.into_iter().map(insert).collect()
            }
            Write::Update { source, filter, assignments } => {
                self.updates(stored(source)?, source, filter, assignments).await?
            }
            Write::Delete { source, filter } => {
                let table = stored(source)?;
                let rows = self.rows(table, source, Some(filter)).await?;
                let delete = |row: &Vec<Value>| {
                    let keys = vec![KeyRange::prefix(key(table, row)?)];
                    Ok(Mutation::Delete { table: table.name.clone(), keys })
                };
                rows.iter().map(delete).collect::<Result<Vec<_>>>()?
            }
        };
        let count = mutations.len() as u64;
        if count > 0 {
            self.access.write(mutations).await?;
        }
        Ok(count)
    }

    async fn inserted_rows(&mut self, rows: &InsertRows) -> Result<Vec<Vec<Cell>>> {
        match rows {
            InsertRows::Values(rows) => {
                let mut inserted = Vec::with_capacity(rows.len());
                for row in rows {
                    let mut cells = Vec::with_capacity(row.len());
                    for value in row {
                        cells.push(self.cell(value, &[]).await?);
                    }
                    inserted.push(cells);
                }
                Ok(inserted)
            }
            InsertRows::Query(query) => {
                let rows = self.query_rows(query).await?;
                Ok(rows.into_iter().map(|row| row.into_iter().map(Cell::Value).collect()).collect())
            }
        }
    }

    async fn updates(
        &mut self,
        table: &Table,
        source: &Source,
        filter: &Node,
        assignments: &[(String, NewValue)],
    ) -> Result<Vec<Mutation>> {
        let key_columns = table.primary_key.iter().map(|part| &table.columns[part.position].name);
        let assigned = assignments.iter().map(|(column, _)| column);
        let columns: Vec<String> = key_columns.chain(assigned).cloned().collect();
        let mut mutations = Vec::new();
        for row in self.rows(table, source, Some(filter)).await? {
            let key = row.iter().take(table.primary_key.len()).cloned();
            let mut cells: Vec<Cell> = key.map(Cell::Value).collect();
            for (_, value) in assignments {
                cells.push(self.cell(value, &row).await?);
            }
            mutations.push(Mutation::Write {
                kind: WriteKind::Update,
                table: table.name.clone(),
                columns: columns.clone(),
                cells,
            });
        }
        Ok(mutations)
    }

    async fn cell(&mut self, value: &NewValue, row: &[Value]) -> Result<Cell> {
        match value {
            NewValue::CommitTimestamp => Ok(Cell::CommitTimestamp),
            NewValue::Computed(node) => {
                let value =
                    self.evaluate(|evaluation| evaluation.value(node, &Rows::only(row))).await?;
                Ok(Cell::Value(value))
            }
        }
    }
}

/// The key of a row whose first columns are those of the key.
fn key(table: &Table, row: &[Value]) -> Result<Key> {
    table.key(row.iter().take(table.primary_key.len()).cloned())
}

fn stored(source: &Source) -> Result<&Table> {
    match &source.relation {
        Relation::Table(table) => Ok(table),
        Relation::Fixed(_) => Err(Error::unimplemented("writing to what is not a table")),
    }
}
