//! The execution of a statement: evaluation, and the reads and writes it asks for.

mod from;
mod insert;
mod path;
mod query;
#[cfg(test)]
mod tests;
mod write;

use super::access::Access;
use super::eval::{Evaluated, Evaluation, Missing, Rows, Stop};
use super::params::Parameters;
use super::plan::{Node, Plan};
use super::prepared::Prepared;
use crate::engine::{Result, Type, Value};

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The rows of a query.
    Rows {
        /// The columns' names and types. A column without a name has an empty one.
        columns: Vec<(String, Type)>,
        /// The rows, in order.
        rows: Vec<Vec<Value>>,
    },
    /// How many rows a statement wrote.
    Written(u64),
    /// The rows that a statement with `THEN RETURN` wrote.
    Returned {
        /// How many rows it wrote.
        count: u64,
        /// As in [`Outcome::Rows`].
        columns: Vec<(String, Type)>,
        /// The shown parts of each row that was written.
        rows: Vec<Vec<Value>>,
    },
}

/// Executes a statement.
///
/// # Errors
/// Those of the statement, with the place in its text, and those of the database. A statement that
/// fails has written nothing.
pub async fn execute<A: Access>(
    statement: &Prepared,
    parameters: &Parameters,
    access: &mut A,
) -> Result<Outcome> {
    let now = access.now();
    let (plan, given) = statement.plan(access.schema(), parameters, now)?;
    let mut execution = Execution { access, evaluation: Evaluation::new(given) };
    match &*plan {
        Plan::Query(query) => execution.query(query).await,
        Plan::Write(write) => execution.write(write).await,
    }
}

struct Execution<'a, A> {
    access: &'a mut A,
    evaluation: Evaluation,
}

impl<A: Access> Execution<'_, A> {
    /// Evaluates, and gets what rows are missing, until nothing is.
    async fn evaluate<T>(&mut self, attempt: impl Fn(&Evaluation) -> Evaluated<T>) -> Result<T> {
        // A long statement lets others go on between two rows.
        tokio::task::coop::consume_budget().await;
        loop {
            match attempt(&self.evaluation) {
                Ok(value) => return Ok(value),
                Err(Stop::Failed(error)) => return Err(error.into()),
                Err(Stop::Missing(missing)) => self.learn(*missing).await?,
            }
        }
    }

    /// Gets the rows of a query inside an expression.
    async fn learn(&mut self, missing: Missing) -> Result<()> {
        let Missing { query, arguments, first_only } = &missing;
        let rows = self.query_rows(query, arguments, *first_only).await?;
        self.evaluation.learn(missing, rows);
        Ok(())
    }

    /// The value of an expression.
    async fn value(&mut self, node: &Node, rows: Rows<'_>) -> Result<Value> {
        self.evaluate(|evaluation| evaluation.value(node, &rows)).await
    }

    /// Returns true if a condition holds; NULL doesn't.
    async fn holds(&mut self, condition: &Node, rows: Rows<'_>) -> Result<bool> {
        self.evaluate(|evaluation| evaluation.holds(condition, &rows)).await
    }
}
