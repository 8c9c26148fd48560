// The Go lock library spindle, as it is published, on the embedded Spanner: two processes contend for a lock, the one
// that holds it is killed, and the other one takes over.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"github.com/flowerinthenight/spindle/v2"
)

const (
	project      = "projects/go"
	instanceName = project + "/instances/locks"
	databaseName = instanceName + "/databases/locks"
	leaseMs      = 1000
	// Longer than anything here takes, also on a machine that is busy with something else.
	timeLimit = 60 * time.Second
)

var ddl = `CREATE TABLE locktable (
  name STRING(MAX) NOT NULL,
  heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  writer STRING(MAX),
) PRIMARY KEY (name)`

// lockRow is what the table says of the lock.
type lockRow struct {
	Heartbeat time.Time `spanner:"heartbeat"`
	Token     time.Time `spanner:"token"`
	Writer    string    `spanner:"writer"`
}

func main() {
	ctx := context.Background()
	if id := os.Getenv("CONTEND_AS"); id != "" {
		contend(ctx, id)
	}
	if err := story(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// contend runs the lock for good, and says each time whether this process holds it.
func contend(ctx context.Context, id string) {
	client, err := spanner.NewClient(ctx, databaseName)
	if err != nil {
		log.Fatal(err)
	}
	lock := spindle.New(client, "locktable", "job", spindle.WithId(id), spindle.WithDuration(leaseMs),
		spindle.WithLogger(log.New(os.Stderr, id+" ", log.LstdFlags)))
	if err := lock.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for range time.Tick(50 * time.Millisecond) {
		if holds, token := lock.HasLock(); holds {
			fmt.Println("holds", token)
		}
	}
}

// contender is a process that contends.
type contender struct {
	process *exec.Cmd
	tokens  chan string
}

func start(id string) (*contender, error) {
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "CONTEND_AS="+id)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := &contender{process, make(chan string)}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if token, holds := strings.CutPrefix(lines.Text(), "holds "); holds {
				started.tokens <- token
			}
		}
		close(started.tokens)
	}()
	return started, process.Start()
}

// kill ends the process with SIGKILL: it cannot release anything.
func (c *contender) kill() {
	_ = c.process.Process.Kill()
	for range c.tokens {
		// What it said before it ended.
	}
	_ = c.process.Wait()
}

// token waits until the process says that it holds the lock.
func (c *contender) token() (string, error) {
	select {
	case token, running := <-c.tokens:
		if !running {
			return "", errors.New("the contender has ended")
		}
		return token, nil
	case <-time.After(timeLimit):
		return "", errors.New("the contender doesn't get the lock")
	}
}

func story(ctx context.Context) error {
	client, err := setUp(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	wait := func(what string, wanted func(lockRow) bool) (lockRow, error) {
		for begun := time.Now(); time.Since(begun) < timeLimit; time.Sleep(20 * time.Millisecond) {
			row, err := client.Single().ReadRow(ctx, "locktable", spanner.Key{"job"}, []string{"heartbeat", "token", "writer"})
			var found lockRow
			if err == nil && row.ToStruct(&found) == nil && wanted(found) {
				return found, nil
			}
		}
		return lockRow{}, fmt.Errorf("not seen: %s", what)
	}

	first, err := start("first")
	if err != nil {
		return err
	}
	defer first.kill()
	token, err := first.token()
	if err != nil {
		return err
	}
	acquired, err := wait("the first holds", func(row lockRow) bool { return row.Writer == "first" })
	if err != nil {
		return err
	}
	fmt.Println("ok: spindle v2 acquires a lock that nobody holds")

	second, err := start("second")
	if err != nil {
		return err
	}
	defer second.kill()
	for range 2 {
		last := acquired.Heartbeat
		acquired, err = wait("a heartbeat of the first", func(row lockRow) bool { return row.Heartbeat.After(last) })
		if err != nil {
			return err
		}
		if acquired.Writer != "first" {
			return fmt.Errorf("%s took a lock that is held", acquired.Writer)
		}
	}
	fmt.Println("ok: spindle v2 keeps its lock by heartbeats while another process waits")

	first.kill()
	other, err := second.token()
	if err != nil {
		return err
	}
	taken, err := wait("the second takes over", func(row lockRow) bool { return row.Writer == "second" })
	if err != nil {
		return err
	}
	if other == token || !taken.Token.After(acquired.Token) {
		return fmt.Errorf("the token stayed: %v, then %v", acquired, taken)
	}
	if _, err := wait("a heartbeat of the second", func(row lockRow) bool { return row.Heartbeat.After(taken.Heartbeat) }); err != nil {
		return err
	}
	fmt.Println("ok: spindle v2 takes over from a killed process with a later token")
	return nil
}

func setUp(ctx context.Context) (*spanner.Client, error) {
	instances, err := instance.NewInstanceAdminClient(ctx)
	if err != nil {
		return nil, err
	}
	defer instances.Close()
	made, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: project, InstanceId: "locks", Instance: &instancepb.Instance{DisplayName: "Locks", NodeCount: 1},
	})
	if err != nil {
		return nil, err
	}
	if _, err := made.Wait(ctx); err != nil {
		return nil, err
	}
	databases, err := database.NewDatabaseAdminClient(ctx)
	if err != nil {
		return nil, err
	}
	defer databases.Close()
	created, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: instanceName, CreateStatement: "CREATE DATABASE locks", ExtraStatements: []string{ddl},
	})
	if err != nil {
		return nil, err
	}
	if _, err := created.Wait(ctx); err != nil {
		return nil, err
	}
	return spanner.NewClient(ctx, databaseName)
}
