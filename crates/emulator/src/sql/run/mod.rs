//! The execution of a statement: evaluation, and the reads and writes it asks for.

mod from;
mod insert;
mod path;
mod query;
mod write;

use super::database::InTransaction;
use super::eval::{Evaluated, Evaluation, Missing, Rows, Stop};
use super::params::Parameters;
use super::plan::{Node, Plan};
use super::prepared::Prepared;
use crate::engine::{Result, Type, Value};

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How many rows it wrote; `None` of a query.
    pub written: Option<u64>,
    /// The names and types of the columns that it shows: those of a query, or of `THEN RETURN`. A column
    /// without a name has an empty one.
    pub columns: Vec<(String, Type)>,
    /// The rows that it shows, in order.
    pub rows: Vec<Vec<Value>>,
}

/// Executes a statement.
///
/// # Errors
/// Those of the statement, with the place in its text, and those of the database. A statement that
/// fails has written nothing.
pub async fn execute(
    statement: &Prepared,
    parameters: &Parameters,
    access: &mut InTransaction<'_>,
) -> Result<Outcome> {
    let now = access.now();
    let (plan, given) = statement.plan(access.schema(), parameters, now)?;
    let mut execution = Execution { access, evaluation: Evaluation::new(given) };
    match &*plan {
        Plan::Query(query) => execution.query(query).await,
        Plan::Write(write) => execution.write(write).await,
    }
}

struct Execution<'a, 'd> {
    access: &'a mut InTransaction<'d>,
    evaluation: Evaluation,
}

impl Execution<'_, '_> {
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
