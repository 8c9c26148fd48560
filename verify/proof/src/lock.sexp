; The lock as one relation: its state, the actions with guards and updates, and what is claimed.
;
; Formulas are SMT-LIB 2. The half of an action that `judge` and `cell` tell is what
; crates/protocol/src/change.rs does: a test evaluates it beside the code. `docs/proof.md` explains
; them.

; Sorts of which there may be any number of elements, and names that stand for any: what is said of
; one is said of all. A `Writer` is an attempt to begin a term, or names no holder. A `Look` is one
; read of one row.
(sort Instance i j)
(sort Row ro)
(sort Look l)
(sort Term t u)
(sort Beat h)
(sort Fence f)
(sort Writer w)

; Functions that never change: what they are of, what they tell, their names.
(rigid (Writer) Instance owner)
(rigid (Writer) Row of)
(rigid (Writer) Bool is_holder)
(rigid (Writer) Term under)
(rigid (Writer) Look own at_gate at_write_lock)
(rigid () Writer nobody)
(rigid (Look) Row at)
(rigid () Row gate write_lock)
(rigid (Row) Bool reads)
(rigid (Instance) Int lease margin deducted)
(rigid (Term) Writer writer)
(rigid (Beat) Term beat_term)
(rigid (Fence) Term fence_term)

; What is assumed of them. Readers of one lock have the rows that `reads`, its writers the `gate` and
; the `write_lock`; an attempt at that is `under` a term of the gate.
(axiom nobody-holds-nothing (not (is_holder nobody)))
(axiom leases (and (<= 0 (margin i)) (< (margin i) (lease i))))
(axiom rows-of-looks
  (and (= (at (own w)) (of w)) (= (at (at_gate w)) gate) (= (at (at_write_lock w)) write_lock)))
(axiom writers-do-not-read
  (not (or (reads gate) (reads write_lock) (= gate write_lock))))
(axiom half-of-the-margin-is-deducted
  (or (= (deducted i) (margin i)) (= (* 2 (deducted i)) (margin i))))
(axiom all-of-the-margin-is-deducted (= (deducted i) (margin i)))

; The state: time, the table and what Spanner orders.
(state () Int now)
(state (Instance) Int clock)
(state (Row) Bool present lease_null displaced_null)
(state (Row) Int heartbeat token lease_cell displaced_cell)
(state (Row) Writer wr)
(state (Row Int) Bool takeover_row)
(state (Row) Int last id_at fenced_at)
(state (Row) Bool has_current meddled edited)
(state (Row) Term current)
; Looks, and the requests that rest on them.
(state (Look) Bool looked saw_present saw_lease_null)
(state (Look) Int saw_heartbeat saw_token saw_lease saw_at)
(state (Look) Writer saw_wr)
(state (Writer) Bool sent settled)
(state (Writer) Int sent_at sent_clock)
(state (Beat) Bool beat_sent beat_applied)
(state (Beat) Int beat_at beat_clock beat_ts)
(state (Fence) Bool fence_done)
(state (Fence) Int fence_ts)
; Terms, and what instances believe.
(state (Term) Bool begun over unprotected displaces announced believes)
(state (Term) Int nth term_token over_at unprotected_at since_at since_clock)
(state (Term) Term displaced)
(state () Int count)
(state () Bool stray)

; Abbreviations.
(define row (t) (of (writer t)))
(define term_lease (t) (lease (owner (writer t))))
(define beat_owner (h) (owner (writer (beat_term h))))
(define until (t) (- (+ (since_clock t) (term_lease t)) (deducted (owner (writer t)))))
(define valid (t) (and (believes t) (< (clock (owner (writer t))) (until t))))
(define elapsed_well (i since clock_then by clock_now)
  (=> (>= (- by since) (lease i)) (>= (- clock_now clock_then) (- (lease i) (margin i)))))
(define requests_elapsed_well (by reading)
  (forall ((w Writer))
    (=> (sent w) (elapsed_well (owner w) (sent_at w) (sent_clock w) by (reading (owner w)))))
  (forall ((h Beat))
    (=> (beat_sent h)
      (elapsed_well (beat_owner h) (beat_at h) (beat_clock h) by (reading (beat_owner h))))))
(define vacant (l i)
  (or (not (saw_present l)) (= (saw_heartbeat l) 0)
    (>= (- (saw_at l) (saw_heartbeat l)) (ite (saw_lease_null l) (lease i) (saw_lease l)))))
(define is_unbelieved (w)
  (and (is_holder w) (settled w)
    (forall ((u Term)) (=> (= (writer u) w) (not (believes u))))))
(define may_leave (w)
  (or (vacant (own w) (owner w))
    (and (= (owner (saw_wr (own w))) (owner w)) (is_unbelieved (saw_wr (own w))))))
(define may_read (w)
  (=> (reads (of w))
    (and (looked (at_gate w)) (vacant (at_gate w) (owner w))
      (looked (at_write_lock w)) (vacant (at_write_lock w) (owner w)))))
(define is_in_row (t)
  (and (present (row t)) (= (token (row t)) (term_token t)) (= (wr (row t)) (writer t))))
(define in_force (t) (and (begun t) (not (over t))))
(define is_current (t)
  (has_current (row t))
  (= t (current (row t))))
(define names (l t)
  (and (saw_present l) (= (term_token t) (saw_token l)) (= (writer t) (saw_wr l))))
(define ends_another (l)
  (exists ((x Term)) (and (in_force x) (= (row x) (at l)) (not (names l x)))))
(define ends_all_but (t) (exists ((x Term)) (and (in_force x) (= (row x) (row t)) (not (= x t)))))
(define names_as_before (ro) (and (present ro) (= (token ro) token_set) (= (wr ro) wr_set)))
(define dead (l)
  (and (saw_present l) (not (and (= (saw_heartbeat l) 0) (not (is_holder (saw_wr l)))))))
; The rows that a reader finds vacant, and those whose last holder it releases.
(define is_beside (ro) (or (= ro gate) (= ro write_lock)))
(define freed (ro)
  (or (and (= ro gate) (dead (at_gate w))) (and (= ro write_lock) (dead (at_write_lock w)))))
(define polled (ro) (and (reads ro) (saw_present (glance ro))))
(define deleted (ro) (and (polled ro) (present ro)))
(define each_reader (what) (forall ((ro Row)) (=> (reads ro) what)))
(define each_deleted (what) (forall ((ro Row)) (=> (deleted ro) what)))
(define each_freed (what) (forall ((ro Row)) (=> (freed ro) what)))
; Terms that may not be in force together.
(define excludes (t u)
  (or (= (row t) (row u)) (and (= (row t) write_lock) (reads (row u)))
    (and (reads (row t)) (= (row u) write_lock))))

; Lists of guards and updates that several actions share. An update of `(f x)` is at every `x`.
(define after-all (ro)
  (world after-commits-and-reads (> ts (last ro)))
  (world after-fences (> ts (fenced_at ro))))
(define same-row (l)
  (judge same-heartbeat (= (heartbeat (at l)) (saw_heartbeat l)))
  (judge same-token (= (token (at l)) (saw_token l)))
  (judge same-writer (= (wr (at l)) (saw_wr l))))
(define own-row-as-seen ()
  (judge own-row-is-there-or-not (= (present (of w)) (saw_present (own w))))
  (judge same-heartbeat (=> (present (of w)) (= (heartbeat (of w)) (saw_heartbeat (own w)))))
  (judge same-token (=> (present (of w)) (= (token (of w)) (saw_token (own w)))))
  (judge same-writer (=> (present (of w)) (= (wr (of w)) (saw_wr (own w))))))
(define same-term (t)
  (judge row-is-there (present (row t)))
  (judge same-token (= (token (row t)) (term_token t)))
  (judge same-writer (= (wr (row t)) (writer t))))
(define writes-row (ro at by_token by null ms)
  (cell (present ro) true)
  (cell (heartbeat ro) at)
  (cell (token ro) by_token)
  (cell (wr ro) by)
  (cell (lease_null ro) null)
  (cell (lease_cell ro) ms))
(define begin-row (ro by) (writes-row ro ts ts by false (lease (owner by))))
(define free-row (ro)
  (contract names-no-holder (not (is_holder next)))
  (writes-row ro 0 ts next null grace))
; Those terms `x` are no longer in their rows.
(define ends (which)
  (then (over x) (or (over x) (and (begun x) which)))
  (then (over_at x) (ite (and (in_force x) which) ts (over_at x))))
; Nor are their heartbeats.
(define unprotects (which when)
  (then (unprotected x) (or (unprotected x) (and (begun x) which)))
  (then (unprotected_at x)
    (ite (and (begun x) (not (unprotected x)) which) when (unprotected_at x))))
(define identifies (ro)
  (then (last ro) ts)
  (then (id_at ro) ts))
; Every term of the row that began before is no longer in it, nor is its heartbeat.
(define clears (ro)
  (after-all ro)
  (identifies ro)
  (ends (= (row x) ro))
  (then (has_current ro) false)
  (unprotects (= (row x) ro) ts))
(define counts ()
  (then (term_token t) ts)
  (then (nth t) count)
  (then (count) (+ count 1)))
(define begins (ro)
  (new new-term (and (not (begun t)) (= (writer t) w)))
  (world after-it-was-asked-for (>= ts now))
  (begin-row ro w)
  (counts)
  (then (begun t) true)
  (then (displaces t) (has_current ro))
  (then (displaced t) (current ro))
  (then (has_current ro) true)
  (then (current ro) t))
(define begins-alone ()
  (contract of-no-reader (not (reads (of w))))
  (contract of-no-write-lock (not (= (of w) write_lock)))
  (clears (of w))
  (begins (of w))
  (then (stray) (or stray (ends_another (own w)))))
; The takeover row that the row names goes.
(define deletes-takeover-row (ro)
  (cell (takeover_row ro (displaced_cell ro))
    (and (or (not (present ro)) (displaced_null ro)) (takeover_row ro (displaced_cell ro)))))
(define is-given-up ()
  (contract belief-dropped-first (and (begun t) (settled (writer t)) (not (believes t))))
  (clears (row t))
  (then (stray) (or stray (ends_all_but t))))
(define is-released ()
  (is-given-up)
  (free-row (row t))
  (deletes-takeover-row (row t))
  (cell (displaced_null (row t)) true))
; True time passes by any amount, and each clock by any amount that errs within the margin.
(action tick ((later Int) (next_clock (Instance) Int))
  (world time-passes (> later now))
  (world clocks-keep-the-margin (and (requests_elapsed_well later next_clock)))
  (then (now) later)
  (then (clock x) (next_clock x)))

; A strong read of a row, for whatever rests on it; its answer may be late.
(action look ((l Look) (ts Int))
  (new new-look (not (looked l)))
  (world read-sees-every-commit (>= ts (last (at l))))
  (then (last (at l)) ts)
  (then (looked l) true)
  (then (saw_present l) (present (at l)))
  (then (saw_heartbeat l) (heartbeat (at l)))
  (then (saw_token l) (token (at l)))
  (then (saw_wr l) (wr (at l)))
  (then (saw_lease_null l) (lease_null (at l)))
  (then (saw_lease l) (lease_cell (at l)))
  (then (saw_at l) ts))

; The attempt leaves, if its own look showed a vacant row or an unbelieved term of its own
; instance; a reader's also needs looks at a vacant gate and a vacant write lock.
(action send ((w Writer))
  (world fresh-nonce (is_holder w))
  (contract after-a-read (looked (own w)))
  (contract sent-once (not (sent w)))
  (contract unsettled (not (settled w)))
  (contract vacant (may_leave w))
  (contract nobody-writes (may_read w))
  (then (sent w) true)
  (then (sent_at w) now)
  (then (sent_clock w) (clock (owner w))))

; The attempt is committed, as by a takeover: at any later time, any number of times.
(action insert ((w Writer) (t Term) (ts Int))
  (judge row-is-absent (not (present (of w))))
  (contract was-sent (and (sent w) (not (saw_present (own w)))))
  (begins-alone)
  (cell (displaced_null (of w)) true))

(action takeover ((w Writer) (t Term) (ts Int))
  (judge row-is-there (present (of w)))
  (same-row (own w))
  (contract was-sent (and (sent w) (saw_present (own w))))
  (begins-alone)
  (deletes-takeover-row (of w))
  (cell (takeover_row (of w) (saw_token (own w))) true)
  (cell (displaced_null (of w)) false)
  (cell (displaced_cell (of w)) (saw_token (own w))))

; A heartbeat leaves a believed term. It is committed at any later time.
(action send-heartbeat ((h Beat))
  (contract believed (believes (beat_term h)))
  (contract sent-once (not (beat_sent h)))
  (then (beat_sent h) true)
  (then (beat_at h) now)
  (then (beat_clock h) (clock (beat_owner h))))

(action heartbeat ((h Beat) (ts Int))
  (same-term (beat_term h))
  (contract was-sent (beat_sent h))
  (world after-commits-and-reads (> ts (last (row (beat_term h)))))
  (world after-it-was-asked-for (>= ts now))
  (cell (heartbeat (row (beat_term h))) ts)
  (then (last (row (beat_term h))) ts)
  (then (beat_applied h) true)
  (then (beat_ts h) ts))

; The instance hears that a heartbeat of a valid term was applied.
(action renew ((h Beat))
  (world acknowledged-once-applied (beat_applied h))
  (contract believed (believes (beat_term h)))
  (contract not-expired (valid (beat_term h)))
  (then (since_at (beat_term h)) (beat_at h))
  (then (since_clock (beat_term h)) (beat_clock h)))

; The instance hears that its attempt was applied, from the reply or from the resolving read.
(action believe ((t Term))
  (world acknowledged-once-applied (begun t))
  (world commit-wait (> now (term_token t)))
  (contract unsettled (not (settled (writer t))))
  (then (announced t) true)
  (then (believes t) true)
  (then (settled (writer t)) true)
  (then (since_at t) (sent_at (writer t)))
  (then (since_clock t) (sent_clock (writer t))))

; The instance gives an attempt up.
(action abandon ((w Writer))
  (then (settled w) true))

; It drops its belief: expiry, release, or crash.
(action stop-believing ((t Term))
  (contract believed (believes t))
  (then (believes t) false))

; The release of a term that is not believed, to anyone or to a successor.
(action release ((t Term) (ts Int) (next Writer) (null Bool) (grace Int))
  (same-term t)
  (is-released))

(action evict ((ro Row) (ts Int) (next Writer))
  (judge row-is-there (present ro))
  (judge somebody-holds (is_holder (wr ro)))
  (contract names-no-holder (not (is_holder next)))
  (after-all ro)
  (cell (token ro) ts)
  (cell (wr ro) next)
  (identifies ro)
  (ends (= (row x) ro)))

; By anybody at any time, as is a deletion by hand.
(action seize ((ro Row) (ts Int) (next Writer) (null Bool) (grace Int))
  (judge not-needless
    (not (and (or (not (present ro)) (and (= (heartbeat ro) 0) (= (wr ro) nobody)))
           (= next nobody))))
  (free-row ro)
  (cell (displaced_null ro) (or (not (present ro)) (displaced_null ro)))
  (clears ro)
  (then (meddled ro) true))

; An operator, or a member, removes a row that a look showed to be vacant, if it is unchanged.
(action remove ((l Look) (i Instance) (ts Int))
  (judge row-is-there (present (at l)))
  (same-row l)
  (contract vacant (and (looked l) (saw_present l) (vacant l i)))
  (cell (present (at l)) false)
  (deletes-takeover-row (at l))
  (clears (at l))
  (then (stray) (or stray (ends_another l))))

(action delete-by-hand ((ro Row) (ts Int))
  (cell (present ro) false)
  (clears ro)
  (then (meddled ro) true))

; Somebody writes any cells by hand, or restores an old row: anything but the token and writer of
; a term that is over.
(action edit ((ro Row) (ts Int) (heartbeat_set Int) (token_set Int) (wr_set Writer) (null Bool)
    (lease_set Int) (none_displaced Bool) (displaced_set Int))
  (world revives-no-term
    (forall ((t Term))
      (=> (and (= (row t) ro) (begun t))
        (not (and (over t) (= token_set (term_token t)) (= wr_set (writer t)))))))
  (world after-commits-and-reads (> ts (last ro)))
  (world after-fences (or (names_as_before ro) (> ts (fenced_at ro))))
  (writes-row ro heartbeat_set token_set wr_set null lease_set)
  (cell (displaced_null ro) none_displaced)
  (cell (displaced_cell ro) displaced_set)
  (then (meddled ro) true)
  (then (edited ro) true)
  (then (last ro) ts)
  (then (id_at ro) (ite (names_as_before ro) (id_at ro) ts))
  (then (has_current ro) (and (has_current ro) (names_as_before ro)))
  (ends (and (= (row x) ro) (not (names_as_before ro))))
  (unprotects (and (= (row x) ro) (not (names_as_before ro))) ts))

; A fenced write of any term, by anybody at any time.
(action fence ((f Fence) (ts Int))
  (same-term (fence_term f))
  (contract of-a-term (begun (fence_term f)))
  (new new-write (not (fence_done f)))
  (world after-the-row-it-read (> ts (id_at (row (fence_term f)))))
  (then (fence_done f) true)
  (then (fence_ts f) ts)
  (then (fenced_at (row (fence_term f)))
    (ite (> ts (fenced_at (row (fence_term f)))) ts (fenced_at (row (fence_term f))))))

; A takeover row goes, beside the one that a row names.
(action delete-takeover-row ((ro Row) (of_token Int))
  (cell (takeover_row ro of_token) false))

; Readers and writers.
; The attempt is committed in the reader's row, if that, gate and write lock are as they were
; seen; whoever's term is still in one of those two is released.
(action begin-read ((w Writer) (t Term) (ts Int))
  (judge gate-is-there-or-not (= (present gate) (saw_present (at_gate w))))
  (judge gate-same-heartbeat
    (=> (present gate) (= (heartbeat gate) (saw_heartbeat (at_gate w)))))
  (judge gate-same-token (=> (present gate) (= (token gate) (saw_token (at_gate w)))))
  (judge gate-same-writer (=> (present gate) (= (wr gate) (saw_wr (at_gate w)))))
  (judge write-lock-is-there-or-not (= (present write_lock) (saw_present (at_write_lock w))))
  (judge write-lock-same-heartbeat
    (=> (present write_lock) (= (heartbeat write_lock) (saw_heartbeat (at_write_lock w)))))
  (judge write-lock-same-token
    (=> (present write_lock) (= (token write_lock) (saw_token (at_write_lock w)))))
  (judge write-lock-same-writer
    (=> (present write_lock) (= (wr write_lock) (saw_wr (at_write_lock w)))))
  (own-row-as-seen)
  (contract was-sent (and (sent w) (reads (of w))))
  (after-all (of w))
  (world after-the-rows-it-read (and (> ts (id_at gate)) (> ts (id_at write_lock))))
  (world after-what-it-frees (each_freed (and (> ts (last ro)) (> ts (fenced_at ro)))))
  (cell (heartbeat x) (ite (freed x) 0 (heartbeat x)))
  (cell (token x) (ite (freed x) ts (token x)))
  (cell (wr x) (ite (freed x) nobody (wr x)))
  (cell (lease_null x) (or (freed x) (lease_null x)))
  (cell (displaced_null (of w)) (or (not (present (of w))) (displaced_null (of w))))
  (then (last x) (ite (or (= x (of w)) (and (is_beside x) (> ts (last x)))) ts (last x)))
  (then (id_at x) (ite (or (= x (of w)) (freed x)) ts (id_at x)))
  (ends (or (= (row x) (of w)) (freed (row x))))
  (unprotects (or (= (row x) (of w)) (is_beside (row x)))
    (ite (or (= (row x) (of w)) (freed (row x))) ts (id_at (row x))))
  (then (has_current x) (and (has_current x) (not (is_beside x))))
  (begins (of w))
  (then (stray)
    (or stray (ends_another (own w)) (and (dead (at_gate w)) (ends_another (at_gate w)))
      (and (dead (at_write_lock w)) (ends_another (at_write_lock w))))))

; The release of a reader's term: its row goes.
(action end-read ((t Term) (ts Int))
  (same-term t)
  (cell (present (row t)) false)
  (is-given-up))

; The write lock is begun where nobody reads, under a term of the gate. The readers' rows go.
(action begin-write ((w Writer) (t Term) (ts Int) (glance (Row) Look))
  (judge gate-is-there (present gate))
  (judge gate-same-token (= (token gate) (term_token (under w))))
  (judge gate-same-writer (= (wr gate) (writer (under w))))
  (own-row-as-seen)
  (judge readers-same-heartbeat (each_deleted (= (heartbeat ro) (saw_heartbeat (glance ro)))))
  (judge readers-same-token (each_deleted (= (token ro) (saw_token (glance ro)))))
  (judge readers-same-writer (each_deleted (= (wr ro) (saw_wr (glance ro)))))
  (contract was-sent (and (sent w) (= (of w) write_lock)))
  (contract under-the-gate (and (begun (under w)) (= (row (under w)) gate)))
  (contract after-a-poll (each_reader (and (looked (glance ro)) (= (at (glance ro)) ro))))
  (contract polled-under-the-gate (each_reader (>= (saw_at (glance ro)) (term_token (under w)))))
  (contract readers-vacant (each_reader (vacant (glance ro) (owner w))))
  (after-all write_lock)
  (world after-its-poll (each_reader (> ts (saw_at (glance ro)))))
  (world after-the-rows-it-read (forall ((ro Row)) (=> (polled ro) (> ts (id_at ro)))))
  (world after-what-it-deletes (each_deleted (and (> ts (last ro)) (> ts (fenced_at ro)))))
  (deletes-takeover-row (of w))
  (cell (takeover_row (of w) (saw_token (own w)))
    (or (saw_present (own w)) (takeover_row (of w) (saw_token (own w)))))
  (cell (displaced_null (of w)) (not (saw_present (own w))))
  (cell (displaced_cell (of w)) (saw_token (own w)))
  (cell (present x) (and (present x) (not (polled x))))
  (then (last x) (ite (or (= x write_lock) (deleted x)) ts (last x)))
  (then (id_at x) (ite (or (= x write_lock) (deleted x)) ts (id_at x)))
  (ends (or (= (row x) write_lock) (deleted (row x))))
  (unprotects (or (= (row x) write_lock) (deleted (row x))) ts)
  (then (has_current x) (and (has_current x) (not (deleted x))))
  (begins (of w))
  (then (stray)
    (or stray (ends_another (own w))
      (exists ((x Term)) (and (in_force x) (deleted (row x)) (not (names (glance (row x)) x)))))))

; The state before anything happened.
(initial numbers (and (> now 0) (= count 0) (not stray)))
(initial rows
  (and (= (last ro) 0) (= (id_at ro) 0) (= (fenced_at ro) 0)
    (not (or (present ro) (has_current ro) (meddled ro) (edited ro)))))
(initial looks (not (looked l)))
(initial attempts (not (or (sent w) (settled w))))
(initial terms
  (not (or (begun t) (over t) (unprotected t) (announced t) (believes t))))
(initial beats (not (or (beat_sent h) (beat_applied h))))
(initial fences (not (fence_done f)))

(claim I1 (=> (and (valid t) (valid u) (= (row t) (row u)) (not (meddled (row t)))) (= t u)))
(claim I1-readers
  (=> (and (valid t) (= (row t) write_lock) (valid u) (reads (row u)))
    (or (meddled write_lock) (meddled (row u)))))
(claim I2
  (=> (and (begun t) (begun u) (excludes t u) (< (nth t) (nth u))) (< (term_token t) (term_token u))))
(claim I2-one-order (=> (and (begun t) (begun u) (= (nth t) (nth u))) (= t u)))
(claim I3
  (=> (and (fence_done f) (begun u) (excludes (fence_term f) u) (< (nth (fence_term f)) (nth u)))
    (< (fence_ts f) (term_token u))))
(claim I3-in-term
  (=> (fence_done f)
    (and (begun (fence_term f)) (< (term_token (fence_term f)) (fence_ts f))
      (=> (over (fence_term f)) (< (fence_ts f) (over_at (fence_term f)))))))
(claim I4 (=> (and (beat_applied h) (over (beat_term h))) (< (beat_ts h) (over_at (beat_term h)))))
(claim I4-none-stray (not stray))
(claim I4-none-overlooked
  (=> (and (begun t) (displaces t) (beat_applied h) (= (beat_term h) (displaced t))
        (not (edited (row t)))) (<= (beat_ts h) (saw_at (own (writer t))))))

; The row shows a heartbeat since then, while the term is in it, and the lease was kept afterwards.
(define shown (t since)
  (=> (and (is_current t) (not (edited (row t)))) (<= since (heartbeat (row t)))))
(define protected (t since)
  (=> (and (unprotected t) (not (meddled (row t))))
    (<= (+ since (term_lease t)) (unprotected_at t))))

; The other clauses of the invariant.
; An edit counts as meddling.
(clause edits (=> (edited ro) (meddled ro)))
; True time is past the epoch, and nothing identified the row later than the last commit or read.
(clause time
  (and (> now 0)
    (forall ((ro Row)) (and (>= (last ro) 0) (<= 0 (id_at ro)) (<= (id_at ro) (last ro))))))
; The row's heartbeat is no later than the last commit, and its token is the commit that
; identified it.
(clause row-times
  (=> (and (present ro) (not (edited ro)))
    (and (<= (heartbeat ro) (last ro)) (= (token ro) (id_at ro)) (> (token ro) 0))))
; A writer that names a holder, in a row that is not released, is that of the current term, with
; its token, not over.
(clause row-term
  (=> (and (present ro) (is_holder (wr ro)) (not (= (heartbeat ro) 0)) (not (edited ro)))
    (and (has_current ro) (= (wr ro) (writer (current ro))) (= (token ro) (term_token (current ro)))
      (not (over (current ro))))))
; The term that the heartbeat protects has begun; the heartbeat is no earlier than its token, and
; the lease is its holder's.
(clause current
  (=> (has_current ro)
    (and (begun (current ro)) (= (row (current ro)) ro) (not (unprotected (current ro)))
      (present ro)
      (or (edited ro)
        (and (>= (heartbeat ro) (term_token (current ro))) (not (lease_null ro))
          (= (lease_cell ro) (term_lease (current ro))))))))
; Every other term is unprotected.
(clause unprotected (=> (begun t) (or (unprotected t) (and (is_current t)))))
; A term is over exactly when its token and writer are not in the row.
(clause over (=> (begun t) (= (not (over t)) (is_in_row t))))
; A term has a sent attempt, which read and left before its first token.
(clause counted
  (=> (begun t)
    (and (< (nth t) count) (is_holder (writer t)) (sent (writer t)) (< 0 (term_token t))
      (<= (term_token t) (id_at (row t))) (<= (sent_at (writer t)) (term_token t))
      (< (saw_at (own (writer t))) (term_token t)))))
; A term is over after its token, and unprotected no earlier than it is over.
(clause ends
  (and (=> (over t) (and (begun t) (< (term_token t) (over_at t)) (<= (over_at t) (id_at (row t)))))
    (=> (unprotected t)
      (and (begun t) (over t) (< (term_token t) (unprotected_at t))
        (<= (over_at t) (unprotected_at t)) (<= (unprotected_at t) (id_at (row t)))))))
; A displaced term began before the one that displaced it.
(clause displaced
  (=> (and (begun t) (displaces t))
    (and (begun (displaced t)) (= (row (displaced t)) (row t)) (< (nth (displaced t)) (nth t)))))
; A term is over, and unprotected, no later than the token of each later one of its row. So is a
; reader's before each later term of the write lock, and that before each later reader.
(clause next
  (=> (and (begun t) (begun u) (excludes t u) (< (nth t) (nth u)))
    (and (over t) (unprotected t) (<= (over_at t) (term_token u))
      (<= (unprotected_at t) (term_token u)))))
; What a look has seen is no later than the look; while the token is the same, so is the lease.
(clause seen
  (=> (looked l)
    (and (<= (saw_at l) (last (at l)))
      (=> (and (saw_present l) (not (edited (at l))))
        (and (<= (saw_token l) (saw_at l)) (<= (saw_heartbeat l) (saw_at l))))
      (=> (and (saw_present l) (present (at l)) (= (saw_token l) (token (at l)))
            (not (edited (at l))))
        (and (= (saw_lease_null l) (lease_null (at l))) (= (saw_lease l) (lease_cell (at l))))))))
; A look that saw no row, later than a term's token, came after that term was unprotected.
(clause absent
  (=> (and (looked l) (not (saw_present l)) (begun t) (= (row t) (at l))
        (<= (term_token t) (saw_at l))) (and (unprotected t) (<= (unprotected_at t) (saw_at l)))))
; An attempt that left was allowed to leave; a reader's by all three rows.
(clause left
  (=> (sent w)
    (and (is_holder w) (looked (own w)) (<= (sent_at w) now) (may_leave w)
      (may_read w))))
; A heartbeat was sent before now, from a term that had been believed.
(clause beats
  (and (=> (beat_applied h) (beat_sent h))
    (=> (beat_sent h) (and (announced (beat_term h)) (<= (beat_at h) now)))
    (=> (beat_applied h) (<= (beat_ts h) (last (row (beat_term h)))))))
; One term of an attempt at the most is ever believed.
(clause announced
  (=> (announced t)
    (and (begun t) (settled (writer t))
      (=> (and (announced u) (= (writer t) (writer u))) (= t u)))))
; A believed term has begun, before now, and its attempt is settled.
(clause believed
  (=> (believes t) (and (announced t) (< (term_token t) now) (<= (since_at t) now))))
; An attempt that may yet be believed is protected for a lease from when it was sent.
(clause first-lease
  (=> (and (begun t) (not (settled (writer t)))) (protected t (sent_at (writer t)))))
; So is a believed term from when each applied heartbeat was sent.
(clause later-leases
  (=> (beat_applied h)
    (and (shown (beat_term h) (beat_at h)) (shown (beat_term h) (beat_ts h))
      (=> (believes (beat_term h)) (protected (beat_term h) (beat_at h))))))
; So is it from the request that its validity counts from.
(clause lease (=> (believes t) (and (shown t (since_at t)) (protected t (since_at t)))))
; When a lease has passed since such a request was sent, its instance's clock has passed at least
; the lease less the margin.
(clause clocks
  (and (requests_elapsed_well now clock)
    (forall ((t Term))
      (=> (believes t)
        (elapsed_well (owner (writer t)) (since_at t) (since_clock t) now
          (clock (owner (writer t))))))))
; Validity counts from the attempt or from a heartbeat of the term.
(clause counts-from
  (=> (believes t)
    (or (and (= (since_at t) (sent_at (writer t))) (= (since_clock t) (sent_clock (writer t))))
      (exists ((h Beat))
        (and (beat_sent h) (= (beat_term h) t) (= (since_at t) (beat_at h))
          (= (since_clock t) (beat_clock h)))))))
; No fenced write is later than the last one of its row.
(clause fences (=> (fence_done f) (<= (fence_ts f) (fenced_at (row (fence_term f))))))
; Each reader's token is no later than the last commit on gate and write lock or read of them.
(clause readers
  (=> (and (begun t) (reads (row t)))
    (and (<= (term_token t) (last gate)) (<= (term_token t) (last write_lock)))))
; While a term is in the gate, no reader's token is later than its own.
(clause at-the-gate
  (=> (and (in_force t) (= (row t) gate) (begun u) (reads (row u)))
    (<= (term_token u) (term_token t))))

; Runs in which each action happens, and what holds in the end.
(run (and (not (meddled row0)) (exists ((t Term)) (and (valid t) (= (nth t) 2))))
  look send tick insert tick believe send-heartbeat heartbeat renew fence stop-believing release
  look send takeover delete-takeover-row tick believe tick evict look send takeover tick believe)
(run (and (meddled row0) (exists ((t Term)) (valid t)))
  look send insert abandon look remove look send insert tick believe delete-by-hand seize edit)
(run (exists ((t Term)) (and (valid t) (= (row t) write_lock) (not (meddled write_lock))))
  look look look send begin-read tick believe fence tick send insert tick believe look send
  begin-write tick believe fence)
(run (exists ((t Term)) (and (valid t) (= (row t) write_lock) (= (nth t) 2)))
  look send insert tick believe look send begin-write tick believe stop-believing release look
  send begin-write tick believe)
(run (exists ((t Term)) (and (reads (row t)) (over t) (not (meddled (row t)))))
  look send insert tick believe look look send begin-write tick believe stop-believing release
  stop-believing release look look send begin-read tick believe stop-believing end-read)

; The induction uses these guards, though no story without them was found.
(untold (send fresh-nonce) (send-heartbeat believed)
  (begin-write readers-same-token readers-same-writer))
; It can spare each of these. `row-is-there`, `somebody-holds` and `not-needless` spare a useless write.
; `same-writer`: the token of a term in the row is its own. `after-fences`: no fence reads a row that
; is absent. `names-no-holder`: the row has no heartbeat and a new token, so no term is in it.
; `unsettled`, `believed`, `not-expired`: no heartbeat of an expired term is applied after another began.
(spare (send unsettled) (insert after-fences) (takeover row-is-there)
  (renew believed not-expired) (stop-believing believed) (release row-is-there same-writer)
  (evict row-is-there somebody-holds) (seize not-needless) (remove row-is-there)
  (end-read row-is-there same-writer) (release names-no-holder)
  (seize names-no-holder))

; One of these orders of actions tells what goes wrong without each other guard, or that axiom.
; Steps may be left out. Those that are asked quickly come first.
(plot look send abandon edit look look send send delete-by-hand insert takeover remove begin-read
  begin-read)
(plot look send insert abandon look tick send takeover tick believe look send takeover tick believe)
(plot look look send send insert tick believe send-heartbeat fence edit look send seize edit
  heartbeat fence takeover release)
(plot look send tick insert send tick believe send-heartbeat look abandon heartbeat tick
  send-heartbeat heartbeat renew release evict look send takeover tick believe)
(plot look look send send insert tick believe send-heartbeat send-heartbeat heartbeat fence
  heartbeat stop-believing abandon release seize delete-by-hand insert heartbeat fence release
  takeover)
(plot look send insert tick believe send-heartbeat look abandon fence evict release fence look send
  takeover heartbeat renew remove delete-by-hand look send insert tick believe)
; Readers and writers: who begins beside whom.
(plot look send insert look send send begin-write begin-write)
(plot look look look send send begin-read insert fence)
(plot look look look send abandon begin-read end-read begin-read end-read)
(plot look look look send begin-read look send fence begin-read)
(plot edit look look look send send begin-read takeover fence)
(plot edit look look look send send begin-read begin-write fence)
(plot look look look send send send begin-read insert begin-write fence)
(plot look send insert look look send send begin-write insert fence)
(plot look look look send send insert look send begin-read begin-write fence)
(plot look send insert look send edit look send delete-by-hand begin-write begin-write)
(plot look send insert look look look send send begin-write begin-read fence)
(plot look send insert look send begin-write look send fence begin-write)
(plot edit look look look send send takeover look send begin-read begin-write fence)
(plot edit look send insert look look look send send begin-write begin-read fence)
(plot look send insert look look send begin-write seize seize look look send begin-read)
(plot look send insert look look send begin-write edit look send takeover fence)
(plot look send insert look look send delete-by-hand look send begin-read edit begin-write fence)
(plot look look look send send send abandon begin-read fence end-read insert look begin-write)
(plot look look look send send send abandon begin-read insert look fence end-read begin-write)
(plot look send insert look send tick begin-write believe look send begin-write tick believe)
(plot look look look send send send begin-read tick believe insert look begin-write tick believe)
(plot look look look send begin-read tick believe send-heartbeat look send heartbeat renew begin-read
  tick believe)
(plot look look look send send send begin-read tick believe send-heartbeat insert look heartbeat
  renew begin-write tick believe)
(plot look send insert look send begin-write tick believe send-heartbeat look send heartbeat renew
  begin-write tick believe)
(plot look send insert tick believe send-heartbeat look look look send heartbeat renew begin-read
  look send takeover tick believe)
(plot look send insert look look send begin-write tick believe send-heartbeat look look send
  heartbeat renew begin-read tick believe)
