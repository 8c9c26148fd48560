"""Google's Python client on the embedded Spanner: the cases of ../cases.txt, each printed by name."""

import base64
import datetime
import json
import os
import sys
import threading
import time
import traceback
import urllib.request
from decimal import Decimal

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import spanner
from google.cloud.spanner_v1 import (
    CommitRequest,
    ExecuteBatchDmlRequest,
    ExecuteSqlRequest,
    KeyRange,
    JsonObject,
    KeySet,
    TransactionOptions,
    TransactionSelector,
    param_types,
)

DDL = [
    "CREATE TABLE accounts (id INT64 NOT NULL, owner STRING(10), balance INT64) PRIMARY KEY (id)",
    """CREATE TABLE entries (
         account INT64 NOT NULL,
         number INT64 NOT NULL,
         note STRING(MAX) NOT NULL,
         written TIMESTAMP OPTIONS (allow_commit_timestamp = true),
         plain TIMESTAMP
       ) PRIMARY KEY (account, number)""",
    """CREATE TABLE types (
         k INT64 NOT NULL, b BOOL, f FLOAT64, s STRING(MAX), y BYTES(MAX), d DATE, t TIMESTAMP,
         n NUMERIC, j JSON, a ARRAY<INT64>, w ARRAY<STRING(MAX)>
       ) PRIMARY KEY (k)""",
]
ACCOUNTS = ["id", "owner", "balance"]
ENTRIES = ["account", "number", "note"]
ALL = KeySet(all_=True)
INVALID_ARGUMENT = 3

client = spanner.Client(project="python", credentials=AnonymousCredentials())
instance = client.instance("clients", "projects/python/instanceConfigs/emulator-config")
database = instance.database("cases", ddl_statements=DDL)
failed = []


def case(name):
    """Runs the function below at once, and says how it went."""

    def run(story):
        try:
            story()
            print(f"ok: {name}", flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            print(f"FAILED: {name}", flush=True)

    return run


def refused(name, expected):
    """A case that is an error of this class."""

    def run(story):
        @case(f"error: {name} is {expected.grpc_status_code.name}")
        def _():
            try:
                story()
            except expected as error:
                assert type(error) is expected, repr(error)
            else:
                raise AssertionError("it was accepted")

    return run


def balances(reader=None):
    """The balance of each account, by its id."""
    if reader is not None:
        return dict(reader.read("accounts", ["id", "balance"], ALL))
    with database.snapshot() as snapshot:
        return dict(snapshot.read("accounts", ["id", "balance"], ALL))


def start_with(rows):
    """Leaves these accounts and no others."""
    with database.batch() as batch:
        batch.delete("accounts", ALL)
        batch.insert("accounts", ACCOUNTS, rows)


def fault(**fields):
    """Makes the server fail on purpose; gives what counts how often it did."""
    control = os.environ["SPANNER_EMULATOR_CONTROL"]
    request = urllib.request.Request(f"{control}/faults", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    number = json.load(urllib.request.urlopen(request))["id"]
    return lambda: json.load(urllib.request.urlopen(f"{control}/faults/{number}"))["hits"]


@case("an instance and a database are created")
def _():
    assert "emulator-config" in [config.name.split("/")[-1] for config in client.list_instance_configs()]
    instance.create().result(timeout=60)
    assert instance.exists()
    assert "clients" in [found.name.split("/")[-1] for found in client.list_instances()]
    database.create().result(timeout=60)
    assert database.exists()
    assert [found.name for found in instance.list_databases()] == [database.name]
    other = instance.database("other")
    other.create().result(timeout=60)
    other.drop()
    assert not other.exists()


@case("the schema is changed and reported")
def _():
    database.update_ddl(["ALTER TABLE accounts ADD COLUMN note STRING(MAX) DEFAULT ('none')"]).result(timeout=60)
    database.reload()
    assert len(database.ddl_statements) == 3
    assert "note STRING(MAX) DEFAULT ('none')" in database.ddl_statements[0], database.ddl_statements
    # What is reported makes the same database again.
    copy = instance.database("copy", ddl_statements=database.ddl_statements)
    copy.create().result(timeout=60)
    copy.reload()
    assert copy.ddl_statements == database.ddl_statements
    copy.drop()


@case("mutations of each kind")
def _():
    start_with([(1, "a", 10), (2, "b", 20), (3, "c", 30), (4, "d", 40)])
    with database.batch() as batch:
        batch.insert("accounts", ACCOUNTS, [(5, "e", 50)])
        batch.update("accounts", ["id", "balance"], [(1, 11)])
        batch.insert_or_update("accounts", ["id", "balance"], [(2, 22), (6, 60)])
        batch.replace("accounts", ["id", "balance"], [(3, 33)])
        batch.delete("accounts", KeySet(keys=[[4]]))
    with database.snapshot() as snapshot:
        rows = list(snapshot.read("accounts", ACCOUNTS, ALL))
    assert rows == [[1, "a", 11], [2, "b", 22], [3, None, 33], [5, "e", 50], [6, None, 60]], rows


@case("DML writes and counts its rows")
def _():
    start_with([(1, "a", 10), (2, "b", 20)])

    def work(transaction):
        inserted = transaction.execute_update(
            "INSERT INTO accounts (id, owner, balance) VALUES (@id, @owner, @balance)",
            params={"id": 3, "owner": "c", "balance": 30},
            param_types={"id": param_types.INT64, "owner": param_types.STRING, "balance": param_types.INT64},
        )
        updated = transaction.execute_update("UPDATE accounts SET balance = balance + 1 WHERE id > 1")
        # It sees what it has written.
        seen = list(transaction.execute_sql("SELECT balance FROM accounts WHERE id = 3"))
        deleted = transaction.execute_update("DELETE FROM accounts WHERE id = 1")
        return inserted, updated, seen, deleted

    assert database.run_in_transaction(work) == (1, 2, [[31]], 1)
    assert balances() == {2: 21, 3: 31}


@case("DML upserts, returns rows and takes a list")
def _():
    start_with([(1, "a", 10), (2, "b", 20)])

    def work(transaction):
        upserted = transaction.execute_update(
            "INSERT OR UPDATE INTO accounts (id, owner, balance) VALUES (2, 'c', 30), (3, 'c', 40)"
        )
        returned = transaction.execute_sql(
            "UPDATE accounts SET balance = balance + 1 WHERE id IN UNNEST(@ids) THEN RETURN id, balance",
            params={"ids": [1, 3]},
            param_types={"ids": param_types.Array(param_types.INT64)},
        )
        return upserted, sorted(returned)

    assert database.run_in_transaction(work) == (2, [[1, 11], [3, 41]])
    with database.snapshot() as snapshot:
        sums = list(snapshot.execute_sql("SELECT MIN(id), MAX(id), SUM(balance) FROM accounts WHERE owner LIKE 'c%'"))
    assert sums == [[2, 3, 71]], sums


@case("batch DML stops at the error in the middle")
def _():
    start_with([(1, "a", 10)])

    def batch(in_the_middle):
        def work(transaction):
            set_to = "UPDATE accounts SET balance = {} WHERE id = 1"
            statements = [set_to.format(11), in_the_middle, set_to.format(12)]
            status, counts = transaction.batch_update(statements)
            return status.code, list(counts)

        return database.run_in_transaction(work)

    assert batch("UPDATE nothing SET x = 1 WHERE true") == (INVALID_ARGUMENT, [1])
    assert balances() == {1: 11}
    # A violated constraint spoils the whole transaction, as in Cloud Spanner.
    start_with([(1, "a", 10)])
    try:
        batch("INSERT INTO accounts (id) VALUES (1)")
    except exceptions.AlreadyExists:
        pass
    else:
        raise AssertionError("it was committed")
    assert balances() == {1: 10}


@case("reads by key, by range and of all")
def _():
    start_with([(id, "x", id * 10) for id in range(1, 7)])

    def ids(keys, **options):
        with database.snapshot() as snapshot:
            return [id for (id,) in snapshot.read("accounts", ["id"], keys, **options)]

    assert ids(KeySet(keys=[[5], [2], [9]])) == [2, 5]
    assert ids(KeySet(ranges=[KeyRange(start_closed=[2], end_open=[4])])) == [2, 3]
    assert ids(KeySet(ranges=[KeyRange(start_open=[2], end_closed=[4])])) == [3, 4]
    assert ids(ALL) == [1, 2, 3, 4, 5, 6]
    assert ids(ALL, limit=2) == [1, 2]
    with database.snapshot() as snapshot:
        rows = snapshot.execute_sql("SELECT id, owner FROM accounts WHERE balance >= 50 ORDER BY id DESC")
        assert list(rows) == [[6, "x"], [5, "x"]]


@case("strong, stale and exact-timestamp reads")
def _():
    start_with([(1, "a", 10)])

    def write(transaction):
        transaction.update("accounts", ["id", "balance"], [(1, 20)])

    with database.batch() as batch:
        batch.update("accounts", ["id", "balance"], [(1, 15)])
    before = batch.committed
    time.sleep(0.2)
    database.run_in_transaction(write)

    def balance(**bound):
        with database.snapshot(**bound) as snapshot:
            return balances(snapshot)[1]

    second = datetime.timedelta(seconds=1)
    assert balance() == 20
    assert balance(read_timestamp=before) == 15
    assert balance(exact_staleness=0.1 * second) in (15, 20)
    assert balance(max_staleness=3600 * second) in (15, 20)
    assert balance(min_read_timestamp=before) in (15, 20)
    with database.snapshot(exact_staleness=0 * second) as snapshot:
        assert balances(snapshot)[1] == 20


@case("a read-only transaction sees one snapshot while others write")
def _():
    start_with([(1, "a", 10), (2, "b", 20)])
    with database.snapshot(multi_use=True) as snapshot:
        first = balances(snapshot)
        with database.batch() as batch:
            batch.update("accounts", ["id", "balance"], [(1, 99)])
            batch.delete("accounts", KeySet(keys=[[2]]))
        again = dict(snapshot.execute_sql("SELECT id, balance FROM accounts"))
        assert first == again == {1: 10, 2: 20}
    assert balances() == {1: 99}


@case("8 workers that contend lose no increment")
def _():
    start_with([(1, "a", 0)])
    broken = []

    def increment(transaction):
        ((balance,),) = transaction.read("accounts", ["balance"], KeySet(keys=[[1]]))
        transaction.update("accounts", ["id", "balance"], [(1, balance + 1)])

    def work():
        try:
            for _ in range(10):
                database.run_in_transaction(increment, timeout_secs=120)
        except Exception as error:
            broken.append(error)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not broken, broken
    assert balances() == {1: 80}


@case("an abort is retried by the client itself")
def _():
    start_with([(1, "a", 10)])
    attempts = []
    hits = fault(rpc="Commit", table="accounts", times=2, effect="abort")

    def work(transaction):
        attempts.append(1)
        ((balance,),) = transaction.read("accounts", ["balance"], KeySet(keys=[[1]]))
        transaction.update("accounts", ["id", "balance"], [(1, balance + 1)])

    database.run_in_transaction(work)
    assert (len(attempts), hits()) == (3, 2), (attempts, hits())
    assert balances() == {1: 11}


@case("a rolled-back transaction leaves nothing")
def _():
    start_with([(1, "a", 10)])

    def work(transaction):
        transaction.execute_update("UPDATE accounts SET balance = 0 WHERE id = 1")
        transaction.insert("accounts", ["id"], [(2,)])
        raise ValueError("changed its mind")

    try:
        database.run_in_transaction(work)
    except ValueError:
        pass
    # Nothing is locked either: this would wait for it.
    start = time.monotonic()
    with database.batch() as batch:
        batch.update("accounts", ["id", "owner"], [(1, "b")])
    assert time.monotonic() - start < 5
    assert balances() == {1: 10}


@case("commit timestamps in column and response")
def _():
    with database.batch() as batch:
        batch.insert("entries", ENTRIES + ["written"], [(1, 1, "m", spanner.COMMIT_TIMESTAMP)])

    def work(transaction):
        transaction.execute_update(
            "INSERT INTO entries (account, number, note, written) "
            "VALUES (1, 2, 'd', PENDING_COMMIT_TIMESTAMP())"
        )
        return transaction

    by_dml = database.run_in_transaction(work).committed
    with database.snapshot() as snapshot:
        written = [at for (at,) in snapshot.read("entries", ["written"], ALL)]
    assert written == [batch.committed, by_dml], (written, batch.committed, by_dml)
    assert batch.committed < by_dml


@case("every type comes back as it went")
def _():
    # The client leaves base64 to its user.
    columns = ["k", "b", "f", "s", "y", "d", "t", "n", "j", "a", "w"]
    at = datetime.datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=datetime.timezone.utc)
    row = [1, True, 1.5, "ä\n", base64.b64encode(b"\x00\xff"), datetime.date(1969, 12, 31), at]
    row += [Decimal("-12345678901234567890.123456789"), JsonObject({"a": [1, None]}), [1, None], ["x"]]
    nulls = [2] + [None] * 10
    with database.batch() as batch:
        batch.insert("types", columns, [row, nulls])
    with database.snapshot(multi_use=True) as snapshot:
        read = [list(row) for row in snapshot.read("types", columns, ALL)]
        asked = [list(row) for row in snapshot.execute_sql("SELECT * FROM types ORDER BY k")]
        found = snapshot.execute_sql(
            "SELECT k FROM types WHERE s = @s AND t = @t AND f = @f AND d = @d AND b = @b",
            params={"s": row[3], "t": at, "f": 1.5, "d": row[5], "b": True},
            param_types={
                "s": param_types.STRING, "t": param_types.TIMESTAMP, "f": param_types.FLOAT64,
                "d": param_types.DATE, "b": param_types.BOOL,
            },
        )
        assert list(found) == [[1]]
    assert read == asked == [row, nulls], (read, asked)


def insert(table, columns, *rows):
    with database.batch() as batch:
        batch.insert(table, columns, rows)


def query(sql, **options):
    with database.snapshot() as snapshot:
        return list(snapshot.execute_sql(sql, **options))


def read(table, columns, keys=ALL, **bound):
    with database.snapshot(**bound) as snapshot:
        return list(snapshot.read(table, columns, keys))


start_with([(1, "a", 10)])
COMMIT_TIMESTAMP = spanner.COMMIT_TIMESTAMP


@refused("inserting a row twice", exceptions.AlreadyExists)
def _():
    insert("accounts", ["id"], (1,))


@refused("updating a missing row", exceptions.NotFound)
def _():
    with database.batch() as batch:
        batch.update("accounts", ["id"], [(9,)])


@refused("a mutation of an unknown table", exceptions.NotFound)
def _():
    insert("nothing", ["id"], (1,))


@refused("a mutation of an unknown column", exceptions.NotFound)
def _():
    insert("accounts", ["id", "nothing"], (9, 1))


@refused("a read of an unknown table", exceptions.NotFound)
def _():
    read("nothing", ["id"])


@refused("SQL on an unknown table", exceptions.InvalidArgument)
def _():
    query("SELECT id FROM nothing")


@refused("SQL on an unknown column", exceptions.InvalidArgument)
def _():
    query("SELECT nothing FROM accounts")


@refused("a syntax error", exceptions.InvalidArgument)
def _():
    query("SELECT FROM WHERE")


@refused("a missing parameter", exceptions.InvalidArgument)
def _():
    query("SELECT id FROM accounts WHERE id = @id")


@refused("NULL in a NOT NULL column", exceptions.FailedPrecondition)
def _():
    insert("entries", ENTRIES, (1, 9, None))


@refused("an omitted NOT NULL column", exceptions.FailedPrecondition)
def _():
    insert("entries", ["account", "number"], (1, 9))


@refused("too long a value", exceptions.FailedPrecondition)
def _():
    insert("accounts", ["id", "owner"], (9, "x" * 11))


@refused("a value of another type", exceptions.FailedPrecondition)
def _():
    insert("accounts", ["id", "balance"], (9, "much"))


@refused("a commit timestamp in the future", exceptions.FailedPrecondition)
def _():
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    insert("entries", ENTRIES + ["written"], (1, 9, "x", later))


@refused("a commit timestamp without the option", exceptions.FailedPrecondition)
def _():
    insert("entries", ENTRIES + ["plain"], (1, 9, "x", COMMIT_TIMESTAMP))


@refused("reading a pending commit timestamp", exceptions.InvalidArgument)
def _():
    def work(transaction):
        transaction.execute_update(
            "UPDATE entries SET written = PENDING_COMMIT_TIMESTAMP() WHERE account = 1"
        )
        list(transaction.execute_sql("SELECT written FROM entries"))

    database.run_in_transaction(work)


@refused("fewer values than columns", exceptions.InvalidArgument)
def _():
    insert("accounts", ACCOUNTS, (9, "x"))


@refused("too few key parts", exceptions.FailedPrecondition)
def _():
    read("entries", ["note"], KeySet(keys=[[1]]))


@refused("updating a row that the transaction deleted", exceptions.InvalidArgument)
def _():
    with database.batch() as batch:
        batch.delete("accounts", KeySet(keys=[[1]]))
        batch.update("accounts", ["id", "balance"], [(1, 1)])


@refused("an unknown database", exceptions.NotFound)
def _():
    with instance.database("nothing").snapshot() as snapshot:
        list(snapshot.execute_sql("SELECT 1"))


# What the client refuses by itself is asked for through its generated half, which sends it.
api = database.spanner_api
session = api.create_session(database=database.name).name
READ_WRITE = TransactionOptions(read_write=TransactionOptions.ReadWrite())
READ_ONLY = TransactionOptions(read_only=TransactionOptions.ReadOnly(strong=True))


def begin(options=READ_WRITE):
    return api.begin_transaction(session=session, options=options).id


def execute(id, sql, seqno=1):
    selector = TransactionSelector(id=id)
    request = ExecuteSqlRequest(session=session, transaction=selector, sql=sql, seqno=seqno)
    return api.execute_sql(request=request)


def commit(id):
    return api.commit(request=CommitRequest(session=session, transaction_id=id))


@refused("an unknown session", exceptions.NotFound)
def _():
    api.begin_transaction(session=session + "0", options=READ_WRITE)


@refused("an unknown transaction", exceptions.NotFound)
def _():
    commit(begin() + b"777777")


@refused("a commit after a rollback", exceptions.FailedPrecondition)
def _():
    id = begin()
    api.rollback(session=session, transaction_id=id)
    commit(id)


@refused("a rollback after a commit", exceptions.FailedPrecondition)
def _():
    id = begin()
    commit(id)
    api.rollback(session=session, transaction_id=id)


@refused("a read after the end", exceptions.FailedPrecondition)
def _():
    id = begin()
    commit(id)
    execute(id, "SELECT id FROM accounts")


@refused("a commit of a read-only transaction", exceptions.FailedPrecondition)
def _():
    commit(begin(READ_ONLY))


@refused("DML in a single-use transaction", exceptions.InvalidArgument)
def _():
    query("UPDATE accounts SET balance = 1 WHERE id = 1")


@refused("a sequence number that goes back", exceptions.InvalidArgument)
def _():
    id = begin()
    execute(id, "UPDATE accounts SET balance = 1 WHERE id = 1", seqno=2)
    execute(id, "UPDATE accounts SET balance = 2 WHERE id = 1", seqno=1)


@refused("a sequence number for another statement", exceptions.InvalidArgument)
def _():
    id = begin()
    execute(id, "UPDATE accounts SET balance = 1 WHERE id = 1")
    execute(id, "UPDATE accounts SET balance = 2 WHERE id = 1")


@refused("too stale a read", exceptions.FailedPrecondition)
def _():
    read("accounts", ["id"], exact_staleness=datetime.timedelta(hours=2))


@refused("an empty batch", exceptions.InvalidArgument)
def _():
    selector = TransactionSelector(id=begin())
    api.execute_batch_dml(
        request=ExecuteBatchDmlRequest(session=session, transaction=selector, statements=[], seqno=1)
    )


@refused("an instance that is there already", exceptions.AlreadyExists)
def _():
    instance.create().result(timeout=60)


@refused("a database that is there already", exceptions.AlreadyExists)
def _():
    instance.database("cases").create().result(timeout=60)


@refused("a table that is there already", exceptions.FailedPrecondition)
def _():
    database.update_ddl(["CREATE TABLE accounts (id INT64) PRIMARY KEY (id)"]).result(timeout=60)


@refused("a missing instance", exceptions.NotFound)
def _():
    client.instance("nothing").reload()


sys.exit(1 if failed else 0)
