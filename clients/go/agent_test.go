package spindleagent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// What is waited for comes within this, also on a busy machine. A lease of `long` runs out later than that.
	within, long = 40 * time.Second, 60 * time.Second
	// A term that is held for `later` has outlasted its lease.
	lease, later = 6 * time.Second, 8 * time.Second
	// A lease that is to run out.
	short = 2 * time.Second
)

// started is an agent of the program's; clients/test has the database.
func started(t *testing.T, arguments ...string) (*Agent, *os.Process) {
	t.Helper()
	command := exec.Command(os.Getenv("SPINDLE_PROGRAM"), append([]string{"agent"}, arguments...)...)
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimRight(strings.TrimPrefix(strings.Fields(line)[2], "http://"), "/")
	return &Agent{Address: address}, command.Process
}

var onTCP = "--listen=127.0.0.1:0"

// once leads for one term, which comes sooner than by the end of another's lease of `long`.
func once(t *testing.T, agent *Agent, lock string) (term *Term) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	agent.Lead(ctx, lock, Options{Lease: long}, func(_ context.Context, told *Term) error {
		term = told
		return errors.New("enough")
	})
	if term == nil {
		t.Fatal(lock, "was not let go of")
	}
	return term
}

func TestATermLastsLongerThanItsLeaseAndIsLetGoOfAtTheEndOfTheWork(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	var first *Term
	err := agent.Lead(context.Background(), "go-lead", Options{Lease: lease}, func(ctx context.Context, term *Term) error {
		first = term
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(later):
			return errors.New("enough")
		}
	})
	if err == nil || err.Error() != "enough" || first.IsHeld() {
		t.Fatal(err, first.IsHeld())
	}
	if after := once(t, agent, "go-lead"); after.Token <= first.Token {
		t.Fatal(after.Token, first.Token)
	}
	once(t, agent, "go-lead")
}

func TestALockOfAnotherIsNotAcquired(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, "--socket="+t.TempDir()+"/agent.sock")
	nothing := func(context.Context, *Term) error { return nil }
	if err := agent.Acquire(context.Background(), "go-acquire", 0, Options{Lease: long, ReleaseOnExit: true}, nothing); err != nil {
		t.Fatal("it is for Lead", err)
	}
	err := agent.Acquire(context.Background(), "go-acquire", within, Options{Lease: lease}, func(ctx context.Context, term *Term) error {
		if err := agent.Acquire(ctx, "go-acquire", 0, Options{}, nothing); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
		time.Sleep(later)
		if !term.IsHeld() {
			t.Error("its heartbeats tell later deadlines")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Acquire(context.Background(), "go-acquire", within, Options{}, nothing); err != nil {
		t.Fatal(err)
	}
}

func TestASlotRunsOnceAndAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	slot := map[string]any{"slot": time.Now().UTC().Format(time.RFC3339Nano), "retry_pause": "100ms"}
	fails, runs := errors.New("the work failed"), 0
	if _, err := agent.RunOnce(context.Background(), "go-job", slot, Options{Lease: long}, func(context.Context, *Term) error { return fails }); err != fails {
		t.Fatal(err)
	}
	for _, want := range []string{"released", "skipped"} {
		said, err := agent.RunOnce(context.Background(), "go-job", slot, Options{Lease: long}, func(context.Context, *Term) error { runs++; return nil })
		if err != nil || said != want {
			t.Fatal(said, err, "instead of", want)
		}
	}
	if runs != 1 {
		t.Fatal(runs)
	}
}

// played is an agent that is played: it answers a run's stream with `gained`, and its release by this.
func played(t *testing.T, release http.HandlerFunc) *Agent {
	field, read := now()
	told := fmt.Sprintf(`{"event":"gained","lock":"played","token":"1","deadline":{"%s":"%d"}}`, field, read+1e15)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		io.Copy(io.Discard, asked.Body) // the server learns then that the client is gone
		if asked.Method == "DELETE" {
			release(answer, asked)
			return
		} else if strings.HasSuffix(asked.URL.Path, "/heartbeat") {
			fmt.Fprint(answer, "{}")
			return
		}
		fmt.Fprintf(answer, "data: %s\n\n", told)
		answer.(http.Flusher).Flush()
		<-asked.Context().Done()
	}))
	t.Cleanup(server.Close)
	return &Agent{Address: strings.TrimPrefix(server.URL, "http://")}
}

func TestARunIsReleasedIfTheAgentSaysSoAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status    int
		told, say string
	}{
		{200, `{"outcome":"released"}`, "released"},
		{200, `{"outcome":"ended_before"}`, "ended_before"},
		{200, `{"outcome":"unacknowledged"}`, "unacknowledged"},
		{404, `{"code":"no_such_claim","error":"it is over"}`, "gone"},
		{0, "", "gone"},
	} {
		outcomes := ""
		agent := played(t, func(answer http.ResponseWriter, asked *http.Request) {
			if outcomes += asked.URL.RawQuery; test.status == 0 {
				panic(http.ErrAbortHandler)
			}
			answer.WriteHeader(test.status)
			fmt.Fprint(answer, test.told)
		})
		nothing := func(context.Context, *Term) error { return nil }
		said, err := agent.RunOnce(context.Background(), "go-said", map[string]any{"every": "1h"}, Options{}, nothing)
		if said != test.say || err != nil || outcomes != "outcome=done" {
			t.Error(said, err, outcomes, "instead of", test.say)
		}
	}
}

func TestAnAddressWithoutAPortEndsEachCall(t *testing.T) {
	t.Parallel()
	wrong := "localhost agent.sock run/agent.sock:1 http://localhost:1 localhost: :1 a:0 a:65536 ::1:1 [::1] a%zz:1"
	for _, address := range strings.Fields(wrong) {
		agent, ctx := &Agent{Address: address}, context.Background()
		_, err := agent.RunOnce(ctx, "go-address", map[string]any{"every": "1h"}, Options{}, nil)
		for _, err := range []error{err, agent.Lead(ctx, "go-address", Options{}, nil), agent.Acquire(ctx, "go-address", 0, Options{}, nil)} {
			if err == nil || err.Error() != "address "+address+": expected HOST:PORT, or the path of a socket" {
				t.Error(address, err)
			}
		}
	}
	for _, address := range []string{"localhost:80", "127.0.0.1:9465", "[::1]:9465", "a_b.c-d:1"} {
		if !isHostPort(address) {
			t.Error(address)
		}
	}
}

func TestAnAddressOfIPv6(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has none:", err)
	}
	held := http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.WriteHeader(http.StatusConflict)
		fmt.Fprint(answer, `{"code":"held"}`)
	})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: held}}
	server.Start()
	defer server.Close()
	agent := &Agent{Address: listener.Addr().String()}
	if err := agent.Acquire(context.Background(), "go-ipv6", 0, Options{}, nil); !errors.Is(err, ErrNotHeld) {
		t.Fatal(err)
	}
}

func TestAnAgentThatOpensNoStreamIsAskedAgain(t *testing.T) {
	defer func(before time.Duration) { silenceMax = before }(silenceMax)
	silenceMax = 200 * time.Millisecond
	var asked atomic.Int32
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body) // the server learns then that the client is gone
		if request.Method == "DELETE" {
			answer.WriteHeader(http.StatusNotFound)
		} else if !strings.HasSuffix(request.URL.Path, "/heartbeat") {
			if asked.Add(1) == 2 {
				cancel()
			}
			<-request.Context().Done()
		}
	}))
	defer server.Close()
	agent := &Agent{Address: strings.TrimPrefix(server.URL, "http://")}
	agent.Lead(ctx, "go-silent", Options{}, nil)
	if asked.Load() < 2 {
		t.Fatal("it waits for its first stream")
	}
	ctx, cancel = context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := agent.RunOnce(ctx, "go-silent", map[string]any{"every": "1h"}, Options{}, nil)
	if err == nil || !strings.Contains(err.Error(), "silent") {
		t.Fatal(err)
	}
}

func TestASecretIsReadAnew(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("the first of two secrets")
	agent, _ := started(t, onTCP, "--token-file="+file)
	agent.TokenFile = file
	once(t, agent, "go-secret")
	write("another secret, and longer")
	once(t, agent, "go-secret")
	var refusal *Error
	other := &Agent{Address: agent.Address, Token: "something else altogether"}
	err := other.Acquire(context.Background(), "go-secret", 0, Options{}, nil)
	if !errors.As(err, &refusal) || refusal.Code != "unauthorized" {
		t.Fatal(err)
	}
}

func TestAnAgentThatEndsIsLetGoOfAndAnotherLeadsAtOnce(t *testing.T) {
	t.Parallel()
	first, process := started(t, onTCP)
	second, _ := started(t, onTCP)
	err := first.Lead(context.Background(), "go-ending", Options{Lease: long}, func(ctx context.Context, term *Term) error {
		process.Signal(syscall.SIGTERM)
		<-ctx.Done()
		return errors.New("enough")
	})
	if err.Error() != "enough" {
		t.Fatal(err)
	}
	once(t, second, "go-ending")
}

func TestAContextThatEndsLetsGoWhenTheWorkHasStopped(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	ctx, cancel := context.WithCancel(context.Background())
	err := agent.Lead(ctx, "go-context", Options{Lease: long}, func(ctx context.Context, term *Term) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	once(t, agent, "go-context")
}

func TestWorkThatEndsWithItsTermIsNoErrorAndTheNextTermBegins(t *testing.T) {
	t.Parallel()
	socket := "--socket=" + t.TempDir() + "/agent.sock"
	agent, process := started(t, socket)
	over := []error{
		context.Canceled,
		ErrNotHeld,
		errors.New("rpc error: code = Canceled desc = context canceled"), // as Google's client has it
	}
	isFirst := true
	err := agent.Lead(context.Background(), "go-over", Options{Lease: short}, func(ctx context.Context, term *Term) error {
		if isFirst {
			isFirst = false
			return fmt.Errorf("an order: %w", ErrFenced)
		} else if len(over) == 0 {
			return errors.New("enough")
		}
		process.Kill()
		<-ctx.Done()
		_, process = started(t, socket)
		err := fmt.Errorf("an order: %w", over[0])
		over = over[1:]
		return err
	})
	if err == nil || err.Error() != "enough" {
		t.Fatal(over, err)
	}
}

func TestAPanicOfTheWorkThatIsRecoveredLetsGo(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	panics := func(context.Context, *Term) error { panic("the work") }
	recovered := func(call func()) {
		defer func() { recover() }()
		call()
	}
	recovered(func() { agent.Lead(context.Background(), "go-panic", Options{Lease: long}, panics) })
	once(t, agent, "go-panic")
	slot := map[string]any{"slot": time.Now().UTC().Format(time.RFC3339Nano), "retry_pause": "100ms"}
	recovered(func() { agent.RunOnce(context.Background(), "go-panic", slot, Options{Lease: long}, panics) })
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	said, err := agent.RunOnce(ctx, "go-panic", slot, Options{Lease: long}, func(context.Context, *Term) error { return nil })
	if said != "released" || err != nil {
		t.Fatal(said, err)
	}
}

func TestTheContextOfTheWorkEndsAtTheDeadlineOfAnAgentThatIsStopped(t *testing.T) {
	t.Parallel()
	agent, process := started(t, onTCP)
	agent.Lead(context.Background(), "go-stopped", Options{Lease: lease}, func(ctx context.Context, term *Term) error {
		process.Signal(syscall.SIGSTOP)
		<-ctx.Done()
		if _, read := now(); read < term.deadline.Load() {
			t.Error("it ended early", term.deadline.Load()-read)
		}
		process.Kill()
		return errors.New("enough")
	})
}

func TestTheContextOfTheWorkEndsAtTheDeadlineWithoutAHeartbeat(t *testing.T) {
	t.Parallel()
	claim := (&Agent{}).named(context.Background(), Options{}, map[string]any{})
	_, read := now()
	told := event{Token: 1}
	told.Deadline.Boottime = read + int64(100*time.Millisecond)
	claim.begins(&told)
	told.Deadline.Boottime = read + int64(300*time.Millisecond)
	claim.renewed(&told)
	select {
	case <-claim.ctx.Done():
		if _, read := now(); read < told.Deadline.Boottime {
			t.Error("it ended early", told.Deadline.Boottime-read)
		}
	case <-time.After(within):
		t.Error("it doesn't end")
	}
}

func TestARunWhoseAgentIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	// Its streams end without a word.
	gone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer gone.Close()
	agent := &Agent{Address: strings.TrimPrefix(gone.URL, "http://")}
	said, err := agent.RunOnce(context.Background(), "go-gone", map[string]any{"every": "1h"}, Options{}, nil)
	if said != "gone" || err != nil {
		t.Fatal(said, err)
	}
}

func TestASignalEndsTheWorkAndTheLockIsLetGoOf(t *testing.T) {
	agent, _ := started(t, onTCP)
	err := agent.Lead(UntilSignal(), "go-signal", Options{Lease: long}, func(ctx context.Context, term *Term) error {
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	once(t, agent, "go-signal")
}

func TestWhatNoRepetitionCuresIsTold(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	var refusal *Error
	err := agent.Lead(context.Background(), "go-bad", Options{ID: ">id"}, nil)
	if !errors.As(err, &refusal) || refusal.Code != "bad_request" {
		t.Fatal(err)
	}
}

func TestAnotherProcessHoldsNothing(t *testing.T) {
	t.Parallel()
	agent, _ := started(t, onTCP)
	agent.Acquire(context.Background(), "go-process", 0, Options{Lease: long}, func(_ context.Context, term *Term) error {
		if !term.IsHeld() {
			t.Error("it is held here")
		}
		if term.pid++; term.IsHeld() {
			t.Error("as a child by fork would see it")
		}
		return nil
	})
}

// As Google's client has them.
type statement struct {
	SQL    string
	Params map[string]any
}
type rows int

func (r *rows) Do(each func(*string) error) error {
	for range int(*r) {
		if err := each(new(string)); err != nil {
			return err
		}
	}
	return nil
}

type transaction struct{ found rows }

func (t *transaction) Query(_ context.Context, asked statement) *rows {
	if asked.Params["lock"] != "a" || !strings.Contains(asked.SQL, "FROM locktable") {
		panic(asked)
	}
	return &t.found
}

func TestACheckFailsWithoutTheRow(t *testing.T) {
	t.Parallel()
	term := &Term{Lock: "a", Fence: Fence{Table: "locktable", Lock: "a"}}
	if err := Check(context.Background(), &transaction{found: 1}, term); err != nil {
		t.Fatal(err)
	}
	if err := Check(context.Background(), &transaction{}, term); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
}

type choices struct {
	Tag          string
	ReadLockMode int32
}

// database is a client whose next transaction finds so many rows.
type database struct {
	found   rows
	choices choices
	commits int
}

func (d *database) ReadWriteTransactionWithOptions(ctx context.Context, run func(context.Context, *transaction) error, choices choices) (time.Time, error) {
	d.choices = choices
	err := run(ctx, &transaction{found: d.found})
	if err == nil {
		d.commits++
	}
	return time.Time{}, err
}

func TestAWriteCommitsUnderItsTermAloneAndReadsOptimistically(t *testing.T) {
	t.Parallel()
	term := &Term{Lock: "a", Fence: Fence{Table: "locktable", Lock: "a"}}
	writes, orders := 0, &database{found: 1}
	write := func(context.Context, *transaction) error { writes++; return nil }
	if err := Write(context.Background(), orders, term, write); err != nil || orders.commits != 1 || orders.choices.ReadLockMode != 2 {
		t.Fatal(err, orders)
	}
	orders.found = 0
	if err := Write(context.Background(), orders, term, write); !errors.Is(err, ErrFenced) || orders.commits != 1 || writes != 1 {
		t.Fatal(err, orders, writes)
	}
}

// older is a client from before the mode of reading.
type older struct{}

func (older) ReadWriteTransactionWithOptions(context.Context, func(context.Context, *transaction) error, struct{}) (time.Time, error) {
	panic("it reads pessimistically")
}

func TestAClientWithoutTheModeOfReadingIsRefused(t *testing.T) {
	t.Parallel()
	term := &Term{Lock: "a", Fence: Fence{Table: "locktable", Lock: "a"}}
	err := Write(context.Background(), older{}, term, func(context.Context, *transaction) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "ReadLockMode") {
		t.Fatal(err)
	}
}
