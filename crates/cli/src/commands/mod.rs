//! The commands, one file each.

mod complete_name;
#[cfg(feature = "demo")]
mod demo;
mod depose;
pub mod doctor;
mod fleet;
pub mod history;
mod inspect;
mod jobs;
mod pages;
mod process;
mod remove;
mod resize;
mod run;
mod run_slot;
mod schema;
pub mod shards;
mod wait;
mod watch;

use std::process::ExitCode;

use tokio::time::timeout;

use crate::agent;
use crate::arguments::{Arguments, Command, JobCommand, ResignTo};
use crate::commands::depose::Way;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;
use crate::place::Place;
use crate::serve;

/// Does what the command line says, within its time.
pub async fn carry_out(arguments: Arguments) -> Result<ExitCode> {
    let Some(limit) = arguments.common.timeout else { return act(arguments).await };
    if arguments.command.runs_until_stopped() {
        let text = "--timeout: this command runs until it is stopped";
        return Err(Failure::new(Code::Usage, text).cure("leave it out"));
    }
    let waits = matches!(arguments.command, Command::Wait(_));
    let late = |_| {
        let code = if waits { Code::No } else { Code::Unreachable };
        let failure = Failure::new(code, format!("--timeout {limit:?} is over"));
        Err(failure
            .cure("`spindle show` tells how it stands, `spindle doctor` how slow Spanner is"))
    };
    timeout(limit, act(arguments)).await.unwrap_or_else(late)
}

async fn act(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { common, command } = arguments;
    let out = Output::new(&common);
    let (reach, lasting) = (|| Place::reach(&common), || Place::lasting(&common));
    match command {
        Command::Ls(listed) => inspect::ls(&reach().await?, &out, &listed).await,
        Command::Show(lock) => inspect::show(&reach().await?, &out, &lock.name).await,
        Command::Who(lock) => inspect::who(&reach().await?, &out, &lock.name).await,
        Command::Wait(asked) => wait::wait(&lasting().await?, &out, &asked).await,
        Command::History(asked) => history::history(&reach().await?, &out, &asked).await,
        Command::Watch(asked) => watch::watch(&lasting().await?, &out, &asked).await,
        Command::Members { group } => fleet::members(&reach().await?, &out, group.as_deref()).await,
        Command::Shards { name: Some(name), resize } if resize.resize.is_some() => {
            resize::resize(&reach().await?, &out, &name, &resize).await
        }
        Command::Shards { name, .. } => {
            shards::shards(&reach().await?, &out, name.as_deref()).await
        }
        Command::Permits { name } => fleet::permits(&reach().await?, &out, name.as_deref()).await,
        Command::Readers { name } => fleet::readers(&reach().await?, &out, name.as_deref()).await,
        Command::Jobs => jobs::jobs(&reach().await?, &out).await,
        Command::Job(JobCommand::Slots { name }) => jobs::slots(&reach().await?, &out, &name).await,
        Command::Job(JobCommand::Rm { name, confirmation }) => {
            jobs::remove(&reach().await?, &out, &name, &confirmation).await
        }
        Command::Ddl(ddl) => schema::ddl(&out, &ddl, &common.table),
        Command::Init => {
            let endpoint = common.admin_endpoint.as_deref();
            schema::init(&reach().await?, &out, endpoint).await
        }
        Command::Rm { lock, confirmation } => {
            remove::remove(&reach().await?, &out, &lock.name, &confirmation).await
        }
        Command::Evict(depose) => depose::depose(&reach().await?, &out, &depose, Way::Evict).await,
        Command::Seize(depose) => depose::depose(&reach().await?, &out, &depose, Way::Seize).await,
        Command::ResignTo(ResignTo { depose, id }) => {
            depose::depose(&reach().await?, &out, &depose, Way::ResignTo(&id)).await
        }
        Command::Run(run) => run::run(&common, run).await,
        Command::Doctor => doctor::doctor(&reach().await?, &out).await,
        Command::Serve(asked) => serve::serve(&common, &out, &asked).await,
        Command::Agent(asked) => agent::agent(&common, &out, &asked).await,
        #[cfg(feature = "demo")]
        Command::Demo(demo) => demo::demo(&demo).await,
        Command::Completions { shell } => pages::completions(&out, shell),
        Command::CompleteName { words } => complete_name::complete(words).await,
        Command::Man { into } => pages::manual(&out, into.as_deref()),
        Command::Become { parent, command } => Ok(process::become_command(parent, &command)),
        #[cfg(feature = "demo")]
        Command::Contend { id, lease } => demo::contend(&common, &id, lease).await,
    }
}
