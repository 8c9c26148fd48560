//! The laws of the lock, through the official client, on the embedded Spanner.
//!
//! Timing laws run on a virtual clock: tokio's, which stands still until everything sleeps, and
//! which lock and server both follow.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[path = "laws/log.rs"]
mod log;
#[path = "laws/window.rs"]
mod window;
#[path = "laws/world.rs"]
mod world;

#[path = "laws/acquire.rs"]
mod acquire;
#[path = "laws/admin.rs"]
mod admin;
#[path = "laws/ambient.rs"]
mod ambient;
#[path = "laws/columns.rs"]
mod columns;
#[path = "laws/commits.rs"]
mod commits;
#[path = "laws/company.rs"]
mod company;
#[path = "laws/connection.rs"]
mod connection;
#[path = "laws/credentials.rs"]
mod credentials;
#[path = "laws/docs.rs"]
mod docs;
#[path = "laws/doubt.rs"]
mod doubt;
#[path = "laws/dropping.rs"]
mod dropping;
#[path = "laws/fencing.rs"]
mod fencing;
#[path = "laws/guard.rs"]
mod guard;
#[path = "laws/handles.rs"]
mod handles;
#[path = "laws/hands.rs"]
mod hands;
#[path = "laws/health.rs"]
mod health;
#[path = "laws/history.rs"]
mod history;
#[path = "laws/lead.rs"]
mod lead;
#[path = "laws/load.rs"]
mod load;
#[path = "laws/logs.rs"]
mod logs;
#[path = "laws/many.rs"]
mod many;
#[path = "laws/members.rs"]
mod members;
#[path = "laws/names.rs"]
mod names;
#[path = "laws/on_google.rs"]
mod on_google;
#[path = "laws/once.rs"]
mod once;
#[path = "laws/outages.rs"]
mod outages;
#[path = "laws/permits.rs"]
mod permits;
#[path = "laws/postgresql.rs"]
mod postgresql;
#[path = "laws/rank.rs"]
mod rank;
#[path = "laws/readers_and_writers.rs"]
mod readers_and_writers;
#[path = "laws/rows.rs"]
mod rows;
#[path = "laws/runtimes.rs"]
mod runtimes;
#[path = "laws/schema.rs"]
mod schema;
#[path = "laws/service.rs"]
mod service;
#[path = "laws/shards.rs"]
mod shards;
#[path = "laws/takeover.rs"]
mod takeover;
#[path = "laws/unknown.rs"]
mod unknown;
#[path = "laws/verbs.rs"]
mod verbs;
