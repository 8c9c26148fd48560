// Package spindleagent leads and locks through `spindle agent` on the same host.
package spindleagent

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
	askMax   = 30 * time.Second
)

// The agent sends a comment each 15 s. A test waits shorter.
var silenceMax = 45 * time.Second

var (
	// ErrNotHeld says that the lock was not to be had, or is not held any more.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrFenced says that another program leads, or nobody: the transaction must not commit.
	ErrFenced = errors.New("fenced: the term is superseded")
)

// Options are those of each request. What is zero is the agent's default.
type Options struct {
	ID    string
	Lease time.Duration // 10 s
	// ReleaseOnExit has the agent release for a process that dies, in Lead: on a Unix socket, and Linux 6.5 or later.
	ReleaseOnExit bool
}

// Term is one hold on a lock, with a token that only grows.
type Term struct {
	Lock     string
	Token    int64
	Fence    Fence
	deadline atomic.Int64
	pid      int
	over     context.Context
}

// IsHeld is true until the deadline, in this process alone. Ask before each step of the work.
func (t *Term) IsHeld() bool {
	_, read := now()
	return t.pid == os.Getpid() && t.over.Err() == nil && read < t.deadline.Load()
}

// Lead contends until ctx ends, and works under each term. The context of the work ends with its term. The lock is let
// go of when the work has returned; an error of the work ends Lead.
func (a *Agent) Lead(ctx context.Context, lock string, options Options, work func(context.Context, *Term) error) error {
	for pause := pauseMin; ctx.Err() == nil; {
		claim := a.claim(ctx, options, "/v1/lead", map[string]any{"locks": []string{lock}})
		if term := claim.gains(); term != nil {
			if err := claim.works(term, work); err != nil {
				return err
			}
			pause = pauseMin
			continue
		}
		claim.letGo("done")
		if isFinal(claim.err) {
			return claim.err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(pause*2, pauseMax)
	}
	return ctx.Err()
}

// works lets go however the work ends: a panic of it may be recovered. An error that says that the term is over is none.
func (c *claim) works(term *Term, work func(context.Context, *Term) error) error {
	defer c.letGo("done")
	err := work(c.ctx, term)
	if err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotHeld) && !term.IsHeld() {
		return nil
	}
	// Google's client tells it by the status of its request, which is no context.Canceled.
	isCanceled := errors.Is(err, context.Canceled) || strings.Contains(err.Error(), context.Canceled.Error())
	if c.ctx.Err() != nil && isCanceled {
		return nil
	}
	return err
}

// Acquire takes the lock within wait, or tries once, and works under its term. ErrNotHeld says that it was not to be had.
func (a *Agent) Acquire(ctx context.Context, lock string, wait time.Duration, options Options, work func(context.Context, *Term) error) error {
	claim := a.named(ctx, options, map[string]any{"lock": lock, "wait": duration(wait)})
	defer claim.letGo("done")
	var err error
	for attempt := 0; attempt < 3; attempt++ { // again under the same name: the answer may be lost
		limited, cancel := context.WithTimeout(ctx, wait+askMax)
		told := event{}
		err = a.ask(limited, "POST", "/v1/acquire", claim.body(), &told)
		cancel()
		var refusal *Error
		if err == nil {
			claim.begins(&told)
			go claim.beats()
			return work(claim.ctx, claim.term.Load())
		} else if errors.As(err, &refusal) && refusal.Code == "held" {
			return ErrNotHeld
		} else if refusal != nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// RunOnce runs a slot of a job, unless it runs or ran elsewhere: "released" once the agent has recorded the run, or why
// not. The choices are those of docs/agent.yaml: slot or every, attempts, and so on. An error of the work counts as a
// failure of the run.
func (a *Agent) RunOnce(ctx context.Context, lock string, choices map[string]any, options Options, work func(context.Context, *Term) error) (string, error) {
	wanted := map[string]any{"lock": lock}
	for name, value := range choices {
		wanted[name] = value
	}
	claim := a.claim(ctx, options, "/v1/run-once", wanted)
	term := claim.gains()
	if term == nil {
		claim.letGo("failed") // after this the stream has ended
		if claim.err != nil {
			return "", claim.err
		} else if claim.reason == "" && ctx.Err() != nil {
			return "", ctx.Err()
		}
		return or(claim.reason, "gone"), nil
	}
	isDone := false
	defer func() { // also after a panic of the work, which may be recovered
		if !isDone {
			claim.letGo("failed")
		}
	}()
	if err := work(claim.ctx, term); err != nil {
		return "failed", err
	}
	if !term.IsHeld() {
		return "lost", ErrNotHeld
	}
	isDone = true
	return claim.letGo("done"), nil
}

// claim is one under a name of its own, with its stream and its heartbeats.
type claim struct {
	agent  *Agent
	name   string
	path   string
	wanted map[string]any
	beat   time.Duration
	ctx    context.Context // of the work
	end    context.CancelFunc
	open   context.Context // of the stream, which lasts until the work has stopped
	close  context.CancelFunc
	term   atomic.Pointer[Term]
	began  chan struct{}
	once   sync.Once
	gone   chan struct{} // closed once the stream has ended
	err    error         // This and the next are read after that.
	reason string
}

type event struct {
	Event    string `json:"event"`
	Lock     string `json:"lock"`
	Token    int64  `json:"token,string"`
	Fence    Fence  `json:"fence"`
	Reason   string `json:"reason"`
	Ending   bool   `json:"ending"`
	Deadline struct {
		Boottime  int64 `json:"boottime_ns,string"`
		Monotonic int64 `json:"monotonic_ns,string"`
	} `json:"deadline"`
}

func (e *event) deadline() int64 {
	if field, _ := now(); field == "boottime_ns" {
		return e.Deadline.Boottime
	}
	return e.Deadline.Monotonic
}

func duration(time time.Duration) string { return fmt.Sprintf("%dms", time.Milliseconds()) }

func (a *Agent) named(ctx context.Context, options Options, wanted map[string]any) *claim {
	name := make([]byte, 16)
	rand.Read(name)
	lease := options.Lease
	if lease == 0 {
		lease = 10 * time.Second
	}
	c := &claim{agent: a, name: hex.EncodeToString(name), wanted: wanted, beat: lease / 4}
	c.began, c.gone = make(chan struct{}), make(chan struct{})
	c.ctx, c.end = context.WithCancel(ctx)
	c.open, c.close = context.WithCancel(context.WithoutCancel(ctx))
	wanted["claim"], wanted["lease"] = c.name, duration(lease)
	if options.ID != "" {
		wanted["id"] = options.ID
	}
	if options.ReleaseOnExit && wanted["locks"] != nil {
		wanted["on_exit"], wanted["pid"] = "release", os.Getpid()
	}
	return c
}

// claim asks for a stream.
func (a *Agent) claim(ctx context.Context, options Options, path string, wanted map[string]any) *claim {
	c := a.named(ctx, options, wanted)
	c.path = path
	go c.follow()
	go c.beats()
	return c
}

func (c *claim) body() map[string]any {
	field, read := now()
	c.wanted["clock"] = map[string]string{field: fmt.Sprint(read)}
	return c.wanted
}

// gains waits for a term, or for the end of the stream.
func (c *claim) gains() *Term {
	select {
	case <-c.began:
	case <-c.gone:
	case <-c.ctx.Done():
	}
	return c.term.Load()
}

// letGo says that the work has stopped, and returns what came of it. It is "gone" without an answer: the lease runs out.
func (c *claim) letGo(outcome string) string {
	c.end()
	if c.path != "" && c.term.Load() == nil {
		c.close()
		<-c.gone // so that no request of this name is under way any more
	}
	defer c.close()
	limited, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	var told struct{ Outcome string }
	_ = c.agent.ask(limited, "DELETE", "/v1/claims/"+c.name+"?outcome="+outcome, nil, &told)
	return or(told.Outcome, "gone")
}

// follow reads the stream. However it ends, nothing is held any more.
func (c *claim) follow() {
	defer close(c.gone)
	defer c.end()
	silent := time.AfterFunc(silenceMax, c.close)
	stream, err := c.agent.open(c.open, "POST", c.path, c.body())
	if isLate := !silent.Stop(); err != nil {
		c.err = err
		if isLate {
			c.err = fmt.Errorf("the agent was silent for %s", silenceMax) // no context of the caller's has ended
		}
		return
	}
	defer stream.Close()
	silent.Reset(silenceMax)
	defer silent.Stop()
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		silent.Reset(silenceMax)
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		told := event{}
		if !isData {
			continue
		} else if c.err = json.Unmarshal([]byte(data), &told); c.err != nil {
			return
		}
		c.told(&told)
	}
}

func (c *claim) told(told *event) {
	switch told.Event {
	case "gained":
		c.begins(told)
	case "renewed":
		c.renewed(told)
	case "lost", "ending", "ended":
		c.reason = or(told.Reason, told.Event)
		c.end()
	}
}

func (c *claim) begins(told *event) {
	term := &Term{Lock: told.Lock, Token: told.Token, Fence: told.Fence, pid: os.Getpid(), over: c.ctx}
	term.deadline.Store(told.deadline())
	c.term.Store(term)
	c.endsInTime(term)
	c.once.Do(func() { close(c.began) })
}

// endsInTime ends the context of the work at the deadline, which may be a later one by then.
func (c *claim) endsInTime(term *Term) {
	_, read := now()
	if left := term.deadline.Load() - read; left > 0 && c.ctx.Err() == nil {
		time.AfterFunc(time.Duration(left), func() { c.endsInTime(term) })
		return
	}
	c.end()
}

func (c *claim) renewed(told *event) {
	if term := c.term.Load(); term != nil && term.Token == told.Token {
		term.deadline.Store(max(term.deadline.Load(), told.deadline()))
	}
}

// beats tells that the process works: the agent can't know a stopped one by its connection. It looks at the clock, too:
// timers stand while the machine is suspended.
func (c *claim) beats() {
	ticker := time.NewTicker(c.beat)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(c.ctx, c.beat*2)
		told := event{}
		err := c.agent.ask(limited, "POST", "/v1/claims/"+c.name+"/heartbeat", map[string]any{}, &told)
		cancel()
		var refusal *Error
		term := c.term.Load()
		if err == nil && told.Token != 0 {
			c.renewed(&told)
		}
		isGone := errors.As(err, &refusal) && refusal.Code == "no_such_claim"
		if term != nil && (told.Ending || isGone || !term.IsHeld()) {
			c.end()
		}
	}
}
