// Google's Node client on the embedded Spanner: the cases of ../cases.txt, each printed by name.

import assert from 'node:assert/strict';
import {MutationSet, Spanner, v1} from '@google-cloud/spanner';
import {GrpcClient} from 'google-gax';

const DDL = [
  'CREATE TABLE accounts (id INT64 NOT NULL, owner STRING(10), balance INT64) PRIMARY KEY (id)',
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
];
const DATABASE = 'projects/node/instances/clients/databases/cases';
const CODES = {INVALID_ARGUMENT: 3, NOT_FOUND: 5, ALREADY_EXISTS: 6, FAILED_PRECONDITION: 9};

const spanner = new Spanner({projectId: 'node'});
const instance = spanner.instance('clients');
// Made once it is there: a handle asks for a session at once.
let database;
let failed = false;

/** Runs a case, and says how it went. */
async function run(name, story) {
  try {
    await story();
    console.log(`ok: ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAILED: ${name}`);
    console.error(`${name}:`, error);
  }
}

/** Runs a case that is an error of this code. */
function refused(name, code, story) {
  return run(`error: ${name} is ${code}`, () =>
    assert.rejects(async () => story(), error => {
      assert.equal(error.code, CODES[code], error);
      return true;
    }),
  );
}

/** The balance of each account, by its id. */
const balances = rows => Object.fromEntries(rows.map(row => row.toJSON()).map(({id, balance}) => [id, balance]));
const ALL = {columns: ['id', 'balance'], keySet: {all: true}};
const all = columns => ({columns, keySet: {all: true}});
const readAll = async (from = database) => balances((await read(from, 'accounts', ALL))[0]);

/** Reads from a transaction, or by itself. */
function read(from, table, request) {
  return from === database ? database.table(table).read(request) : from.read(table, request);
}

/** Buffers mutations in a transaction of its own, and commits it. */
async function apply(buffer) {
  const mutations = new MutationSet();
  buffer(mutations);
  const [response] = await database.writeAtLeastOnce(mutations);
  return Spanner.timestamp(response.commitTimestamp);
}

/** Leaves these accounts and no others. */
async function startWith(...rows) {
  await transact(async transaction => {
    await transaction.runUpdate('DELETE FROM accounts WHERE true');
    transaction.insert('accounts', rows.map(([id, owner, balance]) => ({id, owner, balance})));
  });
}

/** Runs a transaction, commits it, and gives what the work gave. */
function transact(work) {
  return database.runTransactionAsync(async transaction => {
    const result = await work(transaction);
    await transaction.commit();
    return result;
  });
}

/** Asks the emulator's control service. */
async function control(path, body) {
  const options = body ? {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)} : {};
  const reply = await fetch(process.env.SPANNER_EMULATOR_CONTROL + path, options);
  return reply.json();
}

await run('an instance and a database are created', async () => {
  const [configs] = await spanner.getInstanceConfigs();
  assert.deepEqual(configs.map(config => config.name), ['projects/node/instanceConfigs/emulator-config']);
  const [, creating] = await spanner.createInstance('clients', {config: 'emulator-config', nodes: 1});
  await creating.promise();
  assert.deepEqual(await instance.exists(), [true]);
  const [instances] = await spanner.getInstances();
  assert.deepEqual(instances.map(found => found.id), ['clients']);
  const [made, making] = await instance.createDatabase('cases', {schema: DDL});
  await making.promise();
  database = made;
  const [other, makingOther] = await instance.createDatabase('other');
  await makingOther.promise();
  await other.delete();
  const [databases] = await instance.getDatabases();
  assert.deepEqual(databases.map(found => found.formattedName_), [DATABASE]);
  assert.deepEqual(await database.exists(), [true]);
});

await run('the schema is changed and reported', async () => {
  const [changing] = await database.updateSchema(
    "ALTER TABLE accounts ADD COLUMN note STRING(MAX) DEFAULT ('none')",
  );
  await changing.promise();
  const [schema] = await database.getSchema();
  assert.equal(schema.length, 3);
  assert.match(schema[0], /note STRING\(MAX\) DEFAULT \('none'\)/);
  // What is reported makes the same database again.
  const [copy, copying] = await instance.createDatabase('copy', {schema});
  await copying.promise();
  assert.deepEqual((await copy.getSchema())[0], schema);
  await copy.delete();
});

await run('mutations of each kind', async () => {
  await startWith([1, 'a', 10], [2, 'b', 20], [3, 'c', 30], [4, 'd', 40]);
  await apply(mutations => {
    mutations.insert('accounts', {id: 5, owner: 'e', balance: 50});
    mutations.update('accounts', {id: 1, balance: 11});
    mutations.upsert('accounts', [{id: 2, balance: 22}, {id: 6, balance: 60}]);
    mutations.replace('accounts', {id: 3, balance: 33});
    mutations.deleteRows('accounts', [4]);
  });
  const [rows] = await database.table('accounts').read(all(['id', 'owner', 'balance']));
  const found = rows.map(row => Object.values(row.toJSON()));
  assert.deepEqual(found, [[1, 'a', 11], [2, 'b', 22], [3, null, 33], [5, 'e', 50], [6, null, 60]]);
});

await run('DML writes and counts its rows', async () => {
  await startWith([1, 'a', 10], [2, 'b', 20]);
  const found = await transact(async transaction => {
    const [inserted] = await transaction.runUpdate({
      sql: 'INSERT INTO accounts (id, owner, balance) VALUES (@id, @owner, @balance)',
      params: {id: 3, owner: 'c', balance: 30},
    });
    const [updated] = await transaction.runUpdate('UPDATE accounts SET balance = balance + 1 WHERE id > 1');
    // It sees what it has written.
    const [seen] = await transaction.run('SELECT id, balance FROM accounts WHERE id = 3');
    const [deleted] = await transaction.runUpdate('DELETE FROM accounts WHERE id = 1');
    return [inserted, updated, balances(seen), deleted];
  });
  assert.deepEqual(found, [1, 2, {3: 31}, 1]);
  assert.deepEqual(await readAll(), {2: 21, 3: 31});
});

await run('DML upserts, returns rows and takes a list', async () => {
  await startWith([1, 'a', 10], [2, 'b', 20]);
  const [upserted, returned] = await transact(async transaction => {
    const [count] = await transaction.runUpdate(
      "INSERT OR UPDATE INTO accounts (id, owner, balance) VALUES (2, 'c', 30), (3, 'c', 40)",
    );
    const [rows] = await transaction.run({
      sql: 'UPDATE accounts SET balance = balance + 1 WHERE id IN UNNEST(@ids) THEN RETURN id, balance',
      params: {ids: [1, 3]},
      types: {ids: {type: 'array', child: 'int64'}},
    });
    return [count, balances(rows)];
  });
  assert.deepEqual([upserted, returned], [2, {1: 11, 3: 41}]);
  const [[row]] = await database.run(
    "SELECT MIN(id) AS first, MAX(id) AS last, SUM(balance) AS sum FROM accounts WHERE owner LIKE 'c%'",
  );
  assert.deepEqual(row.toJSON(), {first: 2, last: 3, sum: 71});
});

await run('batch DML stops at the error in the middle', async () => {
  const batch = (inTheMiddle, code) =>
    transact(async transaction => {
      const setTo = balance => `UPDATE accounts SET balance = ${balance} WHERE id = 1`;
      await assert.rejects(transaction.batchUpdate([setTo(11), inTheMiddle, setTo(12)]), error => {
        assert.deepEqual([error.code, error.rowCounts], [code, [1]]);
        return true;
      });
    });
  await startWith([1, 'a', 10]);
  await batch('UPDATE nothing SET x = 1 WHERE true', CODES.INVALID_ARGUMENT);
  assert.deepEqual(await readAll(), {1: 11});
  // A violated constraint spoils the whole transaction, as in Cloud Spanner.
  await startWith([1, 'a', 10]);
  const spoiled = batch('INSERT INTO accounts (id) VALUES (1)', CODES.ALREADY_EXISTS);
  await assert.rejects(spoiled, {code: CODES.ALREADY_EXISTS});
  assert.deepEqual(await readAll(), {1: 10});
});

await run('reads by key, by range and of all', async () => {
  await startWith(...[1, 2, 3, 4, 5, 6].map(id => [id, 'x', id * 10]));
  const ids = async request => {
    const [rows] = await database.table('accounts').read({columns: ['id'], ...request});
    return rows.map(row => row.toJSON().id);
  };
  assert.deepEqual(await ids({keys: [[5], [2], [9]]}), [2, 5]);
  assert.deepEqual(await ids({ranges: [{startClosed: [2], endOpen: [4]}]}), [2, 3]);
  assert.deepEqual(await ids({ranges: [{startOpen: [2], endClosed: [4]}]}), [3, 4]);
  assert.deepEqual(await ids({keySet: {all: true}}), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(await ids({keySet: {all: true}, limit: 2}), [1, 2]);
  const [rows] = await database.run('SELECT id, owner FROM accounts WHERE balance >= 50 ORDER BY id DESC');
  assert.deepEqual(rows.map(row => row.toJSON()), [{id: 6, owner: 'x'}, {id: 5, owner: 'x'}]);
});

/** Runs the work on what a read-only transaction sees. */
async function snapshot(bound, work) {
  const [transaction] = await database.getSnapshot(bound);
  try {
    return await work(transaction);
  } finally {
    transaction.end();
  }
}

await run('strong, stale and exact-timestamp reads', async () => {
  await startWith([1, 'a', 10]);
  const before = await apply(mutations => mutations.update('accounts', {id: 1, balance: 15}));
  await apply(mutations => mutations.update('accounts', {id: 1, balance: 20}));
  const balance = bound => snapshot(bound, async seen => (await readAll(seen))[1]);
  assert.equal(await balance({strong: true}), 20);
  assert.equal(await balance({readTimestamp: before}), 15);
  assert.equal(await balance({exactStaleness: 0}), 20);
  // Bounds that leave the choice to the server are for single queries.
  for (const bound of [{maxStaleness: 3_600_000}, {minReadTimestamp: before}]) {
    const [rows] = await database.run('SELECT id, balance FROM accounts', bound);
    assert.ok([15, 20].includes(balances(rows)[1]));
  }
});

await run('a read-only transaction sees one snapshot while others write', async () => {
  await startWith([1, 'a', 10], [2, 'b', 20]);
  await snapshot({}, async seen => {
    const first = await readAll(seen);
    await apply(mutations => {
      mutations.update('accounts', {id: 1, balance: 99});
      mutations.deleteRows('accounts', [2]);
    });
    const [again] = await seen.run('SELECT id, balance FROM accounts');
    assert.deepEqual([first, balances(again)], [{1: 10, 2: 20}, {1: 10, 2: 20}]);
  });
  assert.deepEqual(await readAll(), {1: 99});
});

/** Adds 1 to the balance of account 1. */
async function increment(transaction) {
  const [[row]] = await transaction.read('accounts', {keys: [1], columns: ['balance']});
  transaction.update('accounts', {id: 1, balance: row.toJSON().balance + 1});
}

await run('8 workers that contend lose no increment', async () => {
  await startWith([1, 'a', 0]);
  const work = async () => {
    for (let count = 0; count < 10; count++) await transact(increment);
  };
  await Promise.all(Array.from({length: 8}, work));
  assert.deepEqual(await readAll(), {1: 80});
});

await run('an abort is retried by the client itself', async () => {
  await startWith([1, 'a', 10]);
  const {id} = await control('/faults', {rpc: 'Commit', table: 'accounts', times: 2, effect: 'abort'});
  let attempts = 0;
  await transact(transaction => {
    attempts++;
    return increment(transaction);
  });
  assert.deepEqual([attempts, await control(`/faults/${id}`)], [3, {hits: 2}]);
  assert.deepEqual(await readAll(), {1: 11});
});

await run('a rolled-back transaction leaves nothing', async () => {
  await startWith([1, 'a', 10]);
  await database.runTransactionAsync(async transaction => {
    await transaction.runUpdate('UPDATE accounts SET balance = 0 WHERE id = 1');
    transaction.insert('accounts', {id: 2});
    await transaction.rollback();
  });
  // Nothing is locked either: this would wait for it.
  const start = Date.now();
  await apply(mutations => mutations.update('accounts', {id: 1, owner: 'b'}));
  assert.ok(Date.now() - start < 5_000);
  assert.deepEqual(await readAll(), {1: 10});
});

await run('commit timestamps in column and response', async () => {
  const entry = {account: 1, number: 1, note: 'm', written: Spanner.COMMIT_TIMESTAMP};
  const applied = await apply(mutations => mutations.insert('entries', entry));
  const byDml = await database.runTransactionAsync(async transaction => {
    await transaction.runUpdate(
      "INSERT INTO entries (account, number, note, written) VALUES (1, 2, 'd', PENDING_COMMIT_TIMESTAMP())",
    );
    const [response] = await transaction.commit();
    return Spanner.timestamp(response.commitTimestamp);
  });
  const [rows] = await database.table('entries').read(all(['written']));
  const written = rows.map(row => row.toJSON().written.toISOString());
  assert.deepEqual(written, [applied.toISOString(), byDml.toISOString()]);
  assert.ok(applied < byDml);
});

await run('every type comes back as it went', async () => {
  const full = {
    k: 1, b: true, f: 1.5, s: 'ä\n', y: Buffer.from([0, 255]), d: Spanner.date('1969-12-31'),
    t: Spanner.timestamp('2026-02-03T04:05:06.789012345Z'), n: Spanner.numeric('-12345678901234567890.123456789'),
    j: {a: [1, null]}, a: [1, null], w: ['x'],
  };
  const empty = {k: 2, b: null, f: null, s: null, y: null, d: null, t: null, n: null, j: null, a: null, w: null};
  await apply(mutations => mutations.insert('types', [full, empty]));
  const shown = row => ({...row, d: row.d?.toJSON(), t: row.t?.toISOString(), n: row.n?.toJSON()});
  const [rows] = await database.table('types').read(all(Object.keys(full)));
  assert.deepEqual(rows.map(row => shown(row.toJSON())), [shown(full), shown(empty)]);
  const [found] = await database.run({
    sql: 'SELECT * FROM types WHERE s = @s AND y = @y AND t = @t AND f = @f AND d = @d AND b = @b AND n = @n',
    params: {b: full.b, f: full.f, s: full.s, y: full.y, d: full.d, t: full.t, n: full.n},
    types: {b: 'bool', f: 'float64', s: 'string', y: 'bytes', d: 'date', t: 'timestamp', n: 'numeric'},
  });
  assert.deepEqual(found.map(row => shown(row.toJSON())), [shown(full)]);
});

await startWith([1, 'a', 10]);
const insert = (table, row) => apply(mutations => mutations.insert(table, row));
const entry = {account: 1, number: 9, note: 'x'};

await refused('inserting a row twice', 'ALREADY_EXISTS', () => insert('accounts', {id: 1}));
await refused('updating a missing row', 'NOT_FOUND', () =>
  apply(mutations => mutations.update('accounts', {id: 9})));
await refused('a mutation of an unknown table', 'NOT_FOUND', () => insert('nothing', {id: 1}));
await refused('a mutation of an unknown column', 'NOT_FOUND', () => insert('accounts', {id: 9, nothing: 1}));
await refused('a read of an unknown table', 'NOT_FOUND', () => database.table('nothing').read(all(['id'])));
await refused('SQL on an unknown table', 'INVALID_ARGUMENT', () => database.run('SELECT id FROM nothing'));
await refused('SQL on an unknown column', 'INVALID_ARGUMENT', () => database.run('SELECT nothing FROM accounts'));
await refused('a syntax error', 'INVALID_ARGUMENT', () => database.run('SELECT FROM WHERE'));
await refused('a missing parameter', 'INVALID_ARGUMENT', () =>
  database.run('SELECT id FROM accounts WHERE id = @id'));
await refused('NULL in a NOT NULL column', 'FAILED_PRECONDITION', () => insert('entries', {...entry, note: null}));
await refused('an omitted NOT NULL column', 'FAILED_PRECONDITION', () => insert('entries', {account: 1, number: 9}));
await refused('too long a value', 'FAILED_PRECONDITION', () => insert('accounts', {id: 9, owner: 'x'.repeat(11)}));
await refused('a value of another type', 'FAILED_PRECONDITION', () => insert('accounts', {id: 9, balance: 'much'}));
await refused('a commit timestamp in the future', 'FAILED_PRECONDITION', () =>
  insert('entries', {...entry, written: Spanner.timestamp(new Date(Date.now() + 3_600_000))}));
await refused('a commit timestamp without the option', 'FAILED_PRECONDITION', () =>
  insert('entries', {...entry, plain: Spanner.COMMIT_TIMESTAMP}));
await refused('reading a pending commit timestamp', 'INVALID_ARGUMENT', () =>
  transact(async transaction => {
    await transaction.runUpdate('UPDATE entries SET written = PENDING_COMMIT_TIMESTAMP() WHERE account = 1');
    await transaction.run('SELECT written FROM entries');
  }));
await refused('too few key parts', 'FAILED_PRECONDITION', () =>
  database.table('entries').read({columns: ['note'], keys: [[1]]}));
await refused('updating a row that the transaction deleted', 'INVALID_ARGUMENT', () =>
  apply(mutations => {
    mutations.deleteRows('accounts', [1]);
    mutations.update('accounts', {id: 1, balance: 1});
  }));
await refused('an unknown database', 'NOT_FOUND', () => instance.database('nothing').run('SELECT 1'));
await refused('DML in a single-use transaction', 'INVALID_ARGUMENT', () =>
  database.run('UPDATE accounts SET balance = 1 WHERE id = 1'));
await refused('too stale a read', 'FAILED_PRECONDITION', () =>
  database.table('accounts').read(ALL, {exactStaleness: 7_200_000}));

// What the client refuses by itself is asked for through its generated half, which sends it.
const [servicePath, port] = process.env.SPANNER_EMULATOR_HOST.split(':');
const sslCreds = new GrpcClient().grpc.credentials.createInsecure();
const api = new v1.SpannerClient({servicePath, port: Number(port), sslCreds, projectId: 'node'});
const [{name: session}] = await api.createSession({database: DATABASE});
const READ_WRITE = {readWrite: {}};

async function begin(options = READ_WRITE) {
  const [{id}] = await api.beginTransaction({session, options});
  return id;
}
const commit = (transactionId, mutations) => api.commit({session, transactionId, mutations});
const rollback = transactionId => api.rollback({session, transactionId});
const execute = (id, sql, seqno) => api.executeSql({session, transaction: {id}, sql, seqno});
const set = (id, balance, seqno) => execute(id, `UPDATE accounts SET balance = ${balance} WHERE id = 1`, seqno);

await refused('fewer values than columns', 'INVALID_ARGUMENT', async () => {
  const values = [{values: [{stringValue: '9'}]}];
  await commit(await begin(), [{insert: {table: 'accounts', columns: ['id', 'owner'], values}}]);
});
await refused('an unknown session', 'NOT_FOUND', () =>
  api.beginTransaction({session: `${session}0`, options: READ_WRITE}));
await refused('an unknown transaction', 'NOT_FOUND', async () =>
  commit(Buffer.concat([await begin(), Buffer.from('777777')])));
await refused('a commit after a rollback', 'FAILED_PRECONDITION', async () => {
  const id = await begin();
  await rollback(id);
  await commit(id);
});
await refused('a rollback after a commit', 'FAILED_PRECONDITION', async () => {
  const id = await begin();
  await commit(id);
  await rollback(id);
});
await refused('a read after the end', 'FAILED_PRECONDITION', async () => {
  const id = await begin();
  await commit(id);
  await execute(id, 'SELECT id FROM accounts', 0);
});
await refused('a commit of a read-only transaction', 'FAILED_PRECONDITION', async () =>
  commit(await begin({readOnly: {strong: true}})));
await refused('a sequence number that goes back', 'INVALID_ARGUMENT', async () => {
  const id = await begin();
  await set(id, 1, 2);
  await set(id, 2, 1);
});
await refused('a sequence number for another statement', 'INVALID_ARGUMENT', async () => {
  const id = await begin();
  await set(id, 1, 1);
  await set(id, 2, 1);
});
await refused('an empty batch', 'INVALID_ARGUMENT', async () =>
  api.executeBatchDml({session, transaction: {id: await begin()}, statements: [], seqno: 1}));

await refused('an instance that is there already', 'ALREADY_EXISTS', () =>
  spanner.createInstance('clients', {config: 'emulator-config', nodes: 1}));
await refused('a database that is there already', 'ALREADY_EXISTS', () => instance.createDatabase('cases'));
await refused('a table that is there already', 'FAILED_PRECONDITION', () =>
  database.updateSchema('CREATE TABLE accounts (id INT64) PRIMARY KEY (id)'));
await refused('a missing instance', 'NOT_FOUND', () => spanner.instance('nothing').getMetadata());

await api.close();
spanner.close();
process.exit(failed ? 1 : 0);
