//! `evict`, `seize` and `resign-to`.

use std::process::ExitCode;

use serde::Serialize;
use spindle::Holding;
use spindle::operate::Deposed;

use crate::arguments::Depose;
use crate::confirm::confirm;
use crate::failure::{Code, Failure, Result};
use crate::output::{Output, printable};
use crate::place::Place;

/// The change that an act made.
#[derive(Serialize)]
struct Changed<'a> {
    name: &'a str,
    /// The holder whose term was ended; nothing if nobody held.
    deposed: Option<String>,
    token: Option<String>,
    expect: &'a str,
}

pub async fn evict(place: &Place, out: &Output, depose: &Depose) -> Result<ExitCode> {
    let name = &depose.name;
    let holder = holder(place, name).await?;
    let question = format!(
        "End the term of {holder}? Its next heartbeat is refused, and nobody takes lock `{name}` \
         before its lease has run out."
    );
    confirm(&depose.confirmation, &question)?;
    let mut act = place.locks.evict(name).by(by(depose));
    if let Some(reason) = &depose.reason {
        act = act.reason(reason);
    }
    let deposed = act.await?;
    let expect = match &deposed {
        Some(_) => {
            "the holder stops at its next heartbeat; its fenced writes are refused from now on; \
             the next term begins once its lease has run out"
        }
        None => "nobody held it, so nothing was done",
    };
    say(out, name, deposed.as_ref(), expect)
}

/// Seizes a lock: `seize` for whoever comes first, `resign-to` for one contender.
pub async fn seize(
    place: &Place,
    out: &Output,
    depose: &Depose,
    contender: Option<&str>,
) -> Result<ExitCode> {
    let name = &depose.name;
    let holder = holder(place, name).await?;
    let goal = contender.map_or("now".to_string(), |id| format!("and reserve it for `{id}`"));
    let question = format!(
        "Take lock `{name}` from {holder} {goal}? Until its next heartbeat is refused, the holder \
         believes that it holds, maybe beside the next one: only fenced writes are safe."
    );
    confirm(&depose.confirmation, &question)?;
    let mut act = place.locks.seize(name).by(by(depose));
    if let Some(reason) = &depose.reason {
        act = act.reason(reason);
    }
    if let Some(id) = contender {
        act = act.for_contender(id);
    }
    let deposed = act.await?;
    let next = match (contender, &deposed) {
        (Some(id), _) => {
            format!("`{id}` takes it at its next poll; if it has not within 10 s, anyone does")
        }
        (None, Some(_)) => "the next contender that polls takes it".to_string(),
        (None, None) => "nobody held it; whatever contenders waited for is over".to_string(),
    };
    let expect = match &deposed {
        Some(_) => format!(
            "{next}; the old holder may go on until its next heartbeat, and only fenced writes are \
             safe until then"
        ),
        None => next,
    };
    say(out, name, deposed.as_ref(), &expect)
}

/// Returns who acts: the user at this host, unless the command line says otherwise.
fn by(depose: &Depose) -> String {
    let here = || {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
        let user = user.map_or_else(|| nix::unistd::getuid().to_string(), |user| user.name);
        let host = nix::unistd::gethostname().unwrap_or_default();
        format!("{user}@{}", host.to_string_lossy())
    };
    depose.by.clone().unwrap_or_else(here)
}

/// Returns who is deposed; refuses a name that no row has, which is mistyped more often than meant.
async fn holder(place: &Place, name: &str) -> Result<String> {
    let state = place.locks.inspect(name).await?;
    if state.holding == Holding::NeverHeld {
        let text = format!("lock `{name}`: it has no row, so nothing was done");
        return Err(Failure::new(Code::No, text).cure("`spindle ls` lists the locks there are"));
    }
    Ok(state.holder().map_or_else(|| "nobody".to_string(), |id| format!("`{}`", printable(id))))
}

fn say(out: &Output, name: &str, deposed: Option<&Deposed>, expect: &str) -> Result<ExitCode> {
    let changed = Changed {
        name,
        deposed: deposed.map(|deposed| deposed.id.clone()),
        token: deposed.map(|deposed| deposed.token.to_string()),
        expect,
    };
    out.one(&changed, || match deposed {
        Some(Deposed { id, token, .. }) => {
            format!(
                "lock `{name}`: the term of `{}` under token {token} is over\n{expect}\n",
                printable(id)
            )
        }
        None => format!("lock `{name}`: {expect}\n"),
    })?;
    Ok(ExitCode::SUCCESS)
}
