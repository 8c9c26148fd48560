// Writes one fenced order after the other, while it leads: leader DATABASE ID.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"time"

	"cloud.google.com/go/spanner"
	spindleagent "github.com/spindle-lock/spindle/clients/go"
)

func main() {
	ctx := spindleagent.UntilSignal()
	orders, err := spanner.NewClient(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	agent, options := &spindleagent.Agent{}, spindleagent.Options{ID: os.Args[2], Lease: 4 * time.Second}
	log.Fatal(agent.Lead(ctx, "orders", options, func(_ context.Context, term *spindleagent.Term) error {
		for term.IsHeld() {
			fmt.Println("works", term.Token)
			time.Sleep(500 * time.Millisecond) // it prepares the order, and the process may be stopped for an hour
			err := spindleagent.Write(ctx, orders, term, func(_ context.Context, transaction *spanner.ReadWriteTransaction) error {
				order := []any{rand.Text(), os.Args[2], term.Token, spanner.CommitTimestamp}
				insert := spanner.Insert("orders", []string{"id", "leader", "token", "written"}, order)
				return transaction.BufferWrite([]*spanner.Mutation{insert})
			})
			if err != nil {
				fmt.Println("not written:", err)
				return err // if it says that the term is superseded, Lead contends again
			}
			fmt.Println("wrote", term.Token)
		}
		return nil
	}))
}
