// Package spindleagent holds a term through `spindle agent`: a file to copy.
package spindleagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/spanner"
	"golang.org/x/sys/unix"
)

const fence = "SELECT 1 FROM locktable WHERE name = @lock AND token = @timestamp AND writer = @writer"

// ErrFenced says that another program leads, or nobody.
var ErrFenced = errors.New("the term is superseded")

// Term is one hold on the lock.
type Term struct {
	Token int64  `json:"token,string"`
	Claim string `json:"claim"`
	Fence struct {
		Lock      string    `json:"lock"`
		Writer    string    `json:"writer"`
		Timestamp time.Time `json:"timestamp"`
	} `json:"fence"`
	Deadline struct {
		BoottimeNs int64 `json:"boottime_ns,string"`
	} `json:"deadline"`
}

// Check fails unless the term is still the lock's; the transaction commits before the next one begins, or not at all.
func (t *Term) Check(ctx context.Context, transaction *spanner.ReadWriteTransaction) error {
	params := map[string]any{"lock": t.Fence.Lock, "timestamp": t.Fence.Timestamp, "writer": t.Fence.Writer}
	err := ErrFenced
	reading := transaction.Query(ctx, spanner.Statement{SQL: fence, Params: params}).Do(func(*spanner.Row) error {
		err = nil
		return nil
	})
	if reading != nil {
		return reading // as it is: the client runs an aborted transaction again
	}
	return err
}

// Leader contends for a lock for good.
type Leader struct {
	agent, wanted string
	held          atomic.Pointer[Term]
	claim         atomic.Value
}

// New contends for the lock through the agent at this host and port.
func New(agent, lock, id string) *Leader {
	// Texts and lists of them are always JSON.
	wanted, _ := json.Marshal(map[string]any{
		"locks": []string{lock}, "id": id, "lease": "4s", "heartbeat_timeout": "2s",
	})
	l := &Leader{agent: "http://" + agent, wanted: string(wanted)}
	go func() {
		for ; ; time.Sleep(200 * time.Millisecond) {
			log.Print("agent: ", l.follow())
		}
	}()
	// The agent can't tell a stopped process by its connection.
	go func() {
		for range time.Tick(500 * time.Millisecond) {
			if claim, _ := l.claim.Load().(string); claim != "" {
				if answer, err := l.ask("/v1/claims/"+claim+"/heartbeat", "{}"); err == nil {
					answer.Body.Close()
				}
			}
		}
	}()
	return l
}

// Term returns the term that is held now, by the clock that counts suspended time; or nil.
func (l *Leader) Term() *Term {
	var now unix.Timespec
	held := l.held.Load()
	if held == nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil || now.Nano() >= held.Deadline.BoottimeNs {
		return nil
	}
	return held
}

// follow contends. Whatever ends the stream, nothing is held until a new one says so.
func (l *Leader) follow() error {
	defer l.claim.Store("")
	defer l.held.Store(nil)
	stream, err := l.ask("/v1/lead", l.wanted)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	event, lines := "", bufio.NewScanner(stream.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		if field == "event" {
			event = value
		} else if field == "data" {
			if err := l.told(event, value); err != nil {
				return err
			}
		}
	}
	return errors.Join(lines.Err(), errors.New("the stream has ended"))
}

func (l *Leader) told(event, data string) error {
	next := &Term{}
	if held := l.held.Load(); held != nil && event == "renewed" {
		*next = *held
	}
	switch event {
	case "waiting", "gained", "renewed":
		if err := json.Unmarshal([]byte(data), next); err != nil {
			return err
		}
		l.claim.Store(next.Claim)
	}
	if event != "gained" && event != "renewed" {
		next = nil
	}
	l.held.Store(next)
	return nil
}

func (l *Leader) ask(path, body string) (*http.Response, error) {
	answer, err := http.Post(l.agent+path, "application/json", strings.NewReader(body))
	if err != nil || answer.StatusCode == http.StatusOK {
		return answer, err
	}
	defer answer.Body.Close()
	reason, err := io.ReadAll(answer.Body)
	return nil, errors.Join(fmt.Errorf("%s %s", answer.Status, reason), err)
}
