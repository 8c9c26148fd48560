// Writes one fenced order after the other, while it leads: leader DATABASE ID.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"

	spindleagent "github.com/spindle-lock/spindle/clients/go"
)

// If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
var optimistic = spanner.TransactionOptions{ReadLockMode: spannerpb.TransactionOptions_ReadWrite_OPTIMISTIC}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	orders, err := spanner.NewClient(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	agent, options := &spindleagent.Agent{}, spindleagent.Options{ID: os.Args[2], Lease: 4 * time.Second}
	log.Fatal(agent.Lead(ctx, "orders", options, func(_ context.Context, term *spindleagent.Term) error {
		for term.IsHeld() {
			fmt.Println("works", term.Token)
			time.Sleep(500 * time.Millisecond) // it prepares the order, and the process may be stopped for an hour
			_, err := orders.ReadWriteTransactionWithOptions(ctx, func(ctx context.Context, transaction *spanner.ReadWriteTransaction) error {
				if err := spindleagent.Check(ctx, transaction, term); err != nil {
					return err
				}
				order := []any{rand.Text(), os.Args[2], term.Token, spanner.CommitTimestamp}
				insert := spanner.Insert("orders", []string{"id", "leader", "token", "written"}, order)
				return transaction.BufferWrite([]*spanner.Mutation{insert})
			}, optimistic)
			if errors.Is(err, spindleagent.ErrFenced) {
				fmt.Println("fenced", err)
			} else if err != nil {
				fmt.Println("failed", err)
			} else {
				fmt.Println("wrote", term.Token)
			}
		}
		return nil
	}))
}
