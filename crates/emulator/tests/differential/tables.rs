//! The tables and parameters that generated statements are about.

use serde_json::{Value as Json, json};

/// A table of both servers.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, &'static str)],
    pub key: &'static [&'static str],
    /// The values of each row, as expressions.
    pub rows: &'static [&'static str],
}

/// The tables that statements are about.
pub const TABLES: &[Table] = &[
    Table {
        name: "t",
        columns: &[
            ("a", "INT64"),
            ("b", "STRING"),
            ("c", "FLOAT64"),
            ("d", "BOOL"),
            ("e", "DATE"),
            ("f", "BYTES"),
            ("g", "TIMESTAMP"),
            ("h", "NUMERIC"),
            ("i", "JSON"),
            ("j", "ARRAY<INT64>"),
            ("k", "ARRAY<STRING>"),
        ],
        key: &["a", "b"],
        rows: &[
            "1, 'x', 1.5, TRUE, DATE '2026-01-02', b'x', TIMESTAMP '2026-01-01 00:00:00Z', NUMERIC '1.5', JSON '{\"a\":1}', [1, 2], ['x']",
            "1, 'y', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
            "2, 'xyz', -0.0, FALSE, DATE '0001-01-01', b'', TIMESTAMP '0001-01-01 00:00:00Z', NUMERIC '-99999999999999999999999999999.999999999', JSON '[]', [], []",
            "-3, '', 1e308, TRUE, DATE '9999-12-31', b'\\xff\\x00a', TIMESTAMP '9999-12-31 23:59:59.999999999Z', NUMERIC '0.000000001', JSON '\"x\"', [NULL, 3], ['x', NULL, 'é']",
            "9223372036854775807, 'ä%_', CAST('nan' AS FLOAT64), FALSE, DATE '2024-02-29', b'ab', TIMESTAMP '1969-12-31 23:59:59.5Z', NUMERIC '7', JSON 'null', [2, 2], ['', 'ab']",
        ],
    },
    Table {
        name: "u",
        columns: &[("a", "INT64"), ("v", "STRING"), ("u", "INT64"), ("w", "FLOAT64")],
        key: &["a"],
        rows: &["1, 'x', 3, 1.0", "2, 'xyz', NULL, NULL", "3, NULL, 1, -2.5", "5, 'x', 1, 0.0"],
    },
];

/// The parameters that statements can name: their types, and their values as they are sent.
pub const PARAMETERS: &[(&str, &str, &str)] = &[
    ("yes", "BOOL", "true"),
    ("no_bool", "BOOL", "null"),
    ("one", "INT64", "\"1\""),
    ("two", "INT64", "\"2\""),
    ("least", "INT64", "\"-9223372036854775808\""),
    ("no_int64", "INT64", "null"),
    ("half", "FLOAT64", "0.5"),
    ("nan", "FLOAT64", "\"NaN\""),
    ("no_float64", "FLOAT64", "null"),
    ("seven", "NUMERIC", "\"7\""),
    ("no_numeric", "NUMERIC", "null"),
    ("x", "STRING", "\"x\""),
    ("wide", "STRING", "\"Ää%\""),
    ("no_string", "STRING", "null"),
    ("raw", "BYTES", "\"/wBh\""),
    ("no_bytes", "BYTES", "null"),
    ("day", "DATE", "\"2024-02-29\""),
    ("no_date", "DATE", "null"),
    ("moment", "TIMESTAMP", "\"1969-12-31T23:59:59.5Z\""),
    ("no_timestamp", "TIMESTAMP", "null"),
    ("document", "JSON", "\"{\\\"a\\\": [1, 2.5]}\""),
    ("no_json", "JSON", "null"),
    ("numbers", "ARRAY<INT64>", "[\"1\", null, \"2\"]"),
    ("no_numbers", "ARRAY<INT64>", "null"),
    ("texts", "ARRAY<STRING>", "[\"x\", \"xyz\"]"),
    ("no_texts", "ARRAY<STRING>", "[]"),
];

/// The calls that make the tables, with an index on each column that can have one.
pub fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    for table in TABLES {
        calls.push(format!("ddl {}", definition(table, table.name, None)));
        for (number, (column, kind)) in table.columns.iter().enumerate() {
            if !kind.starts_with("ARRAY") && *kind != "JSON" {
                let name = table.name;
                calls.push(format!("ddl CREATE INDEX {name}_{number} ON {name} ({column})"));
            }
        }
        let columns = names(table);
        for row in table.rows {
            calls.push(format!("dml INSERT INTO {} ({columns}) VALUES ({row})", table.name));
        }
    }
    calls
}

/// The calls that make a copy of `t` with one element more, and fill it.
pub fn copy(element: &str) -> Vec<String> {
    let table = &TABLES[0];
    let columns = names(table);
    let mut calls = vec![format!("ddl {}", definition(table, "k", Some(element)))];
    // Row by row: one may break a CHECK.
    for (a, b) in [(1, "x"), (1, "y"), (2, "xyz"), (-3, ""), (i64::MAX, "ä%_")] {
        calls.push(format!(
            "dml INSERT INTO k ({columns}) SELECT {columns} FROM t WHERE a = {a} AND b = '{b}'"
        ));
    }
    calls
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn definition(table: &Table, name: &str, more: Option<&str>) -> String {
    let columns = table.columns.iter();
    let mut elements: Vec<String> =
        columns.map(|(name, kind)| format!("{name} {}", stored(kind))).collect();
    elements.extend(more.map(str::to_owned));
    format!("CREATE TABLE {name} ({}) PRIMARY KEY ({})", elements.join(", "), table.key.join(", "))
}

/// A type as DDL writes it.
pub fn stored(kind: &str) -> String {
    match kind {
        "STRING" | "BYTES" => format!("{kind}(MAX)"),
        "ARRAY<STRING>" => "ARRAY<STRING(MAX)>".into(),
        _ => kind.into(),
    }
}

/// The parameters that a text names, each with its type and value.
pub fn parameters(text: &str) -> Vec<(&'static str, &'static str, Json)> {
    let named = PARAMETERS.iter().filter(|(name, ..)| text.contains(&format!("@{name}")));
    named
        .map(|(name, kind, value)| {
            (*name, *kind, serde_json::from_str(value).unwrap_or(json!(null)))
        })
        .collect()
}
