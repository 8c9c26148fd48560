//! Sessions: whose transactions those are.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;

use super::convert::encode_timestamp;
use super::names::check_database_name;
use crate::engine::{Database, Error, Result, Timestamp, TransactionId};
use crate::rpc::RequestCounts;

/// After how long without a request a classic session is gone.
const CLASSIC_IDLE_LIMIT: Duration = Duration::from_secs(3_600);
/// How old a multiplexed session can get.
const MULTIPLEXED_AGE_LIMIT: Duration = Duration::from_secs(28 * 86_400);
/// After so many new sessions, those that are over are removed.
const SWEPT_EVERY: u64 = 1_000;
/// How many sessions one request may ask for.
const BATCH_MAX: usize = 100;
/// How many items one page lists at most.
const PAGE_MAX: usize = 1_000;

/// One session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub database: Database,
    pub multiplexed: bool,
    /// The read-write transaction that it began last. A classic session can have one at a time.
    pub latest: Option<TransactionId>,
    database_name: String,
    labels: HashMap<String, String>,
    created_at: Timestamp,
    last_used: Timestamp,
}

/// Every session of the server.
#[derive(Debug)]
pub(super) struct Sessions {
    by_name: BTreeMap<String, Session>,
    created: u64,
    /// The counts of their requests.
    counts: RequestCounts,
}

impl Sessions {
    pub fn new(counts: RequestCounts) -> Sessions {
        Sessions { by_name: BTreeMap::new(), created: 0, counts }
    }

    /// Makes a session from what a request asks for.
    pub fn create(
        &mut self,
        database_name: &str,
        database: &Database,
        template: Option<&proto::Session>,
        now: Timestamp,
    ) -> proto::Session {
        self.created += 1;
        if self.created.is_multiple_of(SWEPT_EVERY) {
            self.by_name.retain(|_, session| !session.is_over(now));
            self.counts.keep_sessions(|name| self.by_name.contains_key(name));
        }
        // The time keeps sessions apart from those of a server that ran here before.
        let name = format!("{database_name}/sessions/{:x}-{}", now.micros(), self.created);
        let session = Session {
            database: database.clone(),
            multiplexed: template.is_some_and(|template| template.multiplexed),
            latest: None,
            database_name: database_name.to_owned(),
            labels: template.map(|template| template.labels.clone()).unwrap_or_default(),
            created_at: now,
            last_used: now,
        };
        let reply = session.describe(&name);
        self.by_name.insert(name, session);
        reply
    }

    /// Returns the session of this name, which is thereby in use.
    pub fn find(&mut self, name: &str, now: Timestamp) -> Result<&mut Session> {
        if self.by_name.get(name).is_some_and(|session| session.is_over(now)) {
            self.by_name.remove(name);
        }
        let session = self.by_name.get_mut(name).ok_or_else(|| not_a_session(name))?;
        session.last_used = now;
        Ok(session)
    }

    /// Describes a session without using it.
    pub fn describe(&mut self, name: &str, now: Timestamp) -> Result<proto::Session> {
        match self.by_name.get(name) {
            Some(session) if !session.is_over(now) => Ok(session.describe(name)),
            _ => Err(not_a_session(name)),
        }
    }

    /// Removes a session. One that isn't there is no error; a name that can't be one is.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        check_name(name)?;
        self.counts.forget_session(name);
        if let Some(session) = self.by_name.remove(name)
            && let Some(latest) = session.latest.filter(|_| !session.multiplexed)
        {
            // Its open work goes with it; that it had ended is as good.
            let _ = session.database.rollback(latest);
        }
        Ok(())
    }

    /// Returns one page of a database's sessions. Multiplexed ones belong to nobody and aren't
    /// listed.
    pub fn list(
        &self,
        request: &proto::ListSessionsRequest,
        now: Timestamp,
    ) -> Result<proto::ListSessionsResponse> {
        if !request.filter.is_empty() {
            let filter = &request.filter;
            return Err(Error::unimplemented(format!("Not supported here: the filter `{filter}`")));
        }
        let all = self.by_name.iter().filter(|(_, session)| {
            session.database_name == request.database
                && !session.multiplexed
                && !session.is_over(now)
        });
        let (sessions, next_page_token) =
            page(all, |(name, _)| name, request.page_size, &request.page_token);
        let sessions = sessions.into_iter().map(|(name, session)| session.describe(name)).collect();
        Ok(proto::ListSessionsResponse { sessions, next_page_token })
    }

    /// Forgets every session, as a restart does.
    pub fn clear(&mut self) {
        self.by_name.clear();
    }

    /// Forgets the sessions of a database that is no more.
    pub fn forget_database(&mut self, database_name: &str) {
        self.by_name.retain(|_, session| session.database_name != database_name);
    }
}

/// One page of what is sorted by name, and the token of the next one: the name it starts with.
pub(crate) fn page<T>(
    items: impl Iterator<Item = T>,
    name: impl Fn(&T) -> &str,
    size: i32,
    token: &str,
) -> (Vec<T>, String) {
    let most = match usize::try_from(size) {
        Ok(size @ 1..) => size.min(PAGE_MAX),
        _ => PAGE_MAX,
    };
    let mut items: Vec<T> = items.filter(|item| name(item) >= token).take(most + 1).collect();
    let next = if items.len() > most { items.pop() } else { None };
    (items, next.map(|item| name(&item).to_owned()).unwrap_or_default())
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        match self.multiplexed {
            true => now.since(self.created_at) > MULTIPLEXED_AGE_LIMIT,
            false => now.since(self.last_used) > CLASSIC_IDLE_LIMIT,
        }
    }

    fn describe(&self, name: &str) -> proto::Session {
        proto::Session {
            name: name.to_owned(),
            labels: self.labels.clone(),
            create_time: Some(encode_timestamp(self.created_at)),
            approximate_last_use_time: Some(encode_timestamp(self.last_used)),
            creator_role: String::new(),
            multiplexed: self.multiplexed,
        }
    }
}

/// Returns how many sessions a batch request gets.
pub(super) fn batch_size(asked: i32) -> Result<usize> {
    match usize::try_from(asked) {
        Ok(count @ 1..) => Ok(count.min(BATCH_MAX)),
        _ => Err(Error::invalid_argument(format!(
            "Invalid BatchCreateSessions request: session_count must be positive, found: {asked}."
        ))),
    }
}

/// Refuses a role: there are none, and a session would have more rights than it asks for.
pub(super) fn check_role(template: Option<&proto::Session>) -> Result<()> {
    match template.map(|template| template.creator_role.as_str()) {
        None | Some("") => Ok(()),
        Some(role) => Err(Error::unimplemented(format!("Not supported here: the role {role}"))),
    }
}

fn check_name(name: &str) -> Result<()> {
    match name.split_once("/sessions/") {
        Some((database, session)) if !session.is_empty() && !session.contains('/') => {
            check_database_name(database)
        }
        _ => Err(Error::invalid_argument(format!("Invalid session uri: {name}"))),
    }
}

fn not_a_session(name: &str) -> Error {
    let kind = "type.googleapis.com/google.spanner.v1.Session";
    match check_name(name) {
        Ok(()) => Error::resource_not_found(kind, "Session", name),
        Err(error) => error,
    }
}
