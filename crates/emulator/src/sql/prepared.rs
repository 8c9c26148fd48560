//! Statements that were read, with what can be used again for other values of their parameters.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::ast::Statement;
use super::bind::Binder;
use super::error::Result;
use super::params::{Kind, Parameters, Reading};
use super::parser::parse_statement;
use super::plan::Plan;
use crate::engine::{self, Schema, Timestamp, Value};

/// How many statements are kept.
const MAX_KEPT: usize = 500;
/// The longest statement that is kept, in bytes.
const MAX_KEPT_BYTES: usize = 4_000;

/// A statement that was read, and the plan that it had last.
pub struct Prepared {
    text: String,
    tree: Statement,
    bound: Mutex<Option<Bound>>,
}

/// A plan for any values, and all that it depends on beside the text.
struct Bound {
    /// An altered schema is another one, and while this is here, at another address.
    schema: Weak<Schema>,
    kinds: Vec<(String, Kind)>,
    /// `None` if there is none for any values.
    plan: Option<(Arc<Plan>, Arc<[Reading]>)>,
}

impl Prepared {
    /// Reads a statement.
    ///
    /// # Errors
    /// As [`parse_statement`].
    pub fn new(text: &str) -> Result<Prepared> {
        let tree = parse_statement(text)?;
        Ok(Prepared { text: text.to_owned(), tree, bound: Mutex::default() })
    }

    /// Returns the statement.
    pub fn statement(&self) -> &Statement {
        &self.tree
    }

    /// Returns the plan of the statement with these parameters, and the values that it is given.
    /// `now` is its `CURRENT_TIMESTAMP()`.
    pub(super) fn plan(
        &self,
        schema: &Arc<Schema>,
        parameters: &Parameters,
        now: Timestamp,
    ) -> engine::Result<(Arc<Plan>, Vec<Value>)> {
        if let Some((plan, readings)) = self.plan_for_any_values(schema, parameters)
            && let Some(given) = parameters.given(now, &readings)
        {
            return Ok((plan, given));
        }
        let plan = self.plan_for_these(schema, parameters, now)?;
        Ok((Arc::new(plan), Vec::new()))
    }

    /// Returns the plan that is right for these values alone.
    pub(super) fn plan_for_these(
        &self,
        schema: &Schema,
        parameters: &Parameters,
        now: Timestamp,
    ) -> engine::Result<Plan> {
        let mut binder = Binder::new(schema, parameters, now);
        binder.statement(&self.tree).map_err(|error| error.in_text(&self.text))
    }

    fn plan_for_any_values(
        &self,
        schema: &Arc<Schema>,
        parameters: &Parameters,
    ) -> Option<(Arc<Plan>, Arc<[Reading]>)> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = &*bound
            && std::ptr::eq(bound.schema.as_ptr(), Arc::as_ptr(schema))
            && parameters.kinds().eq(bound.kinds.iter().map(|(name, kind)| (&**name, *kind)))
        {
            return bound.plan.clone();
        }
        // Whatever is wrong with the statement, the plan for its values says so.
        let mut binder = Binder::for_any_values(schema, parameters);
        let plan = binder.statement(&self.tree).ok().map(Arc::new);
        let plan = plan.map(|plan| (plan, binder.into_readings().into()));
        let kinds = parameters.kinds().map(|(name, kind)| (name.to_owned(), kind)).collect();
        *bound = Some(Bound { schema: Arc::downgrade(schema), kinds, plan: plan.clone() });
        plan
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.text).finish()
    }
}

/// The statements that were read lately, by text.
#[derive(Debug, Default)]
pub struct Statements(Mutex<HashMap<String, Arc<Prepared>>>);

impl Statements {
    /// Reads a statement, unless it is here.
    ///
    /// # Errors
    /// As [`parse_statement`].
    pub fn prepare(&self, text: &str) -> Result<Arc<Prepared>> {
        if let Some(known) = self.kept().get(text) {
            return Ok(Arc::clone(known));
        }
        let prepared = Arc::new(Prepared::new(text)?);
        if text.len() <= MAX_KEPT_BYTES {
            let mut kept = self.kept();
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.insert(text.to_owned(), Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Arc<Prepared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
