//! The mutations of one commit, which count one after another.

use std::fmt::Write as _;

use super::*;

/// The mutations that came before, those of a commit, and how Google's emulator answers it.
const COMMITS: &str = include_str!("mutations.txt");

const TABLES: &str = "
    CREATE TABLE P (a INT64, v INT64) PRIMARY KEY (a);
    CREATE TABLE C (a INT64, b INT64, v INT64) PRIMARY KEY (a, b), INTERLEAVE IN PARENT P;
    CREATE TABLE D (a INT64, b INT64, v INT64) PRIMARY KEY (a, b),
      INTERLEAVE IN PARENT P ON DELETE CASCADE;
    CREATE TABLE E (a INT64, b INT64, c INT64) PRIMARY KEY (a, b, c), INTERLEAVE IN PARENT D;
    CREATE TABLE U (k INT64, u INT64) PRIMARY KEY (k);
    CREATE UNIQUE INDEX UU ON U (u);
    CREATE TABLE F (k INT64, p INT64, CONSTRAINT fk FOREIGN KEY (p) REFERENCES U (k))
      PRIMARY KEY (k);
    CREATE TABLE G (k INT64, p INT64,
      CONSTRAINT fg FOREIGN KEY (p) REFERENCES U (k) ON DELETE CASCADE) PRIMARY KEY (k);
    CREATE TABLE K (k INT64, v INT64, CONSTRAINT ck CHECK (v > 0)) PRIMARY KEY (k)";

/// The tables with their columns, children before their parents.
const COLUMNS: [(&str, [&str; 3]); 8] = [
    ("K", ["k", "v", ""]),
    ("G", ["k", "p", ""]),
    ("F", ["k", "p", ""]),
    ("U", ["k", "u", ""]),
    ("E", ["a", "b", "c"]),
    ("C", ["a", "b", "v"]),
    ("D", ["a", "b", "v"]),
    ("P", ["a", "v", ""]),
];

/// The commits that are answered otherwise here, with the reason.
const DIFFERENCES: [(&str, &str, &str); 2] = [
    (
        "insert P 1; insert P 1",
        "INVALID_ARGUMENT",
        "Cloud Spanner answers so, by the conformance tests of Google's emulator",
    ),
    (
        "delete P 1; update D 1 1 9",
        "INVALID_ARGUMENT",
        "a row that went with its parent counts as deleted, like any other",
    ),
];

#[tokio::test]
async fn mutations_count_in_the_order_in_which_googles_emulator_has_them() {
    let mut world = World::start().await;
    change(&world, TABLES).unwrap();
    let mut wrong = String::new();
    for commit in COMMITS.lines() {
        let [before, mutations, expected] =
            commit.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let emptied: Vec<_> =
            COLUMNS.iter().map(|(table, _)| noted(&format!("delete {table} *"))).collect();
        world.commit_once(emptied).await.unwrap();
        world.commit_once(all_noted(before)).await.unwrap();
        let found = match world.commit_once(all_noted(mutations)).await {
            Ok(_) => "ok".into(),
            Err(status) => code_name(status.code()),
        };
        let known = DIFFERENCES.iter().find(|(known, ..)| *known == mutations);
        let expected = known.map_or(expected, |(_, code, _)| *code);
        if found != expected {
            writeln!(wrong, "{before} | {mutations}: {found} instead of {expected}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn all_noted(notes: &str) -> Vec<proto::Mutation> {
    notes.split("; ").filter(|note| !note.is_empty()).map(noted).collect()
}

/// Reads a mutation from a note such as `insert C 1 2`: a verb, a table, and the first values.
fn noted(note: &str) -> proto::Mutation {
    let mut words = note.split(' ');
    let (verb, table) = (words.next().unwrap(), words.next().unwrap());
    let values: Vec<Value> = words.clone().map(text).collect();
    let (_, columns) = COLUMNS.iter().find(|(name, _)| *name == table).unwrap();
    let write = Write {
        table: table.into(),
        columns: columns[..values.len().min(3)].iter().map(|name| (*name).into()).collect(),
        values: vec![list(values.clone())],
    };
    mutation(match verb {
        "insert" => Operation::Insert(write),
        "update" => Operation::Update(write),
        "upsert" => Operation::InsertOrUpdate(write),
        "replace" => Operation::Replace(write),
        "delete" => {
            let one = proto::KeySet { keys: vec![list(values)], ..Default::default() };
            let key_set = Some(if words.eq(["*"]) { all() } else { one });
            Operation::Delete(proto::mutation::Delete { table: table.into(), key_set })
        }
        other => panic!("{other} is no mutation"),
    })
}

/// Returns the name of a code, as Google's documents write it.
fn code_name(code: Code) -> String {
    let mut all = spindle_emulator::engine::Code::ALL.into_iter();
    all.find(|known| known.number() == code as i32).unwrap().to_string()
}
