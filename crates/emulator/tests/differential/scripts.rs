//! Cases of a new database from a seed: its schema, then writes, reads, transactions and bad calls.

use crate::random::Random;
use crate::tree::Tree;

/// The types of columns, and values of each: as they are sent, and as GoogleSQL writes them.
const TYPES: &[(&str, &[(&str, &str)])] = &[
    (
        "INT64",
        &[
            ("\"1\"", "1"),
            ("\"2\"", "2"),
            ("\"-7\"", "-7"),
            ("\"9223372036854775807\"", "9223372036854775807"),
        ],
    ),
    (
        "STRING(5)",
        &[("\"a\"", "'a'"), ("\"\"", "''"), ("\"éé\"", "'éé'"), ("\"toolong\"", "'toolong'")],
    ),
    ("STRING(MAX)", &[("\"x\"", "'x'"), ("\"1\"", "'1'"), ("\"a b\\n\"", "'a b\\n'")]),
    ("BOOL", &[("true", "TRUE"), ("false", "FALSE")]),
    (
        "FLOAT64",
        &[
            ("1.5", "1.5"),
            ("\"NaN\"", "CAST('nan' AS FLOAT64)"),
            ("-0.0", "-0.0"),
            ("\"-Infinity\"", "CAST('-inf' AS FLOAT64)"),
        ],
    ),
    (
        "NUMERIC",
        &[
            ("\"1.5\"", "NUMERIC '1.5'"),
            ("\"-2\"", "NUMERIC '-2'"),
            ("\"1.0000000001\"", "1.0000000001"),
        ],
    ),
    ("BYTES(3)", &[("\"YWJj\"", "b'abc'"), ("\"\"", "b''"), ("\"YWJjZA==\"", "b'abcd'")]),
    ("DATE", &[("\"2026-01-02\"", "DATE '2026-01-02'"), ("\"0001-01-01\"", "'0001-01-01'")]),
    (
        "TIMESTAMP",
        &[
            ("\"2026-01-02T03:04:05.5Z\"", "TIMESTAMP '2026-01-02 03:04:05.5Z'"),
            ("\"2026-01-02T03:04:05+01:00\"", "'2026-01-02 03:04:05'"),
        ],
    ),
    (
        "JSON",
        &[
            ("\"{\\\"b\\\":1,\\\"a\\\":[1.0]}\"", "JSON '{\"b\":1}'"),
            ("\"null\"", "JSON 'null'"),
            ("\"{\"", "JSON '[]'"),
        ],
    ),
    ("ARRAY<INT64>", &[("[\"1\",null]", "[1, NULL]"), ("[]", "[]")]),
    ("ARRAY<STRING(3)>", &[("[\"a\"]", "['a']"), ("[\"long\"]", "['long']")]),
];
/// So many of them can be in a key.
const KEYS: usize = 9;
/// Values of no type, or of another.
const ODD: &[(&str, &str)] =
    &[("null", "NULL"), ("\"x\"", "'x'"), ("1", "1.5"), ("true", "TRUE"), ("[]", "DEFAULT")];

#[derive(Clone)]
struct Column {
    name: String,
    kind: usize,
}

#[derive(Clone)]
struct Table {
    name: String,
    columns: Vec<Column>,
    /// So many of its first columns are its key.
    key: usize,
    indexes: Vec<String>,
}

/// Makes cases.
pub struct Scripts {
    random: Random,
    tables: Vec<Table>,
    /// The transaction that is open for writes, and the number of those begun.
    open: Option<String>,
    begun: usize,
}

impl Scripts {
    pub fn new(seed: u64) -> Scripts {
        Scripts { random: Random::new(seed ^ 0x5c1), tables: Vec::new(), open: None, begun: 0 }
    }

    /// The calls of the next case.
    pub fn case(&mut self) -> Vec<Tree> {
        (self.tables, self.open, self.begun) = (Vec::new(), None, 0);
        let mut calls: Vec<String> =
            (0..self.random.below(3) + 1).flat_map(|_| self.create_table()).collect();
        for _ in 0..self.random.below(16) + 8 {
            let call = match (self.open.is_some(), self.random.below(20)) {
                (false, 0..7) => self.commit(""),
                (_, 7..10) => self.read(),
                (_, 10) => self.query(),
                (false, 11..14) => format!("dml {}", self.statement()),
                (false, 14) => format!("sql {}", self.statement()),
                (false, 15 | 16) => self.alter(),
                (false, 17) => self.random.pick(ODD_CALLS).to_string(),
                (false, 18) => "schema".into(),
                (true, 0..4) => format!("sql{} {}", self.name(), self.statement()),
                (true, 4) => {
                    format!("batch{} {} ;; {}", self.name(), self.statement(), self.statement())
                }
                (true, 5 | 6 | 11..14) => self.end(),
                (true, 14..17) => self.begin_read_only(),
                _ => self.begin(),
            };
            calls.push(call.trim_end().to_owned());
        }
        calls.iter().map(Tree::leaf).collect()
    }

    fn table(&mut self) -> Table {
        self.random.pick(&self.tables).clone()
    }

    fn create_table(&mut self) -> Vec<String> {
        let name = format!("T{}", self.tables.len());
        let parent = self.random.percent(50).then(|| self.tables.last().cloned()).flatten();
        let mut columns =
            parent.as_ref().map(|table| table.columns[..table.key].to_vec()).unwrap_or_default();
        let inherited = columns.len();
        let key = inherited + 1 + self.random.below(2);
        for place in inherited..key + 1 + self.random.below(4) {
            let kinds = if place < key { KEYS } else { TYPES.len() };
            // Mostly numbers, so that keys meet.
            let kind =
                if place < key && self.random.percent(60) { 0 } else { self.random.below(kinds) };
            columns.push(Column { name: format!("c{place}"), kind });
        }
        let mut elements: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(place, column)| {
                let kind = TYPES[column.kind].0;
                let more = match self.random.below(if place < inherited { 1 } else { 12 }) {
                    1 | 2 => " NOT NULL".to_owned(),
                    3 if place >= key => format!(" DEFAULT ({})", TYPES[column.kind].1[0].1),
                    4 if kind == "TIMESTAMP" => " OPTIONS (allow_commit_timestamp = true)".into(),
                    _ => String::new(),
                };
                format!("{} {kind}{more}", column.name)
            })
            .collect();
        let last = columns[columns.len() - 1].name.clone();
        match self.random.below(12) {
            0 => elements.push(format!("CHECK ({last} IS NOT NULL)")),
            1 => elements.push(format!("CONSTRAINT ck{name} CHECK (c0 > {last})")),
            2 => elements
                .push(format!("g STRING(MAX) AS (CONCAT('g', CAST({last} AS STRING))) STORED")),
            3 => elements.push("g INT64 AS (c0 * 2)".into()),
            4 | 5 if !self.tables.is_empty() => {
                let other = self.table();
                let keys: Vec<&str> =
                    other.columns[..other.key].iter().map(|it| it.name.as_str()).collect();
                let keys = keys.join(", ");
                let action = *self.random.pick(&["", " ON DELETE CASCADE", " ON DELETE NO ACTION"]);
                elements.push(format!(
                    "CONSTRAINT fk{name} FOREIGN KEY ({keys}) REFERENCES {} ({keys}){action}",
                    other.name
                ));
            }
            _ => {}
        }
        let mut order: Vec<String> =
            columns[..key].iter().map(|column| column.name.clone()).collect();
        if parent.is_none() && self.random.percent(20) {
            order[0].push_str(" DESC");
        }
        let interleave = parent.map_or(String::new(), |parent| {
            let action = *self.random.pick(&["", " ON DELETE CASCADE", " ON DELETE NO ACTION"]);
            format!(", INTERLEAVE IN PARENT {}{action}", parent.name)
        });
        let mut calls = vec![format!(
            "ddl CREATE TABLE {name} ({}) PRIMARY KEY ({}){interleave}",
            elements.join(", "),
            order.join(", ")
        )];
        let mut table = Table { name, columns, key, indexes: Vec::new() };
        if self.random.percent(60) {
            calls.push(self.create_index(&mut table));
        }
        self.tables.push(table);
        calls
    }

    fn create_index(&mut self, table: &mut Table) -> String {
        let name = format!("{}I{}", table.name, table.indexes.len());
        let kind =
            *self.random.pick(&["", "", "UNIQUE ", "NULL_FILTERED ", "UNIQUE NULL_FILTERED "]);
        let own = &table.columns[self.random.below(table.columns.len())].name;
        let order = *self.random.pick(&["", "", " DESC"]);
        let storing = match self.random.percent(30) {
            true => {
                format!(" STORING ({})", table.columns[self.random.below(table.columns.len())].name)
            }
            false => String::new(),
        };
        let call =
            format!("ddl CREATE {kind}INDEX {name} ON {} ({own}{order}){storing}", table.name);
        table.indexes.push(name);
        call
    }

    /// A value of this type, most of the time.
    fn value(&mut self, kind: usize) -> (&'static str, &'static str) {
        match self.random.below(14) {
            0 => *self.random.pick(ODD),
            1 => ODD[0],
            // The first ones, so that rows meet.
            2..8 => TYPES[kind].1[self.random.below(2)],
            _ => *self.random.pick(TYPES[kind].1),
        }
    }

    fn keys(&mut self, table: &Table, two_ends: bool) -> String {
        let mut key = |count: usize| {
            let values: Vec<&str> =
                table.columns[..count].iter().map(|column| self.value(column.kind).0).collect();
            format!("[{}]", values.join(","))
        };
        let (first, second) = (key(table.key), key(table.key));
        match self.random.below(12) {
            0..3 => "all".into(),
            3 => format!("{{\"from\":[],\"to\":{second},\"ends\":\"[)\"}}"),
            4..6 if two_ends => {
                let ends = *self.random.pick(&["[]", "[)", "(]", "()"]);
                format!("{{\"from\":{first},\"to\":{second},\"ends\":\"{ends}\"}}")
            }
            6 => format!("[{}]", "[\"1\"]"),
            7..9 => format!("[{first},{second}]"),
            _ => format!("[{first}]"),
        }
    }

    fn mutation(&mut self) -> String {
        let table = self.table();
        if self.random.percent(20) {
            // Google's emulator hangs or deletes others at a range that ends before it begins, if the
            // transaction has written there.
            return format!("delete {} {}", table.name, self.keys(&table, false));
        }
        let mut columns = table.columns.clone();
        if self.random.percent(40) {
            columns.remove(self.random.below(columns.len()));
        }
        let values: Vec<&str> = columns.iter().map(|column| self.value(column.kind).0).collect();
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        if self.random.percent(2) {
            names.push(*self.random.pick(&["c0", "none", "g", ""]));
        }
        let verb =
            *self.random.pick(&["insert", "insert", "upsert", "upsert", "update", "replace"]);
        format!("{verb} {} {} [[{}]]", table.name, names.join(","), values.join(","))
    }

    fn commit(&mut self, name: &str) -> String {
        let mutations: Vec<String> =
            (0..self.random.below(3) + 1).map(|_| self.mutation()).collect();
        format!("commit{name} {}", mutations.join(" ;; "))
    }

    fn statement(&mut self) -> String {
        let table = self.table();
        let name = &table.name;
        let filter = {
            let column = self.random.pick(&table.columns).clone();
            match self.random.below(4) {
                0 => "TRUE".into(),
                1 => format!("{} IS NULL", column.name),
                _ => format!("{} = {}", column.name, self.value(column.kind).1),
            }
        };
        let returning = match self.random.percent(30) {
            true => " THEN RETURN *",
            false => "",
        };
        match self.random.below(6) {
            0 => format!("DELETE FROM {name} WHERE {filter}{returning}"),
            1 | 2 => {
                let column = self.random.pick(&table.columns[table.key..]).clone();
                let value = self.value(column.kind).1;
                format!("UPDATE {name} SET {} = {value} WHERE {filter}{returning}", column.name)
            }
            _ => {
                let values: Vec<&str> =
                    table.columns.iter().map(|column| self.value(column.kind).1).collect();
                let names: Vec<&str> =
                    table.columns.iter().map(|column| column.name.as_str()).collect();
                let or = *self.random.pick(&["", "", "", "OR UPDATE ", "OR IGNORE "]);
                format!(
                    "INSERT {or}INTO {name} ({}) VALUES ({}){returning}",
                    names.join(", "),
                    values.join(", ")
                )
            }
        }
    }

    fn read(&mut self) -> String {
        let table = self.table();
        let mut columns: Vec<&str> =
            table.columns.iter().map(|column| column.name.as_str()).collect();
        while columns.len() > 1 && self.random.percent(40) {
            columns.remove(self.random.below(columns.len()));
        }
        let index = match !table.indexes.is_empty() && self.random.percent(30) {
            true => format!("/{}", self.random.pick(&table.indexes)),
            false => String::new(),
        };
        let limit = if self.random.percent(20) { " limit=1" } else { "" };
        let name = self.any_name();
        // Google's emulator goes away at a range that ends before it begins, if the transaction has
        // written there.
        let two_ends = name.is_empty() || name != self.name();
        let keys = self.keys(&table, two_ends);
        format!("read{name} {}{index} {} {keys}{limit}", table.name, columns.join(","))
    }

    fn query(&mut self) -> String {
        let table = self.table();
        let name = self.any_name();
        let odd = self.random.pick(QUERIES).to_string();
        match self.random.below(4) {
            0 => format!("sql{name} SELECT COUNT(*) FROM {}", table.name),
            1 => format!("sql{name} SELECT * FROM {}", table.name),
            2 if !table.indexes.is_empty() => {
                let index = self.random.pick(&table.indexes);
                format!("sql{name} SELECT c0 FROM {}@{{FORCE_INDEX={index}}}", table.name)
            }
            _ => format!("sql{name} {odd}"),
        }
    }

    fn alter(&mut self) -> String {
        let mut table = self.table();
        if self.random.percent(15) {
            let call = self.create_index(&mut table);
            for known in self.tables.iter_mut().filter(|known| known.name == table.name) {
                known.indexes.clone_from(&table.indexes);
            }
            return call;
        }
        let column = self.random.pick(&table.columns).name.clone();
        let kind = self.random.pick(TYPES).0;
        let name = &table.name;
        let value = self.random.pick(TYPES).1[0].1;
        match self.random.below(14) {
            0 => format!("ddl ALTER TABLE {name} ADD COLUMN n {kind}"),
            1 => format!("ddl ALTER TABLE {name} ADD COLUMN n {kind} NOT NULL"),
            2 => format!("ddl ALTER TABLE {name} ADD COLUMN n {kind} DEFAULT ({value})"),
            3 => format!("ddl ALTER TABLE {name} DROP COLUMN {column}"),
            4 => format!("ddl ALTER TABLE {name} ALTER COLUMN {column} {kind}"),
            5 => format!("ddl ALTER TABLE {name} ALTER COLUMN {column} {kind} NOT NULL"),
            6 => format!("ddl ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT ({value})"),
            7 => format!("ddl ALTER TABLE {name} ALTER COLUMN {column} DROP DEFAULT"),
            8 => format!(
                "ddl ALTER TABLE {name} ALTER COLUMN {column} SET OPTIONS (allow_commit_timestamp = true)"
            ),
            9 => {
                format!("ddl ALTER TABLE {name} ADD CONSTRAINT added CHECK ({column} IS NOT NULL)")
            }
            10 => format!("ddl ALTER TABLE {name} DROP CONSTRAINT fk{name}"),
            11 => format!("ddl DROP TABLE {name}"),
            12 => format!("ddl DROP INDEX {name}I0"),
            _ => format!("ddl ALTER TABLE {name} SET ON DELETE CASCADE"),
        }
    }

    fn name(&self) -> String {
        self.open.as_ref().map_or(String::new(), |name| format!("@{name}"))
    }

    /// Mostly no transaction, or the one that is open; sometimes one that has ended.
    fn any_name(&mut self) -> String {
        match self.random.below(8) {
            0 if self.begun > 0 => format!("@x{}", self.random.below(self.begun) + 1),
            1..5 => self.name(),
            _ => String::new(),
        }
    }

    fn begin(&mut self) -> String {
        if self.open.is_some() || self.random.percent(30) {
            return self.begin_read_only();
        }
        self.begun += 1;
        self.open = Some(format!("x{}", self.begun));
        format!("begin{} rw", self.name())
    }

    fn begin_read_only(&mut self) -> String {
        self.begun += 1;
        let mode = *self.random.pick(&["ro", "at 0", "at 1", "at 2"]);
        format!("begin@x{} {mode}", self.begun)
    }

    fn end(&mut self) -> String {
        let name = self.name();
        self.open = None;
        match self.random.below(4) {
            0 => format!("rollback{name}"),
            1 => format!("commit{name}"),
            _ => self.commit(&name),
        }
    }
}

/// Queries of what the schema says about itself, and of nothing.
const QUERIES: &[&str] = &[
    "SELECT TABLE_NAME, PARENT_TABLE_NAME, ON_DELETE_ACTION FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = ''",
    "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, SPANNER_TYPE, COLUMN_DEFAULT, IS_GENERATED FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = ''",
    "SELECT TABLE_NAME, INDEX_NAME, INDEX_TYPE, IS_UNIQUE, IS_NULL_FILTERED FROM INFORMATION_SCHEMA.INDEXES WHERE TABLE_SCHEMA = '' AND INDEX_NAME NOT LIKE 'IDX%'",
    "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_ORDERING, IS_NULLABLE FROM INFORMATION_SCHEMA.INDEX_COLUMNS WHERE TABLE_SCHEMA = '' AND INDEX_NAME NOT LIKE 'IDX%'",
    "SELECT TABLE_NAME, COLUMN_NAME, OPTION_NAME, OPTION_TYPE, OPTION_VALUE FROM INFORMATION_SCHEMA.COLUMN_OPTIONS",
    "SELECT TABLE_NAME, CONSTRAINT_TYPE FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = ''",
    "SELECT * FROM Nowhere",
    "SELECT c0 FROM T0 WHERE nothing",
    "SELECT 1 +",
];

/// Calls that no server takes, or that say little.
const ODD_CALLS: &[&str] = &[
    "once INSERT INTO T0 (c0) VALUES (1)",
    "pdml DELETE FROM T0 WHERE TRUE",
    "pdml UPDATE T0 SET c0 = 1 WHERE TRUE",
    "pdml INSERT INTO T0 (c0) VALUES (1)",
    "pdml SELECT 1",
    "commit",
    "commit none T",
    "commit insert Nowhere a [[\"1\"]]",
    "commit insert T0 c0 [[\"1\",\"2\"]]",
    "commit insert T0 c0 []",
    "commit delete Nowhere all",
    "commit delete T0 []",
    "read Nowhere a all",
    "read T0 none all",
    "read T0/Nowhere c0 all",
    "read T0 c0 []",
    "read T0  all",
    "read T0 c0 all limit=-1",
    "session gone",
    "session empty",
    "session own",
    "rollback@never",
    "commit@never",
    "sql@never SELECT 1",
    "read@never T0 c0 all",
    "batch@never DELETE FROM T0 WHERE TRUE",
    "ddl CREATE TABLE T0 (a INT64) PRIMARY KEY (a)",
    "ddl CREATE TABLE N (a INT64, a INT64) PRIMARY KEY (a)",
    "ddl CREATE TABLE N (a INT64) PRIMARY KEY (b)",
    "ddl CREATE TABLE N (a JSON) PRIMARY KEY (a)",
    "ddl CREATE TABLE N (a STRING) PRIMARY KEY (a)",
    "ddl CREATE TABLE N (a INT64) PRIMARY KEY (a), INTERLEAVE IN PARENT Nowhere",
    "ddl CREATE INDEX N ON Nowhere (a)",
    "ddl CREATE INDEX T0 ON T0 (c0)",
    "ddl CREATE INDEX N ON T0 (none)",
    "ddl DROP TABLE Nowhere",
    "ddl DROP INDEX Nowhere",
    "ddl DROP INDEX IF EXISTS Nowhere",
    "ddl DROP TABLE IF EXISTS Nowhere",
    "ddl CREATE TABLE IF NOT EXISTS T0 (a INT64) PRIMARY KEY (a)",
    "ddl ALTER TABLE Nowhere ADD COLUMN a INT64",
    "ddl CREATE",
    "ddl SELECT 1",
];
