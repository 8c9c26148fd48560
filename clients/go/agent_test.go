package spindleagent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const short, long = 2 * time.Second, 20 * time.Second

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

// once leads for one term, and tells it and how long it took.
func once(t *testing.T, agent *Agent, lock string, lease time.Duration) (term *Term, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*long)
	defer cancel()
	began := time.Now()
	agent.Lead(ctx, lock, Options{Lease: lease}, func(_ context.Context, told *Term) error {
		term, took = told, time.Since(began)
		return errors.New("enough")
	})
	if term == nil {
		t.Fatal("it never led")
	}
	return term, took
}

func TestATermLastsLongerThanItsLeaseAndIsLetGoOfAtTheEndOfTheWork(t *testing.T) {
	agent, _ := started(t, onTCP)
	var first *Term
	err := agent.Lead(context.Background(), "go-lead", Options{Lease: short}, func(ctx context.Context, term *Term) error {
		first = term
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Second):
			return errors.New("enough")
		}
	})
	if err == nil || err.Error() != "enough" || first.IsHeld() {
		t.Fatal(err, first.IsHeld())
	}
	after, took := once(t, agent, "go-lead", long)
	if after.Token <= first.Token || took > 5*time.Second {
		t.Fatal(after.Token, first.Token, took)
	}
}

func TestALockOfAnotherIsNotAcquired(t *testing.T) {
	agent, _ := started(t, "--socket="+t.TempDir()+"/agent.sock")
	nothing := func(context.Context, *Term) error { return nil }
	if err := agent.Acquire(context.Background(), "go-acquire", 0, Options{ReleaseOnExit: true}, nothing); err != nil {
		t.Fatal("it is for Lead", err)
	}
	err := agent.Acquire(context.Background(), "go-acquire", 0, Options{Lease: short}, func(ctx context.Context, term *Term) error {
		if err := agent.Acquire(ctx, "go-acquire", 0, Options{}, nothing); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		if !term.IsHeld() {
			t.Error("its heartbeats tell later deadlines")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Acquire(context.Background(), "go-acquire", 10*time.Second, Options{}, nothing); err != nil {
		t.Fatal(err)
	}
}

func TestASlotRunsOnceAndAgainAfterAFailure(t *testing.T) {
	agent, _ := started(t, onTCP)
	slot := map[string]any{"slot": time.Now().UTC().Format(time.RFC3339Nano), "retry_pause": "100ms"}
	fails, runs := errors.New("the work failed"), 0
	if _, err := agent.RunOnce(context.Background(), "go-job", slot, Options{}, func(context.Context, *Term) error { return fails }); err != fails {
		t.Fatal(err)
	}
	for _, want := range []string{"released", "skipped"} {
		said, err := agent.RunOnce(context.Background(), "go-job", slot, Options{}, func(context.Context, *Term) error { runs++; return nil })
		if err != nil || said != want {
			t.Fatal(said, err, "instead of", want)
		}
	}
	if runs != 1 {
		t.Fatal(runs)
	}
}

func TestASecretIsReadAnew(t *testing.T) {
	file := t.TempDir() + "/token"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("the first of two secrets")
	agent, _ := started(t, onTCP, "--token-file="+file)
	agent.TokenFile = file
	once(t, agent, "go-secret", long)
	write("another secret, and longer")
	once(t, agent, "go-secret", long)
	var refusal *Error
	other := &Agent{Address: agent.Address, Token: "something else altogether"}
	err := other.Acquire(context.Background(), "go-secret", 0, Options{}, nil)
	if !errors.As(err, &refusal) || refusal.Code != "unauthorized" {
		t.Fatal(err)
	}
}

func TestAnAgentThatEndsIsLetGoOfAndAnotherLeadsAtOnce(t *testing.T) {
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
	if _, took := once(t, second, "go-ending", long); took > 8*time.Second {
		t.Fatal(took)
	}
}

func TestAContextThatEndsLetsGoWhenTheWorkHasStopped(t *testing.T) {
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
	if _, took := once(t, agent, "go-context", long); took > 8*time.Second {
		t.Fatal(took)
	}
}

func TestWorkThatEndsWithItsTermIsNoErrorAndTheNextTermBegins(t *testing.T) {
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
	agent, _ := started(t, onTCP)
	panics := func(context.Context, *Term) error { panic("the work") }
	recovered := func(call func()) {
		defer func() { recover() }()
		call()
	}
	recovered(func() { agent.Lead(context.Background(), "go-panic", Options{Lease: long}, panics) })
	if _, took := once(t, agent, "go-panic", long); took > 8*time.Second {
		t.Fatal(took)
	}
	slot := map[string]any{"slot": time.Now().UTC().Format(time.RFC3339Nano), "retry_pause": "100ms"}
	recovered(func() { agent.RunOnce(context.Background(), "go-panic", slot, Options{Lease: long}, panics) })
	began := time.Now()
	said, err := agent.RunOnce(context.Background(), "go-panic", slot, Options{}, func(context.Context, *Term) error { return nil })
	if said != "released" || err != nil || time.Since(began) > 8*time.Second {
		t.Fatal(said, err, time.Since(began))
	}
}

func TestTheContextOfTheWorkEndsAtTheDeadlineOfAnAgentThatIsStopped(t *testing.T) {
	agent, process := started(t, onTCP)
	agent.Lead(context.Background(), "go-stopped", Options{Lease: 8 * time.Second}, func(ctx context.Context, term *Term) error {
		process.Signal(syscall.SIGSTOP)
		<-ctx.Done()
		_, read := now()
		if late := time.Duration(read - term.deadline.Load()); late > time.Second {
			t.Error("it ended late", late)
		}
		process.Kill()
		return errors.New("enough")
	})
}

func TestARunWhoseAgentIsGoneSaysSo(t *testing.T) {
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
	if _, took := once(t, agent, "go-signal", long); took > 8*time.Second {
		t.Fatal(took)
	}
}

func TestWhatNoRepetitionCuresIsTold(t *testing.T) {
	agent, _ := started(t, onTCP)
	var refusal *Error
	err := agent.Lead(context.Background(), "go-bad", Options{ID: ">id"}, nil)
	if !errors.As(err, &refusal) || refusal.Code != "bad_request" {
		t.Fatal(err)
	}
}

func TestAnotherProcessHoldsNothing(t *testing.T) {
	agent, _ := started(t, onTCP)
	agent.Acquire(context.Background(), "go-process", 0, Options{}, func(_ context.Context, term *Term) error {
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
	term := &Term{Lock: "a", Fence: Fence{Table: "locktable", Lock: "a"}}
	err := Write(context.Background(), older{}, term, func(context.Context, *transaction) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "ReadLockMode") {
		t.Fatal(err)
	}
}
