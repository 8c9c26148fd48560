// A participant that uses Go's spindle v2, unmodified: contends for locks, says what its callback says, obeys its input.
//
// Usage: contend-go ID PREFIX COUNT LEASE_MS, with DATABASE and SPANNER_EMULATOR_HOST in the environment.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/spanner"
	"github.com/flowerinthenight/spindle/v2"
)

// contender is one lock of this process, and what its callback said last.
type contender struct {
	lock *spindle.Lock
	told atomic.Bool
}

var output sync.Mutex

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: contend-go ID PREFIX COUNT LEASE_MS")
	}
	id, prefix := os.Args[1], os.Args[2]
	count, leaseMs := number(os.Args[3]), number(os.Args[4])
	ctx, cancel := context.WithCancel(context.Background())
	client, err := spanner.NewClient(ctx, os.Getenv("DATABASE"))
	if err != nil {
		log.Fatal(err)
	}
	contenders := make([]*contender, count)
	for i := range contenders {
		contenders[i] = contend(ctx, client, id, fmt.Sprintf("%s-%05d", prefix, i), leaseMs)
	}
	say("ready")
	obey(contenders, cancel)
}

func contend(ctx context.Context, client *spanner.Client, id, name string, leaseMs int64) *contender {
	c := &contender{}
	callback := func(_ any, state []byte) {
		leads := string(state) == "1"
		if c.told.Swap(leads) == leads {
			return
		}
		if leads {
			say("gained %s %d", name, time.Now().UnixNano())
		} else {
			say("lost %s %d", name, time.Now().UnixNano())
		}
	}
	c.lock = spindle.New(client, "locktable", name, spindle.WithId(id), spindle.WithDuration(leaseMs),
		spindle.WithLogger(log.New(io.Discard, "", 0)), spindle.WithLeaderCallback(nil, callback))
	if err := c.lock.Run(ctx); err != nil {
		log.Fatal(err)
	}
	return c
}

// obey answers what the parent asks, until it is gone.
func obey(contenders []*contender, cancel context.CancelFunc) {
	first := contenders[0]
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "ask":
			told, at := first.told.Load(), time.Now().UnixNano()
			called, _ := first.lock.HasLock()
			say("answer %t %t %d", told, called, at)
		case "count":
			held := 0
			for _, c := range contenders {
				if c.told.Load() {
					held++
				}
			}
			say("held %d", held)
		case "cost":
			rounds := number(words[1])
			begun := time.Now()
			for range rounds {
				first.lock.HasLock()
			}
			say("cost %d", time.Since(begun).Nanoseconds()/rounds)
		case "go":
			// It releases nothing: the context ends its loops, and the process ends.
			cancel()
			say("gone %d", time.Now().UnixNano())
			return
		}
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return value
}
