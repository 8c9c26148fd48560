//! Nobody waits for ever: a search for contenders that starve, though everybody gets its turn to act.
//!
//! Time is gone from these worlds, so that they are few and go on for ever. Contenders poll, act, hold
//! and release in every order. What each does is asked of a real [`Instance`](spindle_protocol::Instance),
//! which is shown once more what the contender has seen; what that does to the row, of a real
//! [`Change`](spindle_protocol::Change). A contender *starves* where a part of the graph of all worlds
//! can be walked for ever, everybody who lives acts in it, and the contender never begins a term.
//!
//! Everybody may be as late as it likes, but not for ever. Of time no more is assumed than that a promise
//! lasts until a process that lives has had its try, since it polls within one poll, and the promise is of
//! two. Ranks count polls of a vacancy, so more is assumed where several are of a rank: see
//! [`LineModel::is_paced`].
//!
//! A rule of the line is left out in turn. Then somebody waits for ever, or the search is blind.

mod contender;
mod steps;
mod world;

use spindle_protocol::line::Standing;

use self::steps::Step;
use self::world::World;
use crate::run::{Report, stopwatch};
use crate::search::{Endless, Worlds};

const STARVES: &str = "nobody waits for ever";
const PROMISED_AGAIN: &str = "a place of the dead is promised the lock once";

/// Contenders for one lock, and what must come of them.
#[derive(Clone, Debug)]
pub struct LineModel {
    /// Its name.
    pub name: &'static str,
    /// The contenders.
    pub members: Vec<Member>,
    /// The contender that must not wait for ever; none if all of them together leave the lock vacant.
    pub served: Option<usize>,
    /// True if a place may land after its sender gave up.
    pub has_late: bool,
    /// True if requests land within a poll, and nobody polls three times while another doesn't at all:
    /// what ranks count on.
    pub is_paced: bool,
    /// The rules without each of which somebody waits for ever.
    pub needed: Vec<Rule>,
    /// The rule that is left out, if one is.
    pub lacking: Option<Rule>,
}

/// One contender.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its id; two may share one.
    pub id: &'static str,
    /// How it stands in line.
    pub standing: Standing,
    /// Where it may die.
    pub dies: Dies,
}

/// Where a contender may die, to come back as another process of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dies {
    /// Nowhere.
    Never,
    /// Where it holds nothing. A holder that dies leaves the lock to whoever comes first, not to the line.
    Waiting,
    /// Anywhere.
    Anywhere,
}

/// A rule of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Of equal ranks, the older wait goes first.
    Order,
    /// A place lands whatever term there is by then.
    AnyTerm,
    /// A release moves the place into the row, and a begin leaves that of another.
    Moves,
    /// Each contender that couldn't take the lock takes a place, and not only one that saw it held.
    Tried,
    /// A release empties the place that it moves.
    Empties,
    /// A contender that was promised the lock leaves the place of another, though it has a rank.
    Leaves,
    /// A vacancy is counted in polls, whoever stands first by then.
    Vacancy,
}

impl LineModel {
    /// Returns the searches that run in CI.
    pub fn all() -> Vec<LineModel> {
        let member = |id| Member { id, standing: Standing::Plain, dies: Dies::Never };
        let ranked = |id, rank| Member {
            standing: Standing::Ranked { rank, preempts: false },
            ..member(id)
        };
        let of = |name, members: &[Member], served, needed: &[Rule]| LineModel {
            name,
            members: members.to_vec(),
            served,
            has_late: true,
            is_paced: false,
            needed: needed.to_vec(),
            lacking: None,
        };
        let paced = |model| LineModel { is_paced: true, has_late: false, ..model };
        let equals = ["a", "b", "c"].map(|id| ranked(id, 1));
        let dies = |dies, member| Member { dies, ..member };
        let dead = [member("a"), member("b"), dies(Dies::Waiting, member("c"))];
        let fragile = [equals[0], equals[1], dies(Dies::Anywhere, equals[2])];
        let vacant = [dies(Dies::Anywhere, ranked("a", 2)), ranked("b", 1)];
        let line = [Rule::Order, Rule::AnyTerm, Rule::Moves, Rule::Tried];
        vec![
            // One that loops, and one that waits.
            of("turns of two", &["a", "b"].map(member), Some(0), &line[1..]),
            // Two that loop, and one that waits.
            of("turns of three", &["a", "b", "c"].map(member), Some(0), &line),
            of("turns of one id", &["a", "a"].map(member), Some(0), &[]),
            of("deaths in line", &dead, Some(0), &[Rule::Empties]),
            paced(of("turns of a rank", &equals, Some(0), &[Rule::Leaves])),
            paced(of("deaths of a rank", &fragile, Some(0), &[])),
            paced(of("highest rank", &[ranked("a", 2), equals[1], equals[2]], Some(0), &[])),
            // One that dies again and again, and one of a lower rank.
            of("vacant by rank", &vacant, None, &[Rule::Vacancy]),
        ]
    }

    fn lacks(&self, rule: Rule) -> bool {
        self.lacking == Some(rule)
    }

    /// Searches with all rules, and once without each that is needed.
    pub fn report(&self) -> Report {
        let began = stopwatch();
        let worlds = Worlds::explore(self);
        let properties = vec![
            (STARVES, self.starves(&worlds)),
            (PROMISED_AGAIN, promises_the_dead_again(&worlds)),
        ];
        let rules = self.needed.iter().map(|rule| {
            let without = LineModel { lacking: Some(*rule), has_late: false, ..self.clone() };
            let worlds = Worlds::explore(&without);
            let broken = self.starves(&worlds).or_else(|| promises_the_dead_again(&worlds));
            (rule.left_out(), broken.is_some())
        });
        worlds.report(self.name, began, properties, rules.collect())
    }

    /// Returns the shortest way to where somebody waits for ever, and a round that is walked there.
    fn starves(&self, worlds: &Worlds<'_, LineModel>) -> Option<Vec<String>> {
        worlds.goes_on(|step: Step| match step {
            Step::Begins(it) => self.served.is_some_and(|who| who != it),
            // One that dies waits no more.
            Step::Dies(it) => self.served != Some(it),
            _ => true,
        })
    }
}

/// Returns the shortest way to where releases leave the lock to the dead for ever, though nobody else dies.
fn promises_the_dead_again(worlds: &Worlds<'_, LineModel>) -> Option<Vec<String>> {
    let happens = |step: Step| !matches!(step, Step::Dies(_) | Step::Returns(_));
    worlds.repeats(happens, |step, to| matches!(step, Step::Releases(_)) && to.may_lapse())
}

impl Endless for LineModel {
    type World = World;
    type Step = Step;

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World) -> Vec<(Step, World)> {
        world.steps(self)
    }

    fn members(&self) -> usize {
        self.members.len()
    }

    fn actor(step: Step) -> Option<usize> {
        step.actor()
    }

    fn rests(&self, index: usize, world: &World) -> bool {
        self.served != Some(index) && !world.contenders[index].is_alive
    }

    fn certain(&self) -> Vec<Step> {
        vec![Step::MarksLate, Step::Lapses, Step::RunsOut]
    }

    fn is_possible(&self, step: Step, world: &World) -> bool {
        match step {
            Step::MarksLate => world.late.is_some(),
            Step::Lapses => world.may_lapse(),
            Step::RunsOut => world.may_run_out(),
            _ => true,
        }
    }
}

impl Member {
    fn is_ranked(&self) -> bool {
        matches!(self.standing, Standing::Ranked { .. })
    }

    fn rank(&self) -> u32 {
        match self.standing {
            Standing::Ranked { rank, .. } => rank,
            _ => 0,
        }
    }
}

impl Rule {
    fn left_out(self) -> &'static str {
        match self {
            Rule::Order => "somebody waits for ever where the older goes not first",
            Rule::AnyTerm => "somebody waits for ever where a place is of one term",
            Rule::Moves => "somebody waits for ever where a begin clears any place",
            Rule::Tried => "somebody waits for ever where only who saw it held takes a place",
            Rule::Empties => "the dead are promised the lock for ever where a place stays",
            Rule::Leaves => {
                "somebody waits for ever where who was promised the lock clears a place"
            }
            Rule::Vacancy => "somebody waits for ever where each place is waited for anew",
        }
    }
}
