; The lock as one relation: its state, the actions with guards and updates, and what is claimed.
;
; Formulas are SMT-LIB 2. The half of an action that `judge` and `cell` tell is what
; crates/protocol/src/change.rs does: a test evaluates it beside the code. `docs/proof.md` explains
; each action, claim and clause.

; Sorts of which there may be any number of elements. A `Writer` is an attempt to begin a term, the
; mark of a writer's second commit, or names no holder. A `Look` is one read of one row.
(sorts Instance Row Writer Term Beat Fence Look)

; Names that stand for any element: what is said of them is said of all.
(any Instance i j)
(any Row ro)
(any Look l)
(any Term t u)
(any Beat h)
(any Fence f)
(any Writer w)

; Functions that never change: what they are of, what they tell, their names.
(rigid (Writer) Instance owner)
(rigid (Writer) Row of)
(rigid (Writer) Bool is_holder over_leftover)
(rigid (Writer) Writer attempt second_of)
(rigid (Writer) Look own beside)
(rigid () Writer nobody)
(rigid (Look) Row at)
(rigid () Row writers)
(rigid (Row) Bool reads)
(rigid (Instance) Int lease margin deducted)
(rigid () Bool has_column)
(rigid (Term) Writer writer)
(rigid (Beat) Term beat_term)
(rigid (Fence) Term fence_term)

; What is assumed of them. Readers and writers of one lock have the rows that `reads`, and `writers`.
(axiom nobody-holds-nothing (not (is_holder nobody)))
(axiom leases (and (<= 0 (margin i)) (< (margin i) (lease i))))
(axiom one-lease-without-column (or has_column (= (lease i) (lease j))))
(axiom rows-of-looks (and (= (at (own w)) (of w)) (= (at (beside w)) writers)))
(axiom second-marks
  (=> (and (is_holder w) (= (attempt w) w) (= (of w) writers))
    (and (is_holder (second_of w)) (= (attempt (second_of w)) w) (not (= (second_of w) w)))))
(axiom writers-do-not-read (not (reads writers)))
(axiom margin-is-deducted (= (deducted i) (margin i)))
(half-margin (and (< 0 (margin i)) (= (* 2 (deducted i)) (margin i))))

; The state: time, the table and what Spanner orders.
(state () Int now)
(state (Instance) Int clock)
(state (Row) Bool present lease_null)
(state (Row) Int heartbeat token lease_cell)
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
(state (Term) Bool begun has_second over unprotected displaces announced believes)
(state (Term) Int nth first_token term_token over_at unprotected_at since_at since_clock)
(state (Term) Term displaced)
(state () Term last_second)
(state () Int count)
(state () Bool stray)

; Abbreviations.
(define row (t) (of (writer t)))
(define term_lease (t) (lease (owner (writer t))))
(define wr_of (t) (ite (has_second t) (second_of (writer t)) (writer t)))
(define is_second (w) (and (is_holder w) (not (= (attempt w) w))))
(define until (t) (- (+ (since_clock t) (term_lease t)) (deducted (owner (writer t)))))
(define valid (t) (and (believes t) (< (clock (owner (writer t))) (until t))))
(define writes (t) (and (= (row t) writers) (has_second t)))
(define elapsed_well (i since clock_then by clock_now)
  (=> (>= (- by since) (lease i)) (>= (- clock_now clock_then) (- (lease i) (margin i)))))
(define vacant (l i)
  (or (not (saw_present l)) (= (saw_heartbeat l) 0)
    (>= (- (saw_at l) (saw_heartbeat l)) (ite (saw_lease_null l) (lease i) (saw_lease l)))))
(define is_unbelieved (w)
  (and (is_holder w) (settled (attempt w))
    (forall ((u Term)) (=> (= (writer u) (attempt w)) (not (believes u))))))
(define may_leave (w)
  (or (vacant (own w) (owner w))
    (and (= (owner (attempt (saw_wr (own w)))) (owner w)) (is_unbelieved (saw_wr (own w))))))
(define may_read (w) (=> (reads (of w)) (and (looked (beside w)) (vacant (beside w) (owner w)))))
(define is_in_row (t)
  (and (present (row t)) (= (token (row t)) (term_token t)) (= (wr (row t)) (wr_of t))))
(define is_first_or_second (t)
  (or (and (= (token (row t)) (first_token t)) (= (wr (row t)) (writer t)))
    (and (> (token (row t)) (first_token t)) (= (wr (row t)) (second_of (writer t))))))
(define in_force (t) (and (begun t) (not (over t))))
(define exposed (t) (and (begun t) (not (unprotected t))))
(define names (l t) (and (saw_present l) (= (term_token t) (saw_token l)) (= (wr_of t) (saw_wr l))))
(define ends_another (l)
  (exists ((x Term)) (and (in_force x) (= (row x) (at l)) (not (names l x)))))
(define ends_all_but (t)
  (exists ((x Term)) (and (in_force x) (= (row x) (row t)) (not (= x t)))))
(define names_as_before (ro) (and (present ro) (= (token ro) token_set) (= (wr ro) wr_set)))
(define frees (w)
  (and (saw_present (beside w))
    (not (and (= (saw_heartbeat (beside w)) 0) (not (is_holder (saw_wr (beside w))))))))
(define polled (ro) (and (reads ro) (saw_present (glance ro))))
(define deleted (ro) (and (polled ro) (present ro)))
; Terms that may not be in force together, and those that must be over before `u` begins.
(define meet (t u)
  (or (= (row t) (row u)) (and (= (row t) writers) (reads (row u)))
    (and (reads (row t)) (= (row u) writers))))
(define begun_at (t u) (ite (= (row t) (row u)) (first_token u) (term_token u)))
(define excluded_by (t u)
  (or (= (row t) (row u)) (and (= (row t) writers) (reads (row u)))
    (and (reads (row t)) (writes u))))

; Lists of guards and updates that several actions share. An update of `(f x)` is at every `x`.
(list after-all (ro)
  (world after-commits-and-reads (> ts (last ro)))
  (world after-fences (> ts (fenced_at ro)))
  (world after-it-was-asked-for (>= ts now)))
(list same-row (l)
  (judge same-heartbeat (= (heartbeat (at l)) (saw_heartbeat l)))
  (judge same-token (= (token (at l)) (saw_token l)))
  (judge same-writer (= (wr (at l)) (saw_wr l))))
(list same-term (t)
  (judge row-is-there (present (row t)))
  (judge same-token (= (token (row t)) (term_token t)))
  (judge same-writer (= (wr (row t)) (wr_of t))))
(list begin-row (ro by)
  (cell (present ro) true)
  (cell (heartbeat ro) ts)
  (cell (token ro) ts)
  (cell (wr ro) by)
  (cell (lease_null ro) (not has_column))
  (cell (lease_cell ro) (lease (owner (attempt by)))))
(list free-row (ro)
  (contract names-no-holder (not (is_holder next)))
  (cell (present ro) true)
  (cell (heartbeat ro) 0)
  (cell (token ro) ts)
  (cell (wr ro) next)
  (cell (lease_null ro) null)
  (cell (lease_cell ro) grace))
; Those terms `x` are no longer in their rows.
(list ends (which)
  (then (over x) (or (over x) (and (begun x) which)))
  (then (over_at x) (ite (and (in_force x) which) ts (over_at x))))
; Nor are their heartbeats.
(list unprotects (which)
  (then (unprotected x) (or (unprotected x) (and (begun x) which)))
  (then (unprotected_at x) (ite (and (exposed x) which) ts (unprotected_at x))))
(list identifies (ro)
  (then (last ro) ts)
  (then (id_at ro) ts))
; Every term of the row that began before is no longer in it, nor is its heartbeat.
(list clears (ro)
  (use identifies ro)
  (use ends (= (row x) ro))
  (then (has_current ro) false)
  (use unprotects (= (row x) ro)))
(list counts ()
  (then (term_token t) ts)
  (then (nth t) count)
  (then (count) (+ count 1)))
(list begins (ro)
  (new new-term (and (not (begun t)) (= (writer t) w)))
  (use after-all ro)
  (use begin-row ro w)
  (use counts)
  (then (begun t) true)
  (then (first_token t) ts)
  (then (displaces t) (has_current ro))
  (then (displaced t) (current ro))
  (then (has_current ro) true)
  (then (current ro) t))
(list begins-alone ()
  (contract of-no-reader (not (reads (of w))))
  (use clears (of w))
  (use begins (of w))
  (then (stray) (or stray (ends_another (own w)))))
(list is-given-up ()
  (use after-all (row t))
  (use clears (row t))
  (then (stray) (or stray (ends_all_but t))))
; The takeover row of what the term displaced goes, too.
(list is-released ()
  (use is-given-up)
  (use free-row (row t))
  (cell (takeover_row (row t) (saw_token (own (writer t))))
    (and (takeover_row (row t) (saw_token (own (writer t)))) (not (saw_present (own (writer t)))))))
(list is-extended (t)
  (world after-commits-and-reads (> ts (last (row t))))
  (world after-it-was-asked-for (>= ts now))
  (cell (heartbeat (row t)) ts)
  (then (last (row t)) ts)
  (then (beat_applied h) true)
  (then (beat_ts h) ts))

(action tick ((later Int) (next_clock (Instance) Int))
  (spare clocks-never-go-back)
  (world time-passes (> later now))
  (world clocks-never-go-back (forall ((i Instance)) (>= (next_clock i) (clock i))))
  (world clocks-keep-the-margin
    (and
      (forall ((w Writer))
        (=> (sent w)
          (elapsed_well (owner w) (sent_at w) (sent_clock w) later (next_clock (owner w)))))
      (forall ((h Beat))
        (=> (beat_sent h)
          (elapsed_well (owner (writer (beat_term h))) (beat_at h) (beat_clock h) later
            (next_clock (owner (writer (beat_term h)))))))))
  (then (now) later)
  (then (clock x) (next_clock x)))

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

(action send ((w Writer))
  (spare unsettled)
  (world fresh-nonce (and (is_holder w) (= (attempt w) w)))
  (contract after-a-read (looked (own w)))
  (contract sent-once (not (sent w)))
  (contract unsettled (not (settled w)))
  (contract vacant (may_leave w))
  (contract nobody-writes (may_read w))
  (then (sent w) true)
  (then (sent_at w) now)
  (then (sent_clock w) (clock (owner w))))

(action insert ((w Writer) (t Term) (ts Int))
  (spare after-fences)
  (judge row-is-absent (not (present (of w))))
  (contract was-sent (and (sent w) (not (saw_present (own w)))))
  (use begins-alone))

(action takeover ((w Writer) (t Term) (ts Int))
  (spare row-is-there no-takeover-row)
  (judge row-is-there (present (of w)))
  (use same-row (own w))
  (judge no-takeover-row (or (over_leftover w) (not (takeover_row (of w) (saw_token (own w))))))
  (contract was-sent (and (sent w) (saw_present (own w))))
  (use begins-alone)
  (cell (takeover_row (of w) (saw_token (own w))) true))

(action send-heartbeat ((h Beat))
  (untold believed)
  (contract believed (believes (beat_term h)))
  (contract sent-once (not (beat_sent h)))
  (then (beat_sent h) true)
  (then (beat_at h) now)
  (then (beat_clock h) (clock (owner (writer (beat_term h))))))

(action heartbeat ((h Beat) (ts Int))
  (use same-term (beat_term h))
  (contract was-sent (beat_sent h))
  (use is-extended (beat_term h)))

(action renew ((h Beat))
  (spare believed not-expired)
  (world acknowledged-once-applied (beat_applied h))
  (contract believed (believes (beat_term h)))
  (contract not-expired (valid (beat_term h)))
  (then (since_at (beat_term h)) (beat_at h))
  (then (since_clock (beat_term h)) (beat_clock h)))

(action believe ((t Term))
  (world acknowledged-once-applied (begun t))
  (world commit-wait (> now (first_token t)))
  (contract unsettled (not (settled (writer t))))
  (then (announced t) true)
  (then (believes t) true)
  (then (settled (writer t)) true)
  (then (since_at t) (sent_at (writer t)))
  (then (since_clock t) (sent_clock (writer t))))

(action abandon ((w Writer))
  (then (settled w) true))

(action stop-believing ((t Term))
  (spare believed)
  (contract believed (believes t))
  (then (believes t) false))

(action release ((t Term) (ts Int) (next Writer) (null Bool) (grace Int))
  (spare row-is-there same-writer after-it-was-asked-for)
  (use same-term t)
  (contract belief-dropped-first (and (begun t) (settled (writer t)) (not (believes t))))
  (use is-released))

(action evict ((ro Row) (ts Int) (next Writer))
  (spare row-is-there somebody-holds after-it-was-asked-for)
  (judge row-is-there (present ro))
  (judge somebody-holds (is_holder (wr ro)))
  (contract names-no-holder (not (is_holder next)))
  (use after-all ro)
  (cell (token ro) ts)
  (cell (wr ro) next)
  (use identifies ro)
  (use ends (= (row x) ro)))

(action seize ((ro Row) (ts Int) (next Writer) (null Bool) (grace Int))
  (spare not-needless after-it-was-asked-for)
  (judge not-needless
    (not (and (or (not (present ro)) (and (= (heartbeat ro) 0) (= (wr ro) nobody))) (= next nobody))))
  (use after-all ro)
  (use free-row ro)
  (use clears ro)
  (then (meddled ro) true))

(action remove ((l Look) (i Instance) (ts Int))
  (spare row-is-there after-it-was-asked-for)
  (judge row-is-there (present (at l)))
  (use same-row l)
  (contract vacant (and (looked l) (saw_present l) (vacant l i)))
  (use after-all (at l))
  (cell (present (at l)) false)
  (use clears (at l))
  (then (stray) (or stray (ends_another l))))

(action delete-by-hand ((ro Row) (ts Int))
  (spare after-it-was-asked-for)
  (use after-all ro)
  (cell (present ro) false)
  (use clears ro)
  (then (meddled ro) true))

(action edit ((ro Row) (ts Int) (heartbeat_set Int) (token_set Int) (wr_set Writer) (null Bool)
    (lease_set Int))
  (spare after-it-was-asked-for)
  (world revives-no-term
    (forall ((t Term))
      (=> (and (= (row t) ro) (begun t))
        (not (or (and (over t) (= token_set (term_token t)) (= wr_set (wr_of t)))
          (and (has_second t) (= token_set (first_token t)) (= wr_set (writer t))))))))
  (world makes-no-second (or (names_as_before ro) (not (is_second wr_set))))
  (world after-commits-and-reads (> ts (last ro)))
  (world after-fences (or (names_as_before ro) (> ts (fenced_at ro))))
  (world after-it-was-asked-for (>= ts now))
  (cell (present ro) true)
  (cell (heartbeat ro) heartbeat_set)
  (cell (token ro) token_set)
  (cell (wr ro) wr_set)
  (cell (lease_null ro) null)
  (cell (lease_cell ro) lease_set)
  (then (meddled ro) true)
  (then (edited ro) true)
  (then (last ro) ts)
  (then (id_at ro) (ite (names_as_before ro) (id_at ro) ts))
  (then (has_current ro) (and (has_current ro) (names_as_before ro)))
  (use ends (and (= (row x) ro) (not (names_as_before ro))))
  (use unprotects (and (= (row x) ro) (not (names_as_before ro)))))

(action fence ((f Fence) (ts Int))
  (spare after-it-was-asked-for)
  (use same-term (fence_term f))
  (contract of-a-term
    (and (begun (fence_term f))
      (=> (= (row (fence_term f)) writers) (has_second (fence_term f)))))
  (new new-write (not (fence_done f)))
  (world after-the-row-it-read (> ts (id_at (row (fence_term f)))))
  (world after-it-was-asked-for (>= ts now))
  (then (fence_done f) true)
  (then (fence_ts f) ts)
  (then (fenced_at (row (fence_term f)))
    (ite (> ts (fenced_at (row (fence_term f)))) ts (fenced_at (row (fence_term f))))))

(action sweep ((ro Row) (swept Int))
  (cell (takeover_row ro swept) false))

; Readers and writers.
(action begin-read ((w Writer) (t Term) (ts Int))
  (judge writers-row-is-there-or-not (= (present writers) (saw_present (beside w))))
  (judge writers-same-heartbeat
    (=> (present writers) (= (heartbeat writers) (saw_heartbeat (beside w)))))
  (judge writers-same-token (=> (present writers) (= (token writers) (saw_token (beside w)))))
  (judge writers-same-writer (=> (present writers) (= (wr writers) (saw_wr (beside w)))))
  (judge own-row-is-there-or-not (= (present (of w)) (saw_present (own w))))
  (judge same-heartbeat (=> (present (of w)) (= (heartbeat (of w)) (saw_heartbeat (own w)))))
  (judge same-token (=> (present (of w)) (= (token (of w)) (saw_token (own w)))))
  (judge same-writer (=> (present (of w)) (= (wr (of w)) (saw_wr (own w)))))
  (contract was-sent (and (sent w) (reads (of w))))
  (world after-the-row-it-read (> ts (id_at writers)))
  (world after-what-it-frees
    (=> (frees w) (and (> ts (last writers)) (> ts (fenced_at writers)))))
  (cell (heartbeat writers) (ite (frees w) 0 (heartbeat writers)))
  (cell (token writers) (ite (frees w) ts (token writers)))
  (cell (wr writers) (ite (frees w) nobody (wr writers)))
  (cell (lease_null writers) (or (frees w) (lease_null writers)))
  (use identifies (of w))
  (then (last writers) (ite (> ts (last writers)) ts (last writers)))
  (then (id_at writers) (ite (frees w) ts (id_at writers)))
  (use ends (or (= (row x) (of w)) (and (= (row x) writers) (frees w))))
  (then (unprotected x)
    (or (unprotected x) (and (begun x) (or (= (row x) (of w)) (= (row x) writers)))))
  (then (unprotected_at x)
    (ite (and (exposed x) (or (= (row x) (of w)) (and (= (row x) writers) (frees w)))) ts
      (ite (and (exposed x) (= (row x) writers)) (id_at writers) (unprotected_at x))))
  (then (has_current writers) false)
  (use begins (of w))
  (then (stray) (or stray (ends_another (own w)) (and (frees w) (ends_another (beside w))))))

(action end-read ((t Term) (ts Int))
  (spare row-is-there same-writer after-it-was-asked-for)
  (use same-term t)
  (contract belief-dropped-first (and (begun t) (settled (writer t)) (not (believes t))))
  (cell (present (row t)) false)
  (use is-given-up))

(action begin-write ((t Term) (ts Int) (glance (Row) Look))
  (spare after-fences after-it-was-asked-for)
  (untold readers-same-token readers-same-writer)
  (judge row-is-there (present writers))
  (judge same-token (= (token writers) (first_token t)))
  (judge same-writer (= (wr writers) (writer t)))
  (judge readers-same-heartbeat
    (forall ((ro Row)) (=> (deleted ro) (= (heartbeat ro) (saw_heartbeat (glance ro))))))
  (judge readers-same-token
    (forall ((ro Row)) (=> (deleted ro) (= (token ro) (saw_token (glance ro))))))
  (judge readers-same-writer
    (forall ((ro Row)) (=> (deleted ro) (= (wr ro) (saw_wr (glance ro))))))
  (contract announced (and (announced t) (= (row t) writers)))
  (contract after-a-poll
    (forall ((ro Row)) (=> (reads ro) (and (looked (glance ro)) (= (at (glance ro)) ro)))))
  (contract polled-after-the-first-commit
    (forall ((ro Row)) (=> (reads ro) (>= (saw_at (glance ro)) (first_token t)))))
  (contract readers-vacant
    (forall ((ro Row)) (=> (reads ro) (vacant (glance ro) (owner (writer t))))))
  (use after-all writers)
  (world after-its-poll (forall ((ro Row)) (=> (reads ro) (> ts (saw_at (glance ro))))))
  (world after-the-rows-it-read (forall ((ro Row)) (=> (polled ro) (> ts (id_at ro)))))
  (world after-what-it-deletes
    (forall ((ro Row)) (=> (deleted ro) (and (> ts (last ro)) (> ts (fenced_at ro))))))
  (use begin-row writers (second_of (writer t)))
  (cell (present x) (or (= x writers) (and (present x) (not (polled x)))))
  (then (last x) (ite (or (= x writers) (deleted x)) ts (last x)))
  (then (id_at x) (ite (or (= x writers) (deleted x)) ts (id_at x)))
  (use ends (deleted (row x)))
  (use unprotects (deleted (row x)))
  (then (has_current x) (and (has_current x) (not (deleted x))))
  (use counts)
  (then (has_second t) true)
  (then (last_second) t)
  (then (stray)
    (or stray (ends_all_but t)
      (exists ((x Term)) (and (in_force x) (deleted (row x)) (not (names (glance (row x)) x)))))))

(action keep-writing ((h Beat) (ts Int))
  (judge row-is-there (present (row (beat_term h))))
  (judge first-or-second (is_first_or_second (beat_term h)))
  (contract was-sent (and (beat_sent h) (= (row (beat_term h)) writers)))
  (use is-extended (beat_term h)))

(action end-writing ((t Term) (ts Int) (next Writer) (null Bool) (grace Int))
  (spare row-is-there after-it-was-asked-for)
  (judge row-is-there (present (row t)))
  (judge first-or-second (is_first_or_second t))
  (contract belief-dropped-first
    (and (begun t) (= (row t) writers) (settled (writer t)) (not (believes t))))
  (contract of-its-own-attempt
    (or (announced t) (forall ((u Term)) (=> (= (writer u) (writer t)) (not (announced u))))))
  (use is-released))

; The state before anything happened.
(initial numbers (and (> now 0) (= count 0) (not stray)))
(initial rows
  (and (= (last ro) 0) (= (id_at ro) 0) (= (fenced_at ro) 0)
    (not (or (present ro) (has_current ro) (meddled ro) (edited ro)))))
(initial looks (not (looked l)))
(initial attempts (not (or (sent w) (settled w))))
(initial terms
  (not (or (begun t) (over t) (unprotected t) (announced t) (believes t) (has_second t))))
(initial beats (not (or (beat_sent h) (beat_applied h))))
(initial fences (not (fence_done f)))

(claim I1 (=> (and (valid t) (valid u) (= (row t) (row u)) (not (meddled (row t)))) (= t u)))
(claim I1-readers
  (=> (and (valid t) (writes t) (> now (term_token t)) (valid u) (reads (row u)))
    (or (meddled writers) (meddled (row u)))))
(claim I2
  (=> (and (begun t) (begun u) (meet t u) (< (nth t) (nth u))) (< (term_token t) (term_token u))))
(claim I2-one-order (=> (and (begun t) (begun u) (= (nth t) (nth u))) (= t u)))
(claim I3
  (=> (and (fence_done f) (begun u) (excluded_by (fence_term f) u) (< (nth (fence_term f)) (nth u)))
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

; The other clauses of the invariant.
(clause edits (=> (edited ro) (meddled ro)))
(clause time
  (and (> now 0)
    (forall ((ro Row)) (and (>= (last ro) 0) (<= 0 (id_at ro)) (<= (id_at ro) (last ro))))))
(clause row-times
  (=> (and (present ro) (not (edited ro)))
    (and (<= (heartbeat ro) (last ro)) (= (token ro) (id_at ro)) (> (token ro) 0))))
(clause row-term
  (=> (and (present ro) (is_holder (wr ro)) (not (= (heartbeat ro) 0)) (not (edited ro)))
    (and (has_current ro) (= (wr ro) (wr_of (current ro))) (= (token ro) (term_token (current ro)))
      (not (over (current ro))))))
(clause current
  (=> (has_current ro)
    (and (begun (current ro)) (= (row (current ro)) ro) (not (unprotected (current ro)))
      (present ro)
      (or (edited ro)
        (and (>= (heartbeat ro) (term_token (current ro))) (= (lease_null ro) (not has_column))
          (= (lease_cell ro) (term_lease (current ro))))))))
(clause unprotected
  (=> (begun t) (or (unprotected t) (and (has_current (row t)) (= t (current (row t)))))))
(clause over (=> (begun t) (= (not (over t)) (is_in_row t))))
(clause counted
  (=> (begun t)
    (and (< (nth t) count) (is_holder (writer t)) (= (attempt (writer t)) (writer t))
      (sent (writer t)) (< 0 (first_token t)) (<= (term_token t) (id_at (row t)))
      (<= (sent_at (writer t)) (first_token t)) (< (saw_at (own (writer t))) (first_token t))
      (=> (not (has_second t)) (= (first_token t) (term_token t))))))
(clause ends
  (and (=> (over t) (and (begun t) (< (term_token t) (over_at t)) (<= (over_at t) (id_at (row t)))))
    (=> (unprotected t)
      (and (begun t) (over t) (< (term_token t) (unprotected_at t))
        (<= (over_at t) (unprotected_at t)) (<= (unprotected_at t) (id_at (row t)))))))
(clause displaced
  (=> (and (begun t) (displaces t))
    (and (begun (displaced t)) (= (row (displaced t)) (row t)) (< (nth (displaced t)) (nth t)))))
(clause next
  (=> (and (begun t) (begun u) (excluded_by t u) (< (nth t) (nth u)))
    (and (over t) (unprotected t) (<= (over_at t) (begun_at t u))
      (<= (unprotected_at t) (begun_at t u)))))
(clause seen
  (=> (looked l)
    (and (<= (saw_at l) (last (at l)))
      (=> (and (saw_present l) (not (edited (at l))))
        (and (<= (saw_token l) (saw_at l)) (<= (saw_heartbeat l) (saw_at l))))
      (=> (and (saw_present l) (present (at l)) (= (saw_token l) (token (at l)))
            (not (edited (at l))))
        (and (= (saw_lease_null l) (lease_null (at l))) (= (saw_lease l) (lease_cell (at l))))))))
(clause absent
  (=> (and (looked l) (not (saw_present l)) (begun t) (= (row t) (at l))
        (<= (first_token t) (saw_at l))) (and (unprotected t) (<= (unprotected_at t) (saw_at l)))))
(clause left
  (=> (sent w)
    (and (is_holder w) (= (attempt w) w) (looked (own w)) (<= (sent_at w) now) (may_leave w)
      (may_read w))))
(clause beats
  (and (=> (beat_applied h) (beat_sent h))
    (=> (beat_sent h) (and (announced (beat_term h)) (<= (beat_at h) now)))
    (=> (beat_applied h) (<= (beat_ts h) (last (row (beat_term h)))))))
(clause announced
  (=> (announced t)
    (and (begun t) (settled (writer t))
      (=> (and (announced u) (= (writer t) (writer u))) (= t u)))))
(clause believed
  (=> (believes t) (and (announced t) (< (first_token t) now) (<= (since_at t) now))))
(clause first-lease
  (=> (and (begun t) (unprotected t) (not (meddled (row t))) (not (settled (writer t))))
    (<= (+ (sent_at (writer t)) (term_lease t)) (unprotected_at t))))
(clause later-leases
  (=> (beat_applied h)
    (and
      (=> (and (has_current (row (beat_term h))) (= (beat_term h) (current (row (beat_term h))))
            (not (edited (row (beat_term h)))))
        (and (<= (beat_at h) (heartbeat (row (beat_term h))))
          (<= (beat_ts h) (heartbeat (row (beat_term h))))))
      (=> (and (unprotected (beat_term h)) (not (meddled (row (beat_term h))))
            (believes (beat_term h)))
        (<= (+ (beat_at h) (term_lease (beat_term h))) (unprotected_at (beat_term h)))))))
(clause lease
  (=> (believes t)
    (and
      (=> (and (has_current (row t)) (= t (current (row t))) (not (edited (row t))))
        (<= (since_at t) (heartbeat (row t))))
      (=> (and (unprotected t) (not (meddled (row t))))
        (<= (+ (since_at t) (term_lease t)) (unprotected_at t))))))
(clause clocks
  (and
    (forall ((w Writer))
      (=> (sent w) (elapsed_well (owner w) (sent_at w) (sent_clock w) now (clock (owner w)))))
    (forall ((h Beat))
      (=> (beat_sent h)
        (elapsed_well (owner (writer (beat_term h))) (beat_at h) (beat_clock h) now
          (clock (owner (writer (beat_term h)))))))
    (forall ((t Term))
      (=> (believes t)
        (elapsed_well (owner (writer t)) (since_at t) (since_clock t) now
          (clock (owner (writer t))))))))
(clause counts-from
  (=> (believes t)
    (or (and (= (since_at t) (sent_at (writer t))) (= (since_clock t) (sent_clock (writer t))))
      (exists ((h Beat))
        (and (beat_sent h) (= (beat_term h) t) (= (since_at t) (beat_at h))
          (= (since_clock t) (beat_clock h)))))))
(clause fences
  (=> (fence_done f)
    (and (<= (fence_ts f) (fenced_at (row (fence_term f))))
      (=> (= (row (fence_term f)) writers) (has_second (fence_term f))))))
(clause readers (=> (and (begun t) (reads (row t))) (<= (term_token t) (last writers))))
(clause seconds
  (=> (has_second t)
    (and (announced t) (= (row t) writers) (< (first_token t) (term_token t))
      (not
        (and (present writers) (= (token writers) (first_token t)) (= (wr writers) (writer t)))))))
(clause second-in-row
  (=> (and (present writers) (is_second (wr writers)))
    (and (has_second last_second) (= (wr writers) (second_of (writer last_second)))
      (= (token writers) (term_token last_second)))))

; Runs in which each action happens, and what holds in the end.
(run (and (not (meddled row0)) (exists ((t Term)) (and (valid t) (= (nth t) 2))))
  look send tick insert tick believe send-heartbeat heartbeat renew fence stop-believing release
  look send takeover sweep tick believe tick evict look send takeover tick believe)
(run (and (meddled row0) (exists ((t Term)) (valid t)))
  look send insert abandon look remove look send insert tick believe delete-by-hand seize edit)
(run (exists ((t Term)) (and (valid t) (writes t) (not (meddled writers))))
  look look send begin-read tick believe fence tick look send insert tick believe send-heartbeat
  look begin-write keep-writing renew fence tick)
(run (exists ((t Term)) (and (reads (row t)) (over t) (not (meddled (row t)))))
  look send insert tick believe look begin-write stop-believing end-writing look look send
  begin-read tick believe stop-believing end-read)

; What goes wrong without a guard: the guards, and the order of actions in which a story is found.
; Steps may be left out.
(plot (half-margin tick/time-passes tick/clocks-keep-the-margin send/fresh-nonce send/after-a-read
  send/vacant insert/was-sent insert/after-it-was-asked-for takeover/same-heartbeat
  takeover/was-sent takeover/after-commits-and-reads renew/acknowledged-once-applied
  believe/acknowledged-once-applied believe/commit-wait release/belief-dropped-first)
  look send tick insert tick believe send-heartbeat look heartbeat renew release send takeover tick
  believe)
(plot (send/sent-once)
  look send insert tick send believe look send takeover tick believe)
(plot (evict/after-fences fence/after-the-row-it-read)
  look send insert fence evict)
(plot (look/read-sees-every-commit send-heartbeat/sent-once heartbeat/was-sent
  heartbeat/after-commits-and-reads heartbeat/after-it-was-asked-for evict/names-no-holder
  evict/after-commits-and-reads)
  look send insert send tick believe send-heartbeat abandon heartbeat tick send-heartbeat heartbeat
  renew evict look send takeover tick believe)
(plot (insert/row-is-absent insert/of-no-reader believe/unsettled)
  look look send send insert insert abandon look send tick takeover tick believe believe)
(plot (takeover/after-it-was-asked-for)
  look send insert abandon look tick send takeover tick believe look send takeover tick believe)
(plot (insert/after-commits-and-reads heartbeat/row-is-there heartbeat/same-token release/same-token
  release/after-commits-and-reads release/after-fences delete-by-hand/after-commits-and-reads
  delete-by-hand/after-fences fence/same-token fence/row-is-there)
  look look send send insert tick believe send-heartbeat send-heartbeat heartbeat fence heartbeat
  stop-believing abandon release delete-by-hand insert heartbeat fence release takeover)
(plot (takeover/after-fences remove/same-heartbeat remove/vacant remove/after-commits-and-reads
  remove/after-fences fence/of-a-term)
  look send insert tick believe send-heartbeat look abandon evict release fence look send takeover
  heartbeat renew remove delete-by-hand look send insert tick believe)
(plot (heartbeat/same-writer takeover/of-no-reader seize/after-commits-and-reads seize/after-fences
  edit/revives-no-term edit/after-commits-and-reads edit/after-fences fence/same-writer)
  look look send send insert tick believe send-heartbeat fence edit look send seize edit heartbeat
  fence takeover release)
(plot (takeover/same-token takeover/same-writer remove/same-token remove/same-writer)
  look send abandon edit look look send delete-by-hand insert takeover remove)
(plot (begin-read/own-row-is-there-or-not begin-read/same-heartbeat begin-read/was-sent
  begin-read/after-commits-and-reads)
  look look send begin-read tick believe send-heartbeat look heartbeat send begin-read tick)
(plot (begin-read/same-token begin-read/same-writer)
  look look send edit look delete-by-hand send begin-read begin-read)
(plot (begin-read/after-fences end-read/belief-dropped-first end-read/after-commits-and-reads
  end-read/after-fences)
  look look send begin-read abandon fence look send end-read begin-read)
(plot (begin-read/writers-same-token begin-read/writers-same-writer)
  look edit look look send send delete-by-hand insert begin-read begin-read)
(plot (end-read/same-token)
  look look send begin-read abandon end-read begin-read end-read)
(plot (begin-read/after-it-was-asked-for begin-write/readers-same-heartbeat begin-write/announced
  begin-write/after-a-poll begin-write/polled-after-the-first-commit begin-write/readers-vacant)
  look look look look send tick begin-read tick believe send-heartbeat look heartbeat renew look
  send insert tick believe look begin-write tick)
(plot (begin-write/after-its-poll begin-write/after-the-rows-it-read begin-write/after-what-it-deletes)
  look look send begin-read look send insert tick believe fence abandon look end-read look
  begin-write)
(plot (begin-read/writers-row-is-there-or-not)
  look look look send send insert look tick believe begin-read tick believe begin-write tick)
(plot (send/nobody-writes begin-read/writers-same-heartbeat begin-read/after-what-it-frees
  keep-writing/was-sent keep-writing/after-commits-and-reads keep-writing/after-it-was-asked-for)
  look send insert tick believe look begin-write tick send-heartbeat look keep-writing renew look
  send begin-read tick believe)
(plot (begin-read/after-the-row-it-read end-writing/belief-dropped-first
  end-writing/after-commits-and-reads)
  look look send insert tick believe look begin-write fence abandon end-writing look send
  begin-read)
(plot (begin-write/same-token begin-write/same-writer keep-writing/row-is-there
  keep-writing/first-or-second edit/makes-no-second)
  look send insert tick believe send-heartbeat delete-by-hand edit insert look begin-write
  keep-writing fence end-writing)
(plot (end-writing/of-its-own-attempt)
  look send insert delete-by-hand insert tick believe send-heartbeat look begin-write keep-writing
  end-writing)
(plot (begin-write/after-commits-and-reads)
  look send insert tick believe look send-heartbeat keep-writing begin-write look send takeover)
(plot (end-writing/first-or-second)
  look look send send insert abandon delete-by-hand insert end-writing)
(plot (end-writing/after-fences)
  look send insert tick believe look begin-write fence stop-believing end-writing)
(plot (begin-write/row-is-there)
  look send insert tick believe delete-by-hand look begin-write fence)
(plot (release/names-no-holder seize/names-no-holder end-writing/names-no-holder)
  look send insert tick believe send-heartbeat stop-believing release seize end-writing keep-writing)
