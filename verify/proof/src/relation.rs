//! The lock as one relation, written as data: its state, and the actions with guards and updates.
//!
//! Terms are S-expressions with the operators of SMT-LIB. The half of an action that `Judge` guards
//! and `row` tell is what `crates/protocol/src/change.rs` does: a test evaluates it beside the code.

/// A name, the sorts of its arguments, and its own sort.
pub type Symbol = (&'static str, &'static [&'static str], &'static str);

/// Sorts of which there may be any number of elements.
pub const SORTS: &[&str] = &["Instance", "Writer", "Term", "Beat", "Fence", "Remover"];

/// Functions that never change. A `Writer` is an attempt to begin a term, or names no holder.
pub const RIGID: &[Symbol] = &[
    ("owner", &["Writer"], "Instance"),
    ("is_holder", &["Writer"], "Bool"),
    ("over_leftover", &["Writer"], "Bool"),
    ("nobody", &[], "Writer"),
    ("lease", &["Instance"], "Int"),
    ("margin", &["Instance"], "Int"),
    ("deducted", &["Instance"], "Int"),
    ("has_column", &[], "Bool"),
    ("writer", &["Term"], "Writer"),
    ("beat_term", &["Beat"], "Term"),
    ("fence_term", &["Fence"], "Term"),
];

/// The assumptions about them. Half a margin breaks the last.
pub const AXIOMS: &[&str] = &[
    "(not (is_holder nobody))",
    "(forall ((i Instance)) (and (<= 0 (margin i)) (< (margin i) (lease i))))",
    "(or has_column (forall ((i Instance) (j Instance)) (= (lease i) (lease j))))",
    "(forall ((i Instance)) (= (deducted i) (margin i)))",
];

/// The last axiom with half a margin, to see the proof fail.
pub const HALF_MARGIN: &str =
    "(forall ((i Instance)) (and (< 0 (margin i)) (= (* 2 (deducted i)) (margin i))))";

/// The state: the table, what Spanner orders, requests, terms, and what instances believe.
pub const STATE: &[Symbol] = &[
    ("now", &[], "Int"),
    ("clock", &["Instance"], "Int"),
    ("present", &[], "Bool"),
    ("heartbeat", &[], "Int"),
    ("token", &[], "Int"),
    ("wr", &[], "Writer"),
    ("lease_null", &[], "Bool"),
    ("lease_cell", &[], "Int"),
    ("takeover_row", &["Int"], "Bool"),
    ("last", &[], "Int"),
    ("id_at", &[], "Int"),
    ("fenced_at", &[], "Int"),
    ("observed", &["Writer"], "Bool"),
    ("seen_present", &["Writer"], "Bool"),
    ("seen_heartbeat", &["Writer"], "Int"),
    ("seen_token", &["Writer"], "Int"),
    ("seen_wr", &["Writer"], "Writer"),
    ("seen_lease_null", &["Writer"], "Bool"),
    ("seen_lease", &["Writer"], "Int"),
    ("read_at", &["Writer"], "Int"),
    ("sent", &["Writer"], "Bool"),
    ("sent_at", &["Writer"], "Int"),
    ("sent_clock", &["Writer"], "Int"),
    ("settled", &["Writer"], "Bool"),
    ("begun", &["Term"], "Bool"),
    ("term_token", &["Term"], "Int"),
    ("nth", &["Term"], "Int"),
    ("count", &[], "Int"),
    ("over", &["Term"], "Bool"),
    ("over_at", &["Term"], "Int"),
    ("unprotected", &["Term"], "Bool"),
    ("unprotected_at", &["Term"], "Int"),
    ("has_current", &[], "Bool"),
    ("current", &[], "Term"),
    ("displaces", &["Term"], "Bool"),
    ("displaced", &["Term"], "Term"),
    ("believes", &["Term"], "Bool"),
    ("since_at", &["Term"], "Int"),
    ("since_clock", &["Term"], "Int"),
    ("beat_sent", &["Beat"], "Bool"),
    ("beat_at", &["Beat"], "Int"),
    ("beat_clock", &["Beat"], "Int"),
    ("beat_applied", &["Beat"], "Bool"),
    ("beat_ts", &["Beat"], "Int"),
    ("fence_done", &["Fence"], "Bool"),
    ("fence_ts", &["Fence"], "Int"),
    ("looked", &["Remover"], "Bool"),
    ("rem_heartbeat", &["Remover"], "Int"),
    ("rem_token", &["Remover"], "Int"),
    ("rem_wr", &["Remover"], "Writer"),
    ("rem_read_at", &["Remover"], "Int"),
    ("meddled", &[], "Bool"),
    ("edited", &[], "Bool"),
    ("stray", &[], "Bool"),
];

/// Abbreviations: a name, its parameters, and the term that takes its place.
pub const ABBREVIATIONS: &[(&str, &[&str], &str)] = &[
    (
        "until",
        &["t"],
        "(- (+ (since_clock t) (lease (owner (writer t)))) (deducted (owner (writer t))))",
    ),
    ("valid", &["t"], "(and (believes t) (< (clock (owner (writer t))) (until t)))"),
    ("term_lease", &["t"], "(lease (owner (writer t)))"),
    (
        "elapsed_well",
        &["i", "at", "clock_then", "now_then", "clock_now"],
        "(=> (>= (- now_then at) (lease i)) (>= (- clock_now clock_then) (- (lease i) (margin i))))",
    ),
    (
        "is_unbelieved",
        &["w"],
        "(and (is_holder w) (settled w) (forall ((u Term)) (=> (= (writer u) w) (not (believes u)))))",
    ),
    (
        "is_expired",
        &["w"],
        "(and (>= (- (read_at w) (seen_heartbeat w)) (lease (owner w))) (or (seen_lease_null w) (>= (- (read_at w) (seen_heartbeat w)) (seen_lease w))))",
    ),
    (
        "may_leave",
        &["w"],
        "(or (not (seen_present w)) (= (seen_heartbeat w) 0) (is_expired w) (and (= (owner (seen_wr w)) (owner w)) (is_unbelieved (seen_wr w))))",
    ),
    ("is_in_row", &["t"], "(and present (= token (term_token t)) (= wr (writer t)))"),
    ("in_force", &["x"], "(and (begun x) (not (over x)))"),
    ("exposed", &["x"], "(and (begun x) (not (unprotected x)))"),
    (
        "ends_another",
        &["tok", "w"],
        "(exists ((x Term)) (and (in_force x) (not (and (= (term_token x) tok) (= (writer x) w)))))",
    ),
    ("names_as_before", &[], "(and present (= token token_set) (= wr wr_set))"),
];

/// The keeper of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `change.rs`, by the rows that its transaction read.
    Judge,
    /// The instance: its contract.
    Contract,
    /// Spanner and the clocks: an assumption.
    World,
    /// Picks an element that stands for something new: a way to write the relation.
    Name,
}

/// One condition of an action.
pub struct Guard {
    /// The name by which it is taken out.
    pub name: &'static str,
    /// Its keeper.
    pub kind: Kind,
    /// The condition.
    pub term: &'static str,
}

/// One action.
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// Its parameters: names and sorts. A sort `A>B` is a function.
    pub parameters: &'static [(&'static str, &'static str)],
    /// All must hold.
    pub guards: &'static [Guard],
    /// The cells of the rows after it: what `change.rs` writes.
    pub row: &'static [Updates],
    /// The rest of the state after it. `(f x)` is the function at every `x`, `(f @ t)` at `t` alone.
    pub rest: &'static [Updates],
}

impl Action {
    /// Returns all that changes: the place and its value after it.
    pub fn updates(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.row.iter().chain(self.rest).copied().flatten()
    }
}

const fn judge(name: &'static str, term: &'static str) -> Guard {
    Guard { name, kind: Kind::Judge, term }
}

const fn contract(name: &'static str, term: &'static str) -> Guard {
    Guard { name, kind: Kind::Contract, term }
}

const fn world(name: &'static str, term: &'static str) -> Guard {
    Guard { name, kind: Kind::World, term }
}

const fn names_new(name: &'static str, term: &'static str) -> Guard {
    Guard { name, kind: Kind::Name, term }
}

const AFTER_LAST: Guard = world("after-commits-and-reads", "(> ts last)");
const AFTER_FENCES: Guard = world("after-fences", "(> ts fenced_at)");
const AFTER_NOW: Guard = world("after-it-was-asked-for", "(>= ts now)");

/// The actions.
pub const ACTIONS: &[Action] = &[
    Action {
        name: "tick",
        parameters: &[("later", "Int"), ("next_clock", "Instance>Int")],
        guards: &[
            world("time-passes", "(> later now)"),
            world("clocks-never-go-back", "(forall ((i Instance)) (>= (next_clock i) (clock i)))"),
            world(
                "clocks-keep-the-margin",
                "(and (forall ((x Writer)) (=> (sent x) (elapsed_well (owner x) (sent_at x) (sent_clock x) later (next_clock (owner x))))) (forall ((h Beat)) (=> (beat_sent h) (elapsed_well (owner (writer (beat_term h))) (beat_at h) (beat_clock h) later (next_clock (owner (writer (beat_term h))))))))",
            ),
        ],
        row: &[],

        rest: &[&[("now", "later"), ("(clock x)", "(next_clock x)")]],
    },
    Action {
        name: "observe",
        parameters: &[("w", "Writer"), ("ts", "Int")],
        guards: &[
            world("fresh-nonce", "(and (is_holder w) (not (observed w)))"),
            world("read-sees-every-commit", "(>= ts last)"),
        ],
        row: &[],

        rest: &[&[
            ("last", "ts"),
            ("(observed @ w)", "true"),
            ("(seen_present @ w)", "present"),
            ("(seen_heartbeat @ w)", "heartbeat"),
            ("(seen_token @ w)", "token"),
            ("(seen_wr @ w)", "wr"),
            ("(seen_lease_null @ w)", "lease_null"),
            ("(seen_lease @ w)", "lease_cell"),
            ("(read_at @ w)", "ts"),
        ]],
    },
    Action {
        name: "send",
        parameters: &[("w", "Writer")],
        guards: &[
            contract("after-a-read", "(observed w)"),
            contract("sent-once", "(not (sent w))"),
            contract("unsettled", "(not (settled w))"),
            contract("vacant", "(may_leave w)"),
        ],
        row: &[],

        rest: &[&[
            ("(sent @ w)", "true"),
            ("(sent_at @ w)", "now"),
            ("(sent_clock @ w)", "(clock (owner w))"),
        ]],
    },
    Action {
        name: "insert",
        parameters: &[("w", "Writer"), ("t", "Term"), ("ts", "Int")],
        guards: &[
            judge("row-is-absent", "(not present)"),
            contract("was-sent", "(and (sent w) (not (seen_present w)))"),
            names_new("new-term", "(and (not (begun t)) (= (writer t) w))"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[BEGIN_ROW],
        rest: &[
            ENDS,
            UNPROTECTS,
            BEGINS,
            &[("stray", "(or stray (exists ((x Term)) (in_force x)))")],
        ],
    },
    Action {
        name: "takeover",
        parameters: &[("w", "Writer"), ("t", "Term"), ("ts", "Int")],
        guards: &[
            judge("row-is-there", "present"),
            judge("same-heartbeat", "(= heartbeat (seen_heartbeat w))"),
            judge("same-token", "(= token (seen_token w))"),
            judge("same-writer", "(= wr (seen_wr w))"),
            judge("no-takeover-row", "(or (over_leftover w) (not (takeover_row (seen_token w))))"),
            contract("was-sent", "(and (sent w) (seen_present w))"),
            names_new("new-term", "(and (not (begun t)) (= (writer t) w))"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[BEGIN_ROW, &[("(takeover_row @ (seen_token w))", "true")]],
        rest: &[
            ENDS,
            UNPROTECTS,
            BEGINS,
            &[("stray", "(or stray (ends_another (seen_token w) (seen_wr w)))")],
        ],
    },
    Action {
        name: "send-heartbeat",
        parameters: &[("h", "Beat")],
        guards: &[
            contract("believed", "(believes (beat_term h))"),
            contract("sent-once", "(not (beat_sent h))"),
        ],
        row: &[],

        rest: &[&[
            ("(beat_sent @ h)", "true"),
            ("(beat_at @ h)", "now"),
            ("(beat_clock @ h)", "(clock (owner (writer (beat_term h))))"),
        ]],
    },
    Action {
        name: "heartbeat",
        parameters: &[("h", "Beat"), ("ts", "Int")],
        guards: &[
            judge("row-is-there", "present"),
            judge("same-token", "(= token (term_token (beat_term h)))"),
            judge("same-writer", "(= wr (writer (beat_term h)))"),
            contract("was-sent", "(beat_sent h)"),
            AFTER_LAST,
            AFTER_NOW,
        ],
        row: &[&[("heartbeat", "ts")]],
        rest: &[&[("last", "ts"), ("(beat_applied @ h)", "true"), ("(beat_ts @ h)", "ts")]],
    },
    Action {
        name: "renew",
        parameters: &[("h", "Beat")],
        guards: &[
            world("acknowledged-once-applied", "(beat_applied h)"),
            contract("believed", "(believes (beat_term h))"),
            contract("not-expired", "(valid (beat_term h))"),
        ],
        row: &[],

        rest: &[&[
            ("(since_at x)", "(ite (= x (beat_term h)) (beat_at h) (since_at x))"),
            ("(since_clock x)", "(ite (= x (beat_term h)) (beat_clock h) (since_clock x))"),
        ]],
    },
    Action {
        name: "believe",
        parameters: &[("t", "Term")],
        guards: &[
            world("acknowledged-once-applied", "(begun t)"),
            world("commit-wait", "(> now (term_token t))"),
            contract("unsettled", "(not (settled (writer t)))"),
        ],
        row: &[],

        rest: &[&[
            ("(believes @ t)", "true"),
            ("(settled x)", "(or (= x (writer t)) (settled x))"),
            ("(since_at @ t)", "(sent_at (writer t))"),
            ("(since_clock @ t)", "(sent_clock (writer t))"),
        ]],
    },
    Action {
        name: "abandon",
        parameters: &[("w", "Writer")],
        guards: &[],
        row: &[],

        rest: &[&[("(settled @ w)", "true")]],
    },
    Action {
        name: "stop-believing",
        parameters: &[("t", "Term")],
        guards: &[contract("believed", "(believes t)")],
        row: &[],

        rest: &[&[("(believes @ t)", "false")]],
    },
    Action {
        name: "release",
        parameters: &[
            ("t", "Term"),
            ("ts", "Int"),
            ("next", "Writer"),
            ("null", "Bool"),
            ("grace", "Int"),
        ],
        guards: &[
            judge("row-is-there", "present"),
            judge("same-token", "(= token (term_token t))"),
            judge("same-writer", "(= wr (writer t))"),
            contract(
                "belief-dropped-first",
                "(and (begun t) (settled (writer t)) (not (believes t)))",
            ),
            contract("names-no-holder", "(not (is_holder next))"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[
            FREE_ROW,
            &[(
                "(takeover_row @ (seen_token (writer t)))",
                "(and (takeover_row (seen_token (writer t))) (not (seen_present (writer t))))",
            )],
        ],
        rest: &[
            ENDS,
            UNPROTECTS,
            FREES,
            &[("stray", "(or stray (ends_another (term_token t) (writer t)))")],
        ],
    },
    Action {
        name: "evict",
        parameters: &[("ts", "Int"), ("next", "Writer")],
        guards: &[
            judge("row-is-there", "present"),
            judge("somebody-holds", "(is_holder wr)"),
            contract("names-no-holder", "(not (is_holder next))"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[&[("token", "ts"), ("wr", "next")]],
        rest: &[ENDS],
    },
    Action {
        name: "seize",
        parameters: &[("ts", "Int"), ("next", "Writer"), ("null", "Bool"), ("grace", "Int")],
        guards: &[
            judge(
                "not-needless",
                "(not (and (or (not present) (and (= heartbeat 0) (= wr nobody))) (= next nobody)))",
            ),
            contract("names-no-holder", "(not (is_holder next))"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[FREE_ROW],
        rest: &[ENDS, UNPROTECTS, FREES, MEDDLES],
    },
    Action {
        name: "look",
        parameters: &[("r", "Remover"), ("ts", "Int")],
        guards: &[
            world("read-sees-every-commit", "(>= ts last)"),
            names_new("new-remover", "(not (looked r))"),
            contract(
                "vacant",
                "(and present (or (= heartbeat 0) (and (not lease_null) (>= (- ts heartbeat) lease_cell))))",
            ),
        ],
        row: &[],

        rest: &[&[
            ("last", "ts"),
            ("(looked @ r)", "true"),
            ("(rem_heartbeat @ r)", "heartbeat"),
            ("(rem_token @ r)", "token"),
            ("(rem_wr @ r)", "wr"),
            ("(rem_read_at @ r)", "ts"),
        ]],
    },
    Action {
        name: "remove",
        parameters: &[("r", "Remover"), ("ts", "Int")],
        guards: &[
            judge("row-is-there", "present"),
            judge("same-heartbeat", "(= heartbeat (rem_heartbeat r))"),
            judge("same-token", "(= token (rem_token r))"),
            judge("same-writer", "(= wr (rem_wr r))"),
            contract("was-seen", "(looked r)"),
            AFTER_LAST,
            AFTER_FENCES,
            AFTER_NOW,
        ],
        row: &[&[("present", "false")]],
        rest: &[
            ENDS,
            UNPROTECTS,
            FREES,
            &[("stray", "(or stray (ends_another (rem_token r) (rem_wr r)))")],
        ],
    },
    Action {
        name: "delete-by-hand",
        parameters: &[("ts", "Int")],
        guards: &[AFTER_LAST, AFTER_FENCES, AFTER_NOW],
        row: &[&[("present", "false")]],
        rest: &[ENDS, UNPROTECTS, FREES, MEDDLES],
    },
    Action {
        name: "edit",
        parameters: &[
            ("ts", "Int"),
            ("heartbeat_set", "Int"),
            ("token_set", "Int"),
            ("wr_set", "Writer"),
            ("null", "Bool"),
            ("lease_set", "Int"),
        ],
        guards: &[
            world(
                "revives-no-term",
                "(forall ((t Term)) (=> (over t) (not (and (= token_set (term_token t)) (= wr_set (writer t))))))",
            ),
            AFTER_LAST,
            world("after-fences", "(or (names_as_before) (> ts fenced_at))"),
            AFTER_NOW,
        ],
        row: &[&[
            ("present", "true"),
            ("heartbeat", "heartbeat_set"),
            ("token", "token_set"),
            ("wr", "wr_set"),
            ("lease_null", "null"),
            ("lease_cell", "lease_set"),
        ]],
        rest: &[
            MEDDLES,
            &[
                ("edited", "true"),
                ("last", "ts"),
                ("id_at", "(ite (names_as_before) id_at ts)"),
                ("has_current", "(and has_current (names_as_before))"),
                ("(over x)", "(or (over x) (and (begun x) (not (names_as_before))))"),
                ("(over_at x)", "(ite (and (in_force x) (not (names_as_before))) ts (over_at x))"),
                ("(unprotected x)", "(or (unprotected x) (and (begun x) (not (names_as_before))))"),
                (
                    "(unprotected_at x)",
                    "(ite (and (exposed x) (not (names_as_before))) ts (unprotected_at x))",
                ),
            ],
        ],
    },
    Action {
        name: "fence",
        parameters: &[("f", "Fence"), ("ts", "Int")],
        guards: &[
            judge("row-is-there", "present"),
            judge("same-token", "(= token (term_token (fence_term f)))"),
            judge("same-writer", "(= wr (writer (fence_term f)))"),
            contract("of-a-term", "(begun (fence_term f))"),
            names_new("new-write", "(not (fence_done f))"),
            world("after-the-row-it-read", "(> ts id_at)"),
            AFTER_NOW,
        ],
        row: &[],

        rest: &[&[
            ("(fence_done @ f)", "true"),
            ("(fence_ts @ f)", "ts"),
            ("fenced_at", "(ite (> ts fenced_at) ts fenced_at)"),
        ]],
    },
    Action {
        name: "sweep",
        parameters: &[("swept", "Int")],
        guards: &[],
        row: &[&[("(takeover_row @ swept)", "false")]],
        rest: &[],
    },
];

type Updates = &'static [(&'static str, &'static str)];

const BEGIN_ROW: Updates = &[
    ("present", "true"),
    ("heartbeat", "ts"),
    ("token", "ts"),
    ("wr", "w"),
    ("lease_null", "(not has_column)"),
    ("lease_cell", "(lease (owner w))"),
];

const FREE_ROW: Updates = &[
    ("present", "true"),
    ("heartbeat", "0"),
    ("token", "ts"),
    ("wr", "next"),
    ("lease_null", "null"),
    ("lease_cell", "grace"),
];

const BEGINS: Updates = &[
    ("(begun @ t)", "true"),
    ("(term_token @ t)", "ts"),
    ("(nth @ t)", "count"),
    ("count", "(+ count 1)"),
    ("(displaces @ t)", "has_current"),
    ("(displaced @ t)", "current"),
    ("has_current", "true"),
    ("current", "t"),
];

const FREES: Updates = &[("has_current", "false")];

const MEDDLES: Updates = &[("meddled", "true")];

/// Every term that began before is no longer in the row.
const ENDS: Updates = &[
    ("last", "ts"),
    ("id_at", "ts"),
    ("(over x)", "(or (over x) (begun x))"),
    ("(over_at x)", "(ite (in_force x) ts (over_at x))"),
];

/// Nor is the heartbeat of any.
const UNPROTECTS: Updates = &[
    ("(unprotected x)", "(or (unprotected x) (begun x))"),
    ("(unprotected_at x)", "(ite (exposed x) ts (unprotected_at x))"),
];
