//! The program itself, as a user runs it, on the embedded Spanner.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[path = "program/big_table.rs"]
mod big_table;
#[path = "program/browser.rs"]
mod browser;
#[path = "program/http.rs"]
mod http;
#[path = "../../../tests/metrics/promtool.rs"]
mod promtool;
#[path = "program/world.rs"]
mod world;

#[path = "program/acts.rs"]
mod acts;
#[path = "program/agent.rs"]
mod agent;
#[path = "program/agent_claims.rs"]
mod agent_claims;
#[path = "program/agent_exits.rs"]
mod agent_exits;
#[path = "program/agent_limits.rs"]
mod agent_limits;
#[path = "program/agent_programs.rs"]
mod agent_programs;
#[path = "program/answers.rs"]
mod answers;
#[path = "program/completions.rs"]
mod completions;
#[path = "program/dashboard.rs"]
mod dashboard;
#[path = "program/demo.rs"]
mod demo;
#[path = "program/exits.rs"]
mod exits;
#[path = "program/exits_long.rs"]
mod exits_long;
#[path = "program/fleets.rs"]
mod fleets;
#[path = "program/hostile.rs"]
mod hostile;
#[path = "program/jobs.rs"]
mod jobs;
#[path = "program/jobs_fleet.rs"]
mod jobs_fleet;
#[path = "program/on_google.rs"]
mod on_google;
#[path = "program/on_socket.rs"]
mod on_socket;
#[path = "program/page.rs"]
mod page;
#[path = "program/page_trouble.rs"]
mod page_trouble;
#[path = "program/reads.rs"]
mod reads;
#[path = "program/run_ends.rs"]
mod run_ends;
#[path = "program/runs.rs"]
mod runs;
#[path = "program/serve.rs"]
mod serve;
#[path = "program/start.rs"]
mod start;
#[path = "program/terminal.rs"]
mod terminal;
