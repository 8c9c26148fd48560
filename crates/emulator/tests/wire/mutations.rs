//! The mutations of one commit, which count one after another.

use std::fmt::Write as _;

use super::*;

/// The tables, their columns (children before their parents), and then in each line the mutations that
/// came before, those of a commit, and how Google's emulator answers it. The differential test asks
/// both servers the same.
const COMMITS: &str = include_str!("mutations.txt");

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
    let mut commits = COMMITS.lines();
    change(&world, &commits.next().unwrap().replace(";;", ";")).unwrap();
    let columns: Vec<_> = commits.next().unwrap().split(' ').map(columns_of).collect();
    let mut wrong = String::new();
    for commit in commits {
        let [before, mutations, expected] =
            commit.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let emptied: Vec<_> = columns
            .iter()
            .map(|(table, _)| noted(&format!("delete {table} *"), &columns))
            .collect();
        world.commit_once(emptied).await.unwrap();
        world.commit_once(all_noted(before, &columns)).await.unwrap();
        let found = match world.commit_once(all_noted(mutations, &columns)).await {
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

type Columns = Vec<(&'static str, Vec<&'static str>)>;

/// Reads a table and its columns from a text such as `P=a,v`.
fn columns_of(text: &'static str) -> (&'static str, Vec<&'static str>) {
    let (table, columns) = text.split_once('=').unwrap();
    (table, columns.split(',').collect())
}

fn all_noted(notes: &str, columns: &Columns) -> Vec<proto::Mutation> {
    notes.split("; ").filter(|note| !note.is_empty()).map(|note| noted(note, columns)).collect()
}

/// Reads a mutation from a note such as `insert C 1 2`: a verb, a table, and the first values.
fn noted(note: &str, columns: &Columns) -> proto::Mutation {
    let mut words = note.split(' ');
    let (verb, table) = (words.next().unwrap(), words.next().unwrap());
    let values: Vec<Value> = words.clone().map(text).collect();
    let (_, columns) = columns.iter().find(|(name, _)| *name == table).unwrap();
    let write = Write {
        table: table.into(),
        columns: columns[..values.len().min(columns.len())]
            .iter()
            .map(|name| (*name).into())
            .collect(),
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
