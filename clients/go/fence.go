package spindleagent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Fence is what a transaction checks.
type Fence struct {
	Table     string    `json:"table"`
	Lock      string    `json:"lock"`
	Writer    string    `json:"writer"`
	Timestamp time.Time `json:"timestamp"`
}

// FenceSQL returns a query and its parameters, for a serializable transaction of Google's client: if no row comes,
// another term has begun, and the transaction must not commit.
func (t *Term) FenceSQL() (string, map[string]any) {
	sql := fmt.Sprintf("SELECT 1 FROM %s WHERE name = @lock AND token = @timestamp AND writer = @writer", t.Fence.Table)
	return sql, map[string]any{"lock": t.Fence.Lock, "timestamp": t.Fence.Timestamp, "writer": t.Fence.Writer}
}

// Check fails unless the term is still the lock's. It takes a transaction of Google's client, which must be serializable:
// Statement, Row and Rows are that client's. It commits before the next term begins, or not at all.
func Check[Statement ~struct {
	SQL    string
	Params map[string]any
}, Row any, Rows interface{ Do(func(*Row) error) error }](ctx context.Context, transaction interface {
	Query(context.Context, Statement) Rows
}, term *Term) error {
	sql, params := term.FenceSQL()
	found := 0
	err := transaction.Query(ctx, Statement{SQL: sql, Params: params}).Do(func(*Row) error { found++; return nil })
	if err != nil {
		return err // as it is: the client runs an aborted transaction again
	} else if found == 0 {
		return fmt.Errorf("lock %s: token %d: %w", term.Lock, term.Token, ErrFenced)
	}
	return nil
}

// optimistic is the number of Spanner's mode of reading.
const optimistic = 2

// Write writes in a transaction of Google's client that commits before the next term begins, or not at all: then it
// returns ErrFenced. It reads optimistically: if this process dies before the commit, its transaction keeps no lock, and
// the next leader waits for the lease alone. Client, Transaction and all other types are that client's.
func Write[Transaction interface {
	Query(context.Context, Statement) Rows
}, Statement ~struct {
	SQL    string
	Params map[string]any
}, Row any, Rows interface{ Do(func(*Row) error) error }, Options, Answer any](ctx context.Context, client interface {
	ReadWriteTransactionWithOptions(context.Context, func(context.Context, Transaction) error, Options) (Answer, error)
}, term *Term, write func(context.Context, Transaction) error) error {
	var options Options
	mode := reflect.ValueOf(&options).Elem().FieldByName("ReadLockMode")
	if !mode.CanInt() {
		return errors.New("the client's options have no ReadLockMode: take a later version of it")
	}
	mode.SetInt(optimistic)
	_, err := client.ReadWriteTransactionWithOptions(ctx, func(ctx context.Context, transaction Transaction) error {
		if err := Check[Statement, Row, Rows](ctx, transaction, term); err != nil {
			return err
		}
		return write(ctx, transaction)
	}, options)
	return err
}
