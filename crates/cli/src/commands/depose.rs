//! `evict`, `seize` and `resign-to`.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use spindle::operate::PastTerm;
use spindle::{FencingToken, Holding};

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

/// The way in which a term is ended.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// `evict`: the next one waits for the lease.
    Evict,
    /// `seize`: whoever comes first takes it at once.
    Seize,
    /// `resign-to`: this contender has first refusal.
    ResignTo(&'a str),
}

/// The term that is meant: the one that was seen, unless the command line names another.
struct Target {
    holder: Option<String>,
    token: Option<FencingToken>,
}

/// Ends a term, and no other than the one that the confirmation showed.
pub async fn depose(
    place: &Place,
    out: &Output,
    depose: &Depose,
    way: Way<'_>,
) -> Result<ExitCode> {
    let name = &depose.lock.name;
    let target = Target::of(place, depose).await?;
    confirm(&depose.confirmation, &way.question(name, &target))?;
    let mut act = place.locks.evict(name).by(by(depose));
    if let Some(reason) = &depose.reason {
        act = act.reason(reason);
    }
    if let Some(holder) = target.holder {
        act = act.if_holder(holder);
    }
    if let Some(token) = target.token {
        act = act.if_token(token);
    }
    act = match way {
        Way::Evict => act,
        Way::Seize => act.at_once(),
        Way::ResignTo(id) => act.to(id),
    };
    let deposed = act.await?;
    say(out, name, deposed.as_ref(), &way.expect(deposed.is_some()))
}

impl Way<'_> {
    fn question(self, name: &str, target: &Target) -> String {
        let goal = match self {
            Way::Evict => {
                return format!(
                    "End the term of {target}? Its next heartbeat is refused, and nobody takes \
                     lock `{name}` before its lease has run out."
                );
            }
            Way::Seize => "now".to_string(),
            Way::ResignTo(id) => format!("and reserve it for `{id}`"),
        };
        format!(
            "Take lock `{name}` from {target} {goal}? Until its next heartbeat is refused, the holder \
             believes that it holds, maybe beside the next one: only fenced writes are safe."
        )
    }

    /// Returns what comes next; there may have been no term to end.
    fn expect(self, is_deposed: bool) -> String {
        let next = match (self, is_deposed) {
            (Way::Evict, true) => {
                return "the holder stops at its next heartbeat; its fenced writes are refused from \
                        now on; the next term begins once its lease has run out"
                    .to_string();
            }
            (Way::Evict, false) => return "nobody held it, so nothing was done".to_string(),
            (Way::ResignTo(id), _) => {
                format!("`{id}` takes it at its next poll; if it has not within 10 s, anyone does")
            }
            (Way::Seize, true) => "the next contender that polls takes it".to_string(),
            (Way::Seize, false) => {
                "nobody held it; whatever contenders waited for is over".to_string()
            }
        };
        if !is_deposed {
            return next;
        }
        format!(
            "{next}; the old holder may go on until its next heartbeat, and only fenced writes are \
             safe until then"
        )
    }
}

impl Target {
    /// Refuses a name that no row has, which is mistyped more often than meant.
    async fn of(place: &Place, depose: &Depose) -> Result<Target> {
        let name = &depose.lock.name;
        let state = place.locks.inspect(name).await?;
        let holder = match state.holding {
            Holding::NeverHeld => {
                let text = format!("lock `{name}`: it has no row, so nothing was done");
                return Err(
                    Failure::new(Code::No, text).cure("`spindle ls` lists the locks there are")
                );
            }
            Holding::Held { id, .. } | Holding::Expired { id, .. } => Some(id),
            _ => None,
        };
        let Depose { if_holder, if_token, .. } = depose;
        let is_seen = (if_holder.is_none() || *if_holder == holder)
            && (if_token.is_none() || *if_token == state.token);
        // Where another term was named, the transaction refuses, and says who holds.
        Ok(match is_seen {
            true => Target { holder, token: state.token },
            false => Target { holder: if_holder.clone(), token: *if_token },
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(id) => write!(f, "`{}`", printable(id))?,
            None => f.write_str("nobody")?,
        }
        self.token.map_or(Ok(()), |token| write!(f, " under token {token}"))
    }
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

fn say(out: &Output, name: &str, deposed: Option<&PastTerm>, expect: &str) -> Result<ExitCode> {
    let changed = Changed {
        name,
        deposed: deposed.map(|deposed| deposed.holder.clone()),
        token: deposed.map(|deposed| deposed.token.to_string()),
        expect,
    };
    out.one(&changed, || match deposed {
        Some(PastTerm { holder, token, .. }) => {
            format!(
                "lock `{name}`: the term of `{}` under token {token} is over\n{expect}\n",
                printable(holder)
            )
        }
        None => format!("lock `{name}`: {expect}\n"),
    })?;
    Ok(ExitCode::SUCCESS)
}
