//! The claims I1 to I4 as formulas, and the clauses that make them inductive.

/// The state before anything happened.
pub const INITIAL: &[&str] = &[
    "(> now 0)",
    "(= last 0)",
    "(= id_at 0)",
    "(= fenced_at 0)",
    "(= count 0)",
    "(not present)",
    "(not has_current)",
    "(not meddled)",
    "(not edited)",
    "(not stray)",
    "(forall ((w Writer)) (not (or (observed w) (sent w) (settled w))))",
    "(forall ((t Term)) (not (or (begun t) (over t) (unprotected t) (believes t))))",
    "(forall ((h Beat)) (not (or (beat_sent h) (beat_applied h))))",
    "(forall ((f Fence)) (not (fence_done f)))",
    "(forall ((r Remover)) (not (looked r)))",
];

/// The claims: name and formula.
pub const CLAIMS: &[(&str, &str)] = &[
    (
        "I1",
        "(=> (not meddled) (forall ((t Term) (u Term)) (=> (and (valid t) (valid u)) (= t u))))",
    ),
    (
        "I2",
        "(forall ((t Term) (u Term)) (=> (and (begun t) (begun u) (< (nth t) (nth u))) (< (term_token t) (term_token u))))",
    ),
    (
        "I2-one-order",
        "(forall ((t Term) (u Term)) (=> (and (begun t) (begun u) (= (nth t) (nth u))) (= t u)))",
    ),
    (
        "I3",
        "(forall ((f Fence) (u Term)) (=> (and (fence_done f) (begun u) (< (nth (fence_term f)) (nth u))) (< (fence_ts f) (term_token u))))",
    ),
    (
        "I3-in-term",
        "(forall ((f Fence)) (=> (fence_done f) (and (begun (fence_term f)) (< (term_token (fence_term f)) (fence_ts f)) (=> (over (fence_term f)) (< (fence_ts f) (over_at (fence_term f)))))))",
    ),
    (
        "I4",
        "(forall ((h Beat)) (=> (and (beat_applied h) (over (beat_term h))) (< (beat_ts h) (over_at (beat_term h)))))",
    ),
    ("I4-none-stray", "(not stray)"),
    (
        "I4-none-overlooked",
        "(=> (not edited) (forall ((t Term) (h Beat)) (=> (and (begun t) (displaces t) (beat_applied h) (= (beat_term h) (displaced t))) (<= (beat_ts h) (read_at (writer t))))))",
    ),
];

/// The other clauses of the invariant: name and formula. `docs/proof.md` explains each.
pub const CLAUSES: &[(&str, &str)] = &[
    ("edits", "(=> edited meddled)"),
    ("time", "(and (> now 0) (>= last 0) (<= 0 id_at) (<= id_at last))"),
    (
        "row-times",
        "(=> (and present (not edited)) (and (<= heartbeat last) (= token id_at) (> token 0)))",
    ),
    (
        "row-term",
        "(=> (and present (is_holder wr) (not (= heartbeat 0)) (not edited)) (and has_current (= wr (writer current)) (= token (term_token current)) (not (over current))))",
    ),
    (
        "current",
        "(=> has_current (and (begun current) (not (unprotected current)) present (or edited (and (>= heartbeat (term_token current)) (= lease_null (not has_column)) (= lease_cell (term_lease current))))))",
    ),
    (
        "unprotected",
        "(forall ((t Term)) (=> (begun t) (or (unprotected t) (and has_current (= t current)))))",
    ),
    ("over", "(forall ((t Term)) (=> (begun t) (= (not (over t)) (is_in_row t))))"),
    (
        "counted",
        "(forall ((t Term)) (=> (begun t) (and (< (nth t) count) (is_holder (writer t)) (sent (writer t)) (< 0 (term_token t)) (<= (term_token t) id_at) (<= (sent_at (writer t)) (term_token t)) (< (read_at (writer t)) (term_token t)))))",
    ),
    (
        "ends",
        "(forall ((t Term)) (and (=> (over t) (and (begun t) (< (term_token t) (over_at t)) (<= (over_at t) id_at))) (=> (unprotected t) (and (begun t) (over t) (< (term_token t) (unprotected_at t)) (<= (over_at t) (unprotected_at t)) (<= (unprotected_at t) id_at)))))",
    ),
    (
        "displaced",
        "(forall ((t Term)) (=> (and (begun t) (displaces t)) (and (begun (displaced t)) (< (nth (displaced t)) (nth t)))))",
    ),
    (
        "next",
        "(forall ((t Term) (u Term)) (=> (and (begun t) (begun u) (< (nth t) (nth u))) (and (over t) (unprotected t) (<= (over_at t) (term_token u)) (<= (unprotected_at t) (term_token u)))))",
    ),
    (
        "seen",
        "(forall ((w Writer)) (and (=> (sent w) (observed w)) (=> (observed w) (and (is_holder w) (<= (read_at w) last) (=> (and (seen_present w) (not edited)) (and (<= (seen_token w) (read_at w)) (<= (seen_heartbeat w) (read_at w)))) (=> (and (seen_present w) present (= (seen_token w) token) (not edited)) (and (= (seen_lease_null w) lease_null) (= (seen_lease w) lease_cell)))))))",
    ),
    ("left", "(forall ((w Writer)) (=> (sent w) (and (<= (sent_at w) now) (may_leave w))))"),
    (
        "beats",
        "(forall ((h Beat)) (and (=> (beat_applied h) (beat_sent h)) (=> (beat_sent h) (and (begun (beat_term h)) (settled (writer (beat_term h))) (<= (beat_at h) now))) (=> (beat_applied h) (<= (beat_ts h) last))))",
    ),
    (
        "believed",
        "(forall ((t Term)) (=> (believes t) (and (begun t) (settled (writer t)) (< (term_token t) now) (<= (since_at t) now))))",
    ),
    (
        "first-lease",
        "(forall ((t Term)) (=> (and (begun t) (unprotected t) (not meddled) (not (settled (writer t)))) (<= (+ (sent_at (writer t)) (term_lease t)) (unprotected_at t))))",
    ),
    (
        "later-leases",
        "(forall ((h Beat)) (=> (beat_applied h) (and (=> (and has_current (= (beat_term h) current) (not edited)) (and (<= (beat_at h) heartbeat) (<= (beat_ts h) heartbeat))) (=> (and (unprotected (beat_term h)) (not meddled) (believes (beat_term h))) (<= (+ (beat_at h) (term_lease (beat_term h))) (unprotected_at (beat_term h)))))))",
    ),
    (
        "lease",
        "(forall ((t Term)) (=> (believes t) (and (=> (and has_current (= t current) (not edited)) (<= (since_at t) heartbeat)) (=> (and (unprotected t) (not meddled)) (<= (+ (since_at t) (term_lease t)) (unprotected_at t))))))",
    ),
    (
        "clocks",
        "(and (forall ((w Writer)) (=> (sent w) (elapsed_well (owner w) (sent_at w) (sent_clock w) now (clock (owner w))))) (forall ((h Beat)) (=> (beat_sent h) (elapsed_well (owner (writer (beat_term h))) (beat_at h) (beat_clock h) now (clock (owner (writer (beat_term h))))))) (forall ((t Term)) (=> (believes t) (elapsed_well (owner (writer t)) (since_at t) (since_clock t) now (clock (owner (writer t)))))))",
    ),
    (
        "counts-from",
        "(forall ((t Term)) (=> (believes t) (or (and (= (since_at t) (sent_at (writer t))) (= (since_clock t) (sent_clock (writer t)))) (exists ((h Beat)) (and (beat_sent h) (= (beat_term h) t) (= (since_at t) (beat_at h)) (= (since_clock t) (beat_clock h)))))))",
    ),
    (
        "removers",
        "(=> (not edited) (forall ((r Remover)) (=> (looked r) (and (<= (rem_read_at r) last) (<= (rem_heartbeat r) (rem_read_at r)) (<= (rem_token r) (rem_read_at r)) (=> (and has_current (= (rem_token r) token) (= (rem_heartbeat r) heartbeat)) (>= (- (rem_read_at r) heartbeat) (term_lease current)))))))",
    ),
    ("fences", "(forall ((f Fence)) (=> (fence_done f) (<= (fence_ts f) fenced_at)))"),
];
