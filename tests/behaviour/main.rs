//! The rules of the lock, through the official client, on the embedded Spanner.
//!
//! Tests of timing run on a virtual clock: tokio's, which stands still until everything sleeps, and
//! which lock and server both follow.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod line;
mod log;
#[path = "../../examples/service.rs"]
#[expect(dead_code, reason = "what its `main` uses alone")]
mod service_example;
mod threads;
mod window;
mod world;

mod acquire;
mod admin;
mod columns;
mod commits;
mod connection;
mod credentials;
mod deployed;
mod docs;
mod dropping;
mod fencing;
mod flows;
mod guard;
mod handles;
mod health;
mod history;
mod isolation;
mod jobs;
mod jobs_fleet;
mod latency;
mod lead;
mod lead_each;
mod load;
mod logs;
mod loops;
mod manual_edits;
mod many;
mod names;
mod on_google;

mod outages;
mod postgresql;
mod rank;
mod rows;
mod runtimes;
mod schema;
mod service;
mod stalls;
mod takeover;
mod unknown;
mod verbs;
