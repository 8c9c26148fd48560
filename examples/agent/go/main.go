// Writes one fenced order after the other, while it leads: leader DATABASE ID.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"

	"leader/spindleagent"
)

// If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
var optimistic = spanner.TransactionOptions{ReadLockMode: spannerpb.TransactionOptions_ReadWrite_OPTIMISTIC}

func main() {
	ctx, database, id := context.Background(), os.Args[1], os.Args[2]
	orders, err := spanner.NewClient(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	leader := spindleagent.New(os.Getenv("SPINDLE_AGENT"), "orders", id)
	for {
		term := leader.Term()
		if term == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		fmt.Println("works", term.Token)
		time.Sleep(500 * time.Millisecond) // it prepares the order, and the process may be stopped for an hour
		_, err := orders.ReadWriteTransactionWithOptions(ctx, func(ctx context.Context, transaction *spanner.ReadWriteTransaction) error {
			if err := term.Check(ctx, transaction); err != nil {
				return err
			}
			order := []any{rand.Text(), id, term.Token, spanner.CommitTimestamp}
			columns := []string{"id", "leader", "token", "written"}
			return transaction.BufferWrite([]*spanner.Mutation{spanner.Insert("orders", columns, order)})
		}, optimistic)
		if errors.Is(err, spindleagent.ErrFenced) {
			fmt.Println("fenced", err)
		} else if err != nil {
			fmt.Println("failed", err)
		} else {
			fmt.Println("wrote", term.Token)
		}
	}
}
