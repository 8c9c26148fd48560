// Google's Go client on the embedded Spanner: the cases of ../../cases.txt, each printed by name.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/civil"
	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	apiv1 "cloud.google.com/go/spanner/apiv1"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	project      = "projects/go"
	instanceName = project + "/instances/clients"
	databaseName = instanceName + "/databases/cases"
)

var ddl = []string{
	"CREATE TABLE accounts (id INT64 NOT NULL, owner STRING(10), balance INT64) PRIMARY KEY (id)",
	`CREATE TABLE entries (
	   account INT64 NOT NULL,
	   number INT64 NOT NULL,
	   note STRING(MAX) NOT NULL,
	   written TIMESTAMP OPTIONS (allow_commit_timestamp = true),
	   plain TIMESTAMP
	 ) PRIMARY KEY (account, number)`,
	`CREATE TABLE types (
	   k INT64 NOT NULL, b BOOL, f FLOAT64, s STRING(MAX), y BYTES(MAX), d DATE, t TIMESTAMP,
	   n NUMERIC, j JSON, a ARRAY<INT64>, w ARRAY<STRING(MAX)>
	 ) PRIMARY KEY (k)`,
}

var (
	ctx       = context.Background()
	instances *instance.InstanceAdminClient
	databases *database.DatabaseAdminClient
	client    *spanner.Client
	failed    bool

	accounts  = []string{"id", "owner", "balance"}
	entries   = []string{"account", "number", "note"}
	idBalance = []string{"id", "balance"}
)

type row = []any

// run runs a case and says how it went.
func run(name string, story func() error) {
	err := story()
	if err != nil {
		failed = true
		fmt.Printf("FAILED: %s\n", name)
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return
	}
	fmt.Printf("ok: %s\n", name)
}

// refused runs a case that is an error of this code.
func refused(name string, code codes.Code, story func() error) {
	names := map[codes.Code]string{
		codes.AlreadyExists: "ALREADY_EXISTS", codes.NotFound: "NOT_FOUND",
		codes.InvalidArgument: "INVALID_ARGUMENT", codes.FailedPrecondition: "FAILED_PRECONDITION",
	}
	run(fmt.Sprintf("error: %s is %s", name, names[code]), func() error {
		if err := story(); codeOf(err) != code {
			return fmt.Errorf("%v: %v", codeOf(err), err)
		}
		return nil
	})
}

func codeOf(err error) codes.Code {
	if code := spanner.ErrCode(err); code != codes.Unknown {
		return code
	}
	return status.Code(err)
}

// same reports what differs, if anything does.
func same(found, expected any) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("found %v, not %v", found, expected)
	}
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func apply(mutations ...*spanner.Mutation) error {
	_, err := client.Apply(ctx, mutations)
	return err
}

// startWith leaves these accounts and no others.
func startWith(rows ...row) error {
	mutations := []*spanner.Mutation{spanner.Delete("accounts", spanner.AllKeys())}
	for _, values := range rows {
		mutations = append(mutations, spanner.Insert("accounts", accounts, values))
	}
	return apply(mutations...)
}

type reader interface {
	Read(context.Context, string, spanner.KeySet, []string) *spanner.RowIterator
}

// balances gives the balance of each account, by its id.
func balances(from reader) (map[int64]int64, error) {
	return pairs(from.Read(ctx, "accounts", spanner.AllKeys(), idBalance))
}

func pairs(rows *spanner.RowIterator) (map[int64]int64, error) {
	found := map[int64]int64{}
	err := rows.Do(func(row *spanner.Row) error {
		var id, balance int64
		if err := row.Columns(&id, &balance); err != nil {
			return err
		}
		found[id] = balance
		return nil
	})
	return found, err
}

func holds(expected map[int64]int64) error {
	found, err := balances(client.Single())
	if err != nil {
		return err
	}
	return same(found, expected)
}

func query(sql string) error {
	return client.Single().Query(ctx, spanner.NewStatement(sql)).Do(func(*spanner.Row) error { return nil })
}

// control asks the emulator's control service.
func control(method, path string, body any) map[string]any {
	text := must(json.Marshal(body))
	request := must(http.NewRequest(method, os.Getenv("SPANNER_EMULATOR_CONTROL")+path, bytes.NewReader(text)))
	reply := must(http.DefaultClient.Do(request))
	defer reply.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil {
		panic(err)
	}
	return answer
}

func createDatabase(id string, statements []string) error {
	operation, err := databases.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: instanceName, CreateStatement: "CREATE DATABASE `" + id + "`", ExtraStatements: statements,
	})
	if err != nil {
		return err
	}
	_, err = operation.Wait(ctx)
	return err
}

func createInstance() error {
	operation, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: project, InstanceId: "clients", Instance: &instancepb.Instance{
			Config: project + "/instanceConfigs/emulator-config", DisplayName: "Clients", NodeCount: 1,
		},
	})
	if err != nil {
		return err
	}
	_, err = operation.Wait(ctx)
	return err
}

func reported(name string) ([]string, error) {
	reply, err := databases.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: name})
	return reply.GetStatements(), err
}

func updateDdl(statement string) error {
	operation, err := databases.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{
		Database: databaseName, Statements: []string{statement},
	})
	if err != nil {
		return err
	}
	return operation.Wait(ctx)
}

func setUp() {
	run("an instance and a database are created", func() error {
		config, err := instances.ListInstanceConfigs(ctx, &instancepb.ListInstanceConfigsRequest{Parent: project}).Next()
		if err != nil {
			return err
		}
		if err := same(config.Name, project+"/instanceConfigs/emulator-config"); err != nil {
			return err
		}
		if err := createInstance(); err != nil {
			return err
		}
		found, err := instances.GetInstance(ctx, &instancepb.GetInstanceRequest{Name: instanceName})
		if err != nil {
			return err
		}
		listed, err := instances.ListInstances(ctx, &instancepb.ListInstancesRequest{Parent: project}).Next()
		if err != nil {
			return err
		}
		if err := same(found.Name, listed.Name); err != nil {
			return err
		}
		if err := errors.Join(createDatabase("cases", ddl), createDatabase("other", nil)); err != nil {
			return err
		}
		other := instanceName + "/databases/other"
		if err := databases.DropDatabase(ctx, &databasepb.DropDatabaseRequest{Database: other}); err != nil {
			return err
		}
		all := databases.ListDatabases(ctx, &databasepb.ListDatabasesRequest{Parent: instanceName})
		only, err := all.Next()
		if err != nil {
			return err
		}
		if _, err := all.Next(); err != iterator.Done {
			return fmt.Errorf("the other database is still there: %v", err)
		}
		return same(only.Name, databaseName)
	})
	run("the schema is changed and reported", func() error {
		if err := updateDdl("ALTER TABLE accounts ADD COLUMN note STRING(MAX) DEFAULT ('none')"); err != nil {
			return err
		}
		statements, err := reported(databaseName)
		if err != nil {
			return err
		}
		if len(statements) != 3 || !strings.Contains(statements[0], "note STRING(MAX) DEFAULT ('none')") {
			return fmt.Errorf("found %v", statements)
		}
		// What is reported makes the same database again.
		if err := createDatabase("copy", statements); err != nil {
			return err
		}
		copied, err := reported(instanceName + "/databases/copy")
		if err != nil {
			return err
		}
		return same(copied, statements)
	})
}

func writes() {
	run("mutations of each kind", func() error {
		if err := startWith(row{1, "a", 10}, row{2, "b", 20}, row{3, "c", 30}, row{4, "d", 40}); err != nil {
			return err
		}
		if err := apply(
			spanner.Insert("accounts", accounts, row{5, "e", 50}),
			spanner.Update("accounts", idBalance, row{1, 11}),
			spanner.InsertOrUpdate("accounts", idBalance, row{2, 22}),
			spanner.InsertOrUpdate("accounts", idBalance, row{6, 60}),
			spanner.Replace("accounts", idBalance, row{3, 33}),
			spanner.Delete("accounts", spanner.Key{4}),
		); err != nil {
			return err
		}
		var found []string
		err := client.Single().Read(ctx, "accounts", spanner.AllKeys(), accounts).Do(func(row *spanner.Row) error {
			var id, balance spanner.NullInt64
			var owner spanner.NullString
			err := row.Columns(&id, &owner, &balance)
			found = append(found, fmt.Sprintf("%v %v %v", id, owner.StringVal, balance))
			return err
		})
		return errors.Join(err, same(found, []string{"1 a 11", "2 b 22", "3  33", "5 e 50", "6  60"}))
	})
	run("DML writes and counts its rows", func() error {
		if err := startWith(row{1, "a", 10}, row{2, "b", 20}); err != nil {
			return err
		}
		_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			inserted, err := txn.Update(ctx, spanner.Statement{
				SQL:    "INSERT INTO accounts (id, owner, balance) VALUES (@id, @owner, @balance)",
				Params: map[string]any{"id": 3, "owner": "c", "balance": 30},
			})
			if err != nil {
				return err
			}
			updated, err := txn.Update(ctx, spanner.NewStatement("UPDATE accounts SET balance = balance + 1 WHERE id > 1"))
			if err != nil {
				return err
			}
			// It sees what it has written.
			seen, err := pairs(txn.Query(ctx, spanner.NewStatement("SELECT id, balance FROM accounts WHERE id = 3")))
			if err != nil {
				return err
			}
			deleted, err := txn.Update(ctx, spanner.NewStatement("DELETE FROM accounts WHERE id = 1"))
			if err != nil {
				return err
			}
			return errors.Join(same([]int64{inserted, updated, deleted}, []int64{1, 2, 1}), same(seen, map[int64]int64{3: 31}))
		})
		return errors.Join(err, holds(map[int64]int64{2: 21, 3: 31}))
	})
	run("DML upserts, returns rows and takes a list", func() error {
		if err := startWith(row{1, "a", 10}, row{2, "b", 20}); err != nil {
			return err
		}
		_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			upserted, err := txn.Update(ctx, spanner.NewStatement(
				"INSERT OR UPDATE INTO accounts (id, owner, balance) VALUES (2, 'c', 30), (3, 'c', 40)"))
			if err != nil {
				return err
			}
			returned, err := pairs(txn.Query(ctx, spanner.Statement{
				SQL:    "UPDATE accounts SET balance = balance + 1 WHERE id IN UNNEST(@ids) THEN RETURN id, balance",
				Params: map[string]any{"ids": []int64{1, 3}},
			}))
			return errors.Join(err, same(upserted, int64(2)), same(returned, map[int64]int64{1: 11, 3: 41}))
		})
		if err != nil {
			return err
		}
		sums := spanner.NewStatement("SELECT MIN(id) + MAX(id), SUM(balance) FROM accounts WHERE owner LIKE 'c%'")
		found, err := pairs(client.Single().Query(ctx, sums))
		return errors.Join(err, same(found, map[int64]int64{5: 71}))
	})
	run("batch DML stops at the error in the middle", func() error {
		batch := func(inTheMiddle string, expected codes.Code) error {
			if err := startWith(row{1, "a", 10}); err != nil {
				return err
			}
			_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
				counts, err := txn.BatchUpdate(ctx, []spanner.Statement{
					spanner.NewStatement("UPDATE accounts SET balance = 11 WHERE id = 1"),
					spanner.NewStatement(inTheMiddle),
					spanner.NewStatement("UPDATE accounts SET balance = 12 WHERE id = 1"),
				})
				if codeOf(err) != expected {
					return fmt.Errorf("the batch ended with %v", err)
				}
				return same(counts, []int64{1})
			})
			return err
		}
		err := batch("UPDATE nothing SET x = 1 WHERE true", codes.InvalidArgument)
		if err := errors.Join(err, holds(map[int64]int64{1: 11})); err != nil {
			return err
		}
		// A violated constraint spoils the whole transaction, as in Cloud Spanner.
		err = batch("INSERT INTO accounts (id) VALUES (1)", codes.AlreadyExists)
		if codeOf(err) != codes.AlreadyExists {
			return fmt.Errorf("the commit ended with %v", err)
		}
		return holds(map[int64]int64{1: 10})
	})
}

func reads() {
	run("reads by key, by range and of all", func() error {
		var rows []row
		for id := 1; id < 7; id++ {
			rows = append(rows, row{id, "x", id * 10})
		}
		if err := startWith(rows...); err != nil {
			return err
		}
		ids := func(rows *spanner.RowIterator) []int64 {
			var found []int64
			err := rows.Do(func(row *spanner.Row) error {
				var id int64
				defer func() { found = append(found, id) }()
				return row.Column(0, &id)
			})
			if err != nil {
				panic(err)
			}
			return found
		}
		read := func(keys spanner.KeySet) []int64 {
			return ids(client.Single().Read(ctx, "accounts", keys, []string{"id"}))
		}
		between := func(kind spanner.KeyRangeKind) []int64 {
			return read(spanner.KeyRange{Start: spanner.Key{2}, End: spanner.Key{4}, Kind: kind})
		}
		two := &spanner.ReadOptions{Limit: 2}
		limited := client.Single().ReadWithOptions(ctx, "accounts", spanner.AllKeys(), []string{"id"}, two)
		sql := spanner.NewStatement("SELECT id FROM accounts WHERE balance >= 50 ORDER BY id DESC")
		return errors.Join(
			same(read(spanner.KeySetFromKeys(spanner.Key{5}, spanner.Key{2}, spanner.Key{9})), []int64{2, 5}),
			same(between(spanner.ClosedOpen), []int64{2, 3}),
			same(between(spanner.OpenClosed), []int64{3, 4}),
			same(read(spanner.AllKeys()), []int64{1, 2, 3, 4, 5, 6}),
			same(ids(limited), []int64{1, 2}),
			same(ids(client.Single().Query(ctx, sql)), []int64{6, 5}),
		)
	})
	run("strong, stale and exact-timestamp reads", func() error {
		if err := startWith(row{1, "a", 10}); err != nil {
			return err
		}
		before, err := client.Apply(ctx, []*spanner.Mutation{spanner.Update("accounts", idBalance, row{1, 15})})
		if err != nil {
			return err
		}
		if err := apply(spanner.Update("accounts", idBalance, row{1, 20})); err != nil {
			return err
		}
		balance := func(bound spanner.TimestampBound) int64 {
			return must(balances(client.Single().WithTimestampBound(bound)))[1]
		}
		either := func(bound spanner.TimestampBound) error {
			if found := balance(bound); found != 15 && found != 20 {
				return fmt.Errorf("found %d at %v", found, bound)
			}
			return nil
		}
		return errors.Join(
			same(balance(spanner.StrongRead()), int64(20)),
			same(balance(spanner.ReadTimestamp(before)), int64(15)),
			same(balance(spanner.ExactStaleness(0)), int64(20)),
			either(spanner.MaxStaleness(time.Hour)),
			either(spanner.MinReadTimestamp(before)),
		)
	})
	run("a read-only transaction sees one snapshot while others write", func() error {
		if err := startWith(row{1, "a", 10}, row{2, "b", 20}); err != nil {
			return err
		}
		snapshot := client.ReadOnlyTransaction()
		defer snapshot.Close()
		first, err := balances(snapshot)
		if err != nil {
			return err
		}
		if err := apply(spanner.Update("accounts", idBalance, row{1, 99}), spanner.Delete("accounts", spanner.Key{2})); err != nil {
			return err
		}
		again, err := pairs(snapshot.Query(ctx, spanner.NewStatement("SELECT id, balance FROM accounts")))
		expected := map[int64]int64{1: 10, 2: 20}
		return errors.Join(err, same(first, expected), same(again, expected), holds(map[int64]int64{1: 99}))
	})
}

// increment adds 1 to the balance of account 1.
func increment(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
	row, err := txn.ReadRow(ctx, "accounts", spanner.Key{1}, []string{"balance"})
	if err != nil {
		return err
	}
	var balance int64
	if err := row.Column(0, &balance); err != nil {
		return err
	}
	return txn.BufferWrite([]*spanner.Mutation{spanner.Update("accounts", idBalance, []any{1, balance + 1})})
}

func transactions() {
	run("8 workers that contend lose no increment", func() error {
		if err := startWith(row{1, "a", 0}); err != nil {
			return err
		}
		var workers sync.WaitGroup
		broken := make(chan error, 80)
		for range 8 {
			workers.Go(func() {
				for range 10 {
					if _, err := client.ReadWriteTransaction(ctx, increment); err != nil {
						broken <- err
					}
				}
			})
		}
		workers.Wait()
		close(broken)
		return errors.Join(<-broken, holds(map[int64]int64{1: 80}))
	})
	run("an abort is retried by the client itself", func() error {
		if err := startWith(row{1, "a", 10}); err != nil {
			return err
		}
		fault := control("POST", "/faults", map[string]any{"rpc": "Commit", "table": "accounts", "times": 2, "effect": "abort"})
		attempts := 0
		_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			attempts++
			return increment(ctx, txn)
		})
		hits := control("GET", fmt.Sprintf("/faults/%v", fault["id"]), nil)["hits"]
		return errors.Join(err, same(hits, 2.0), same(attempts, 3), holds(map[int64]int64{1: 11}))
	})
	run("a rolled-back transaction leaves nothing", func() error {
		if err := startWith(row{1, "a", 10}); err != nil {
			return err
		}
		changedItsMind := errors.New("changed its mind")
		_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			if _, err := txn.Update(ctx, spanner.NewStatement("UPDATE accounts SET balance = 0 WHERE id = 1")); err != nil {
				return err
			}
			if err := txn.BufferWrite([]*spanner.Mutation{spanner.Insert("accounts", []string{"id"}, row{2})}); err != nil {
				return err
			}
			return changedItsMind
		})
		if !errors.Is(err, changedItsMind) {
			return fmt.Errorf("it ended with %v", err)
		}
		// Nothing is locked either: this would wait for it.
		start := time.Now()
		err = apply(spanner.Update("accounts", []string{"id", "owner"}, row{1, "b"}))
		if took := time.Since(start); took > 5*time.Second {
			return fmt.Errorf("a lock was left for %v", took)
		}
		return errors.Join(err, holds(map[int64]int64{1: 10}))
	})
	run("commit timestamps in column and response", func() error {
		columns := append(slices.Clone(entries), "written")
		applied, err := client.Apply(ctx, []*spanner.Mutation{
			spanner.Insert("entries", columns, row{1, 1, "m", spanner.CommitTimestamp}),
		})
		if err != nil {
			return err
		}
		byDml, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			_, err := txn.Update(ctx, spanner.NewStatement(
				"INSERT INTO entries (account, number, note, written) VALUES (1, 2, 'd', PENDING_COMMIT_TIMESTAMP())"))
			return err
		})
		if err != nil {
			return err
		}
		var written []time.Time
		err = client.Single().Read(ctx, "entries", spanner.AllKeys(), []string{"written"}).Do(func(row *spanner.Row) error {
			var at time.Time
			defer func() { written = append(written, at) }()
			return row.Column(0, &at)
		})
		if err != nil {
			return err
		}
		if !written[0].Equal(applied) || !written[1].Equal(byDml) || !applied.Before(byDml) {
			return fmt.Errorf("%v in the column, %v and %v in the responses", written, applied, byDml)
		}
		return nil
	})
	run("every type comes back as it went", func() error {
		type types struct {
			K int64               `spanner:"k"`
			B spanner.NullBool    `spanner:"b"`
			F spanner.NullFloat64 `spanner:"f"`
			S spanner.NullString  `spanner:"s"`
			Y []byte              `spanner:"y"`
			D spanner.NullDate    `spanner:"d"`
			T spanner.NullTime    `spanner:"t"`
			N spanner.NullNumeric `spanner:"n"`
			J spanner.NullJSON    `spanner:"j"`
			A []spanner.NullInt64 `spanner:"a"`
			W []string            `spanner:"w"`
		}
		at := time.Date(2026, 2, 3, 4, 5, 6, 789012345, time.UTC)
		day := civil.Date{Year: 1969, Month: 12, Day: 31}
		number, _ := new(big.Rat).SetString("-12345678901234567890.123456789")
		full := types{
			1, spanner.NullBool{Bool: true, Valid: true}, spanner.NullFloat64{Float64: 1.5, Valid: true},
			spanner.NullString{StringVal: "ä\n", Valid: true}, []byte{0, 255},
			spanner.NullDate{Date: day, Valid: true}, spanner.NullTime{Time: at, Valid: true},
			spanner.NullNumeric{Numeric: *number, Valid: true},
			spanner.NullJSON{Value: map[string]any{"a": []any{1.0, nil}}, Valid: true},
			[]spanner.NullInt64{{Int64: 1, Valid: true}, {}}, []string{"x"},
		}
		empty := types{K: 2}
		if err := apply(must(spanner.InsertStruct("types", full)), must(spanner.InsertStruct("types", empty))); err != nil {
			return err
		}
		var found []types
		keep := func(row *spanner.Row) error {
			var one types
			defer func() { found = append(found, one) }()
			return row.ToStruct(&one)
		}
		columns := []string{"k", "b", "f", "s", "y", "d", "t", "n", "j", "a", "w"}
		err := client.Single().Read(ctx, "types", spanner.AllKeys(), columns).Do(keep)
		asked := spanner.Statement{
			SQL:    "SELECT * FROM types WHERE s = @s AND y = @y AND t = @t AND f = @f AND d = @d AND b = @b AND n = @n",
			Params: map[string]any{"s": "ä\n", "y": []byte{0, 255}, "t": at, "f": 1.5, "d": day, "b": true, "n": number},
		}
		return errors.Join(err, client.Single().Query(ctx, asked).Do(keep), same(found, []types{full, empty, full}))
	})
}

func errorsOfData() {
	insert := func(table string, columns []string, values ...any) error {
		return apply(spanner.Insert(table, columns, values))
	}
	read := func(table string, keys spanner.KeySet, column string) error {
		return client.Single().Read(ctx, table, keys, []string{column}).Do(func(*spanner.Row) error { return nil })
	}
	if err := startWith(row{1, "a", 10}); err != nil {
		panic(err)
	}
	refused("inserting a row twice", codes.AlreadyExists, func() error { return insert("accounts", []string{"id"}, 1) })
	refused("updating a missing row", codes.NotFound, func() error {
		return apply(spanner.Update("accounts", []string{"id"}, row{9}))
	})
	refused("a mutation of an unknown table", codes.NotFound, func() error { return insert("nothing", []string{"id"}, 1) })
	refused("a mutation of an unknown column", codes.NotFound, func() error {
		return insert("accounts", []string{"id", "nothing"}, 9, 1)
	})
	refused("a read of an unknown table", codes.NotFound, func() error { return read("nothing", spanner.AllKeys(), "id") })
	refused("SQL on an unknown table", codes.InvalidArgument, func() error { return query("SELECT id FROM nothing") })
	refused("SQL on an unknown column", codes.InvalidArgument, func() error { return query("SELECT nothing FROM accounts") })
	refused("a syntax error", codes.InvalidArgument, func() error { return query("SELECT FROM WHERE") })
	refused("a missing parameter", codes.InvalidArgument, func() error {
		return query("SELECT id FROM accounts WHERE id = @id")
	})
	refused("NULL in a NOT NULL column", codes.FailedPrecondition, func() error {
		return insert("entries", entries, 1, 9, spanner.NullString{})
	})
	refused("an omitted NOT NULL column", codes.FailedPrecondition, func() error {
		return insert("entries", entries[:2], 1, 9)
	})
	refused("too long a value", codes.FailedPrecondition, func() error {
		return insert("accounts", []string{"id", "owner"}, 9, strings.Repeat("x", 11))
	})
	refused("a value of another type", codes.FailedPrecondition, func() error {
		return insert("accounts", idBalance, 9, "much")
	})
	withColumn := func(column string) []string { return append(slices.Clone(entries), column) }
	refused("a commit timestamp in the future", codes.FailedPrecondition, func() error {
		return insert("entries", withColumn("written"), 1, 9, "x", time.Now().Add(time.Hour))
	})
	refused("a commit timestamp without the option", codes.FailedPrecondition, func() error {
		return insert("entries", withColumn("plain"), 1, 9, "x", spanner.CommitTimestamp)
	})
	refused("reading a pending commit timestamp", codes.InvalidArgument, func() error {
		_, err := client.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
			_, err := txn.Update(ctx, spanner.NewStatement("UPDATE entries SET written = PENDING_COMMIT_TIMESTAMP() WHERE account = 1"))
			if err != nil {
				return err
			}
			return txn.Query(ctx, spanner.NewStatement("SELECT written FROM entries")).Do(func(*spanner.Row) error { return nil })
		})
		return err
	})
	refused("fewer values than columns", codes.InvalidArgument, func() error { return insert("accounts", accounts, 9, "x") })
	refused("too few key parts", codes.FailedPrecondition, func() error { return read("entries", spanner.Key{1}, "note") })
	refused("updating a row that the transaction deleted", codes.InvalidArgument, func() error {
		return apply(spanner.Delete("accounts", spanner.Key{1}), spanner.Update("accounts", idBalance, row{1, 1}))
	})
	refused("an unknown database", codes.NotFound, func() error {
		nothing, err := spanner.NewClient(ctx, instanceName+"/databases/nothing")
		if err != nil {
			return err
		}
		defer nothing.Close()
		_, err = nothing.Single().ReadRow(ctx, "accounts", spanner.Key{1}, idBalance)
		return err
	})
	refused("DML in a single-use transaction", codes.InvalidArgument, func() error {
		return query("UPDATE accounts SET balance = 1 WHERE id = 1")
	})
	refused("too stale a read", codes.FailedPrecondition, func() error {
		_, err := balances(client.Single().WithTimestampBound(spanner.ExactStaleness(2 * time.Hour)))
		return err
	})
}

// errorsOfTransactions asks for what the client refuses by itself through its generated half, which sends it.
func errorsOfTransactions() {
	api := must(apiv1.NewClient(ctx, emulator()...))
	defer api.Close()
	session := must(api.CreateSession(ctx, &spannerpb.CreateSessionRequest{Database: databaseName})).Name
	readWrite := &spannerpb.TransactionOptions{Mode: &spannerpb.TransactionOptions_ReadWrite_{ReadWrite: &spannerpb.TransactionOptions_ReadWrite{}}}
	readOnly := &spannerpb.TransactionOptions{Mode: &spannerpb.TransactionOptions_ReadOnly_{ReadOnly: &spannerpb.TransactionOptions_ReadOnly{}}}
	begin := func(session string, options *spannerpb.TransactionOptions) ([]byte, error) {
		begun, err := api.BeginTransaction(ctx, &spannerpb.BeginTransactionRequest{Session: session, Options: options})
		return begun.GetId(), err
	}
	commit := func(id []byte) error {
		_, err := api.Commit(ctx, &spannerpb.CommitRequest{
			Session: session, Transaction: &spannerpb.CommitRequest_TransactionId{TransactionId: id},
		})
		return err
	}
	rollback := func(id []byte) error {
		return api.Rollback(ctx, &spannerpb.RollbackRequest{Session: session, TransactionId: id})
	}
	selector := func(id []byte) *spannerpb.TransactionSelector {
		return &spannerpb.TransactionSelector{Selector: &spannerpb.TransactionSelector_Id{Id: id}}
	}
	execute := func(id []byte, sql string, seqno int64) error {
		_, err := api.ExecuteSql(ctx, &spannerpb.ExecuteSqlRequest{Session: session, Transaction: selector(id), Sql: sql, Seqno: seqno})
		return err
	}
	set := func(id []byte, balance int, seqno int64) error {
		return execute(id, fmt.Sprintf("UPDATE accounts SET balance = %d WHERE id = 1", balance), seqno)
	}
	fresh := func() []byte { return must(begin(session, readWrite)) }
	after := func(first, second error) error {
		if first != nil {
			panic(first)
		}
		return second
	}

	refused("an unknown session", codes.NotFound, func() error {
		_, err := begin(session+"0", readWrite)
		return err
	})
	refused("an unknown transaction", codes.NotFound, func() error { return commit(append(fresh(), "777777"...)) })
	refused("a commit after a rollback", codes.FailedPrecondition, func() error {
		id := fresh()
		return after(rollback(id), commit(id))
	})
	refused("a rollback after a commit", codes.FailedPrecondition, func() error {
		id := fresh()
		return after(commit(id), rollback(id))
	})
	refused("a read after the end", codes.FailedPrecondition, func() error {
		id := fresh()
		return after(commit(id), execute(id, "SELECT id FROM accounts", 0))
	})
	refused("a commit of a read-only transaction", codes.FailedPrecondition, func() error {
		return commit(must(begin(session, readOnly)))
	})
	refused("a sequence number that goes back", codes.InvalidArgument, func() error {
		id := fresh()
		return after(set(id, 1, 2), set(id, 2, 1))
	})
	refused("a sequence number for another statement", codes.InvalidArgument, func() error {
		id := fresh()
		return after(set(id, 1, 1), set(id, 2, 1))
	})
	refused("an empty batch", codes.InvalidArgument, func() error {
		_, err := api.ExecuteBatchDml(ctx, &spannerpb.ExecuteBatchDmlRequest{Session: session, Transaction: selector(fresh()), Seqno: 1})
		return err
	})
}

func errorsOfAdministration() {
	refused("an instance that is there already", codes.AlreadyExists, createInstance)
	refused("a database that is there already", codes.AlreadyExists, func() error { return createDatabase("cases", nil) })
	refused("a table that is there already", codes.FailedPrecondition, func() error {
		return updateDdl("CREATE TABLE accounts (id INT64) PRIMARY KEY (id)")
	})
	refused("a missing instance", codes.NotFound, func() error {
		_, err := instances.GetInstance(ctx, &instancepb.GetInstanceRequest{Name: project + "/instances/nothing"})
		return err
	})
}

// emulator is how the generated clients connect; the handwritten one looks into the environment by itself.
func emulator() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(os.Getenv("SPANNER_EMULATOR_HOST")),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithoutAuthentication(),
	}
}

func main() {
	instances = must(instance.NewInstanceAdminClient(ctx))
	databases = must(database.NewDatabaseAdminClient(ctx))
	setUp()
	client = must(spanner.NewClient(ctx, databaseName))
	writes()
	reads()
	transactions()
	errorsOfData()
	errorsOfTransactions()
	errorsOfAdministration()
	client.Close()
	if failed {
		os.Exit(1)
	}
}
