//! The access path never changes which rows there are: random statements by keys and indexes beside
//! the same ones on a table that can only be scanned.

use spindle_emulator::engine::{
    Concurrency, Database, Handle, ReadWriteOptions, Result, TransactionId,
};
use spindle_emulator::sql::{InTransaction, Outcome, Parameters, Prepared, execute, parse_ddl};

use crate::memory::shown;
use crate::random::Random;

/// Each table has the same columns and rows. The table `s` has a key that no statement names.
const PAIR: &str = "
    CREATE TABLE t (a INT64, b STRING(9), x FLOAT64, n NUMERIC, d DATE, r BYTES(9), f BOOL,
      i INT64 NOT NULL, g INT64 AS (a + i) STORED) PRIMARY KEY (a, b DESC, i);
    CREATE INDEX by_x ON t (x DESC, b);
    CREATE INDEX by_b ON t (b, n DESC) STORING (x);
    CREATE NULL_FILTERED INDEX by_n ON t (n, d DESC);
    CREATE NULL_FILTERED INDEX by_r ON t (r DESC) STORING (d);
    CREATE INDEX by_g ON t (g DESC, f);
    CREATE UNIQUE INDEX by_i ON t (i);
    CREATE TABLE s (row INT64 NOT NULL, a INT64, b STRING(9), x FLOAT64, n NUMERIC, d DATE, r BYTES(9),
      f BOOL, i INT64 NOT NULL, g INT64 AS (a + i) STORED) PRIMARY KEY (row)";

const COLUMNS: &[(&str, &[&str])] = &[
    ("a", &["0", "1", "2", "-1", "9223372036854775000"]),
    ("b", &["''", "'a'", "'ab'", "'b'", "'\\u00ff'", "'a\\U0010ffff'", "'\\ud7ff'"]),
    ("x", &["0.0", "-0.0", "1.5", "CAST('nan' AS FLOAT64)", "CAST('-inf' AS FLOAT64)", "1e308"]),
    ("n", &["NUMERIC '0'", "NUMERIC '-1.5'", "NUMERIC '1.5'", "NUMERIC '1e20'"]),
    ("d", &["DATE '2026-01-02'", "DATE '0001-01-01'", "DATE '9999-12-31'"]),
    ("r", &["b''", "b'\\xff'", "b'\\xff\\xff'", "b'a'", "b'a\\x00'"]),
    ("f", &["TRUE", "FALSE"]),
    ("i", &["0", "1", "2", "3", "7", "11", "12"]),
    ("g", &["0", "1", "2", "3", "8"]),
];

const INDEXES: &[&str] = &["_BASE_TABLE", "by_x", "by_b", "by_n", "by_r", "by_g", "by_i"];

/// The choices in statements.
struct Choices(Random);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next() >> 33).unwrap_or(0) % limit
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// The values of a row behind its number, which is its `i`.
    fn row(&mut self, number: usize) -> String {
        let values = COLUMNS.iter().take(7).map(|(_, of)| match self.below(5) {
            0 => "NULL".to_owned(),
            _ => self.pick(of).to_owned(),
        });
        let mut values: Vec<String> = values.collect();
        values.push(number.to_string());
        values.join(", ")
    }

    /// A condition on the columns of `table`, and of `other` if there is one.
    fn condition(&mut self, table: &str, other: Option<&str>, depth: usize) -> String {
        if depth > 0 && self.below(2) == 0 {
            let parts = [(); 2].map(|()| self.condition(table, other, depth - 1));
            let [first, second] = parts;
            return match self.below(7) {
                0..4 => format!("({first} AND {second})"),
                4..6 => format!("({first} OR {second})"),
                _ => format!("NOT ({first})"),
            };
        }
        let (name, of) = self.pick(COLUMNS);
        let column = format!("{table}.{name}");
        let mut value = || match (other, self.below(8)) {
            (Some(other), 0..4) => format!("{other}.{name}"),
            (_, 4) => "NULL_OF_TYPE".to_owned(),
            _ => self.pick(of).to_owned(),
        };
        let [first, second, third] = [value(), value(), value()];
        let not = if self.below(4) == 0 { "NOT " } else { "" };
        let text = match self.below(16) {
            0..4 => format!("{column} = {first}"),
            4..8 => {
                let sign = self.pick(&["<", "<=", ">", ">=", "!="]);
                match self.below(3) {
                    0 => format!("{first} {sign} {column}"),
                    _ => format!("{column} {sign} {first}"),
                }
            }
            8 => format!("{column} {not}BETWEEN {first} AND {second}"),
            9 => format!("{column} {not}IN ({first}, {second}, {third})"),
            10 => format!("{column} {not}IN UNNEST([{first}, {second}])"),
            11 => format!("{column} {not}IN UNNEST([])"),
            12 if name == "b" || name == "r" => format!("{not}STARTS_WITH({column}, {first})"),
            12 if name == "f" => format!("{column} IS {not}TRUE"),
            13 => format!(
                "{column} {not}IN (SELECT z.{name} FROM s AS z WHERE z.i < {})",
                self.below(9)
            ),
            14 if name == "b" => format!("{first} {not}LIKE {column}"),
            _ => format!("{column} IS {not}NULL"),
        };
        // A NULL of the column's type.
        text.replace("NULL_OF_TYPE", &format!("IF(FALSE, {}, NULL)", of[0]))
    }

    /// A statement in which `T` stands for the table, and `H` for a hint behind it.
    fn query(&mut self) -> String {
        let own = self.condition("p", None, 2);
        let joined = self.condition("q", Some("p"), 1);
        match self.below(10) {
            0..3 => format!("SELECT p.i, p.g FROM TH AS p WHERE {own}"),
            3 => format!("SELECT p.a, p.b, p.x, p.n, p.d, p.r, p.f, p.g FROM TH AS p WHERE {own}"),
            4 => format!("SELECT COUNT(*), MIN(p.i), SUM(p.n) FROM TH AS p WHERE {own}"),
            5 => {
                let (first, second) = (self.pick(COLUMNS).0, self.pick(COLUMNS).0);
                let way = self.pick(&["", " DESC"]);
                let limit = self.pick(&["", " LIMIT 3", " LIMIT 2 OFFSET 1"]);
                format!(
                    "SELECT p.i, p.d FROM TH AS p WHERE {own} \
                     ORDER BY p.{first}{way}, p.{second}, p.i{way}{limit}"
                )
            }
            6 => format!("SELECT p.i, q.i, q.r FROM T AS p JOIN TH AS q ON {joined} WHERE {own}"),
            7 => {
                let behind = self.condition("q", None, 1);
                format!(
                    "SELECT p.i, q.i FROM T AS p LEFT JOIN TH AS q ON {joined} WHERE {own} AND {behind}"
                )
            }
            8 => format!(
                "SELECT p.i FROM T AS p WHERE EXISTS (SELECT 1 FROM TH AS q WHERE {joined})"
            ),
            _ => format!(
                "SELECT p.i, (SELECT COUNT(q.b) FROM TH AS q WHERE {joined}) FROM T AS p WHERE {own}"
            ),
        }
    }

    /// The same of a statement that writes; `number` is in no row yet.
    fn write(&mut self, number: usize) -> String {
        let condition = self.condition("p", None, 1);
        match self.below(6) {
            0..3 => format!(
                "INSERT INTO T (ROWa, b, x, n, d, r, f, i) VALUES (NUMBER{})",
                self.row(number)
            ),
            3 => format!("DELETE FROM TH AS p WHERE p.i > 4 AND {condition}"),
            _ => {
                let (column, of) = COLUMNS[2 + self.below(5)];
                let value = if self.below(4) == 0 { "NULL" } else { self.pick(of) };
                format!("UPDATE TH AS p SET p.{column} = {value} WHERE {condition}")
            }
        }
    }
}

struct Pair {
    database: Database,
    choices: Choices,
    /// How many statements a forced index could answer.
    forced: usize,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let database = Database::default();
        database.change_schema(&parse_ddl(PAIR).expect("it is right")).expect("it fits");
        Pair { database, choices: Choices(Random(seed)), forced: 0 }
    }

    async fn run(&self, id: TransactionId, text: &str) -> Result<Outcome> {
        let statement = Prepared::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut access = InTransaction::new(&self.database, Handle::ReadWrite(id));
        execute(&statement, &Parameters::default(), &mut access).await
    }

    /// Asks a statement of both tables. Rows come in any order.
    async fn compare(&mut self, id: TransactionId, pattern: &str, number: usize) {
        let hint = match self.choices.below(2) {
            0 => String::new(),
            _ => format!("@{{FORCE_INDEX={}}}", self.choices.pick(INDEXES)),
        };
        let of_table = |table: &str, hint: &str, row: &str, number: &str| {
            let text = pattern.replace("TH AS", &format!("{table}{hint} AS"));
            let text = text.replace("T AS", &format!("{table} AS"));
            let text = text.replace("INTO T", &format!("INTO {table}"));
            text.replace("ROW", row).replace("NUMBER", number)
        };
        let text = of_table("t", &hint, "", "");
        let found = match self.run(id, &text).await {
            Err(error) if error.message().contains("null filtered") => return,
            other => other,
        };
        self.forced += usize::from(!hint.is_empty());
        let scanned = of_table("s", "", "row, ", &format!("{number}, "));
        let expected = self.run(id, &scanned).await;
        let ordered = pattern.contains("ORDER BY");
        assert_eq!(shown_rows(found, ordered), shown_rows(expected, ordered), "{text}\n{scanned}");
    }
}

/// How many rows were written, and the rows of a query, where they come in any order unless `ordered`.
fn shown_rows(outcome: Result<Outcome>, ordered: bool) -> (u64, Vec<String>) {
    match outcome {
        Ok(Outcome { written: None, rows, .. }) => {
            let shown = rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" "));
            let mut rows: Vec<String> = shown.collect();
            if !ordered {
                rows.sort();
            }
            (0, rows)
        }
        Ok(Outcome { written: Some(count), .. }) => (count, Vec::new()),
        Err(error) => panic!("{error}"),
    }
}

async fn plans_and_scans_agree(seeds: std::ops::Range<u64>) {
    let mut forced = 0;
    for seed in seeds {
        let mut pair = Pair::new(seed);
        let mut number = 0;
        for _ in 0..8 {
            let concurrency =
                pair.choices.pick(&[Concurrency::Pessimistic, Concurrency::Optimistic]);
            let options = ReadWriteOptions { concurrency, ..ReadWriteOptions::default() };
            let id = pair.database.begin(&options);
            // The first statements see committed rows, the later ones pending ones too.
            for _ in 0..4 {
                for _ in 0..6 {
                    let query = pair.choices.query();
                    pair.compare(id, &query, 0).await;
                }
                for _ in 0..3 {
                    number += 1;
                    let write = pair.choices.write(number);
                    pair.compare(id, &write, number).await;
                }
            }
            match pair.choices.below(4) {
                0 => pair.database.rollback(id).expect("it can"),
                _ => drop(pair.database.commit(id, &[]).await.expect("it can")),
            }
        }
        forced += pair.forced;
    }
    assert!(forced > 40, "{forced} statements went by a forced index");
}

#[tokio::test]
async fn every_way_to_rows_shows_the_same_rows() {
    plans_and_scans_agree(0..4).await;
}

/// A longer run, by hand: `cargo test --release … every_way -- --ignored`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn every_way_to_rows_shows_the_same_rows_for_many_seeds() {
    plans_and_scans_agree(1_000..3_000).await;
}
