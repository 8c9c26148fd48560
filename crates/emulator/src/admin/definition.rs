//! A schema as the DDL that makes it again.

use std::fmt::Write;

use crate::engine::{Check, Column, Dialect, ForeignKey, Index, Kept, OnDelete, Schema, Table};
use crate::sql::is_reserved;

/// Returns the statements that make these tables and indexes, one for each, without `;`.
pub(super) fn statements(schema: &Schema) -> Vec<String> {
    let mut made: Vec<&str> = Vec::new();
    let mut tables = Vec::new();
    let mut later = Vec::new();
    while made.len() < schema.tables().count() {
        let is_made = |name: &str, own: &str| {
            name.eq_ignore_ascii_case(own)
                || made.iter().any(|made| made.eq_ignore_ascii_case(name))
        };
        let has_parent = |table: &Table| {
            table.parent.as_ref().is_none_or(|parent| is_made(&parent.table, &table.name))
        };
        let is_new = |table: &&Table| !made.contains(&table.name.as_str());
        let mut next: Vec<&Table> = schema
            .tables()
            .filter(is_new)
            .filter(|table| {
                let mut keys = table.foreign_keys.iter();
                has_parent(table) && keys.all(|key| is_made(&key.table, &table.name))
            })
            .collect();
        if next.is_empty() {
            // Tables that refer to each other get what is missing afterwards.
            next.extend(schema.tables().filter(is_new).find(|table| has_parent(table)));
        }
        for table in &next {
            let (now, then) =
                table.foreign_keys.iter().partition(|key| is_made(&key.table, &table.name));
            later.extend(Vec::into_iter(then).map(|key: &ForeignKey| {
                format!("ALTER TABLE {} ADD {}", name(&table.name), foreign_key(key))
            }));
            tables.push(match schema.dialect() {
                Dialect::GoogleSql => create_table(table, now),
                Dialect::PostgreSql => create_postgresql_table(table),
            });
        }
        if next.is_empty() {
            break;
        }
        made.extend(next.iter().map(|table| table.name.as_str()));
    }
    let (database, options) = schema.options();
    let mut altered = Vec::new();
    if options.len() > 0 {
        let options: Vec<String> =
            options.map(|(option, value)| format!("  {option} = {value}")).collect();
        let name = name(database);
        altered.push(format!("ALTER DATABASE {name} SET OPTIONS (\n{}\n)", options.join(",\n")));
    }
    // The parts that tables may need come before them.
    let is_first =
        |kept: &&Kept| ["SEQUENCE", "ROLE", "PROTO BUNDLE"].contains(&kept.kind.as_str());
    let (first, last): (Vec<&Kept>, Vec<&Kept>) = schema.kept().iter().partition(is_first);
    let text = |kept: &Kept| kept.text.clone();
    let tables = altered.into_iter().chain(first.into_iter().map(text)).chain(tables);
    let last = last.into_iter().map(text);
    let own = schema.indexes().filter(|index| !index.definition.is_managed);
    tables
        .chain(own.map(|index| create_index(&index.definition)))
        .chain(later)
        .chain(last)
        .collect()
}

fn create_postgresql_table(table: &Table) -> String {
    let mut text = format!("CREATE TABLE {} (\n", quoted(&table.name));
    for column in &table.columns {
        let not_null = if column.not_null { " NOT NULL" } else { "" };
        let name = quoted(&column.name);
        let _ = writeln!(text, "  {name} {}{not_null},", column.postgresql_type());
    }
    let key = table.primary_key.iter().map(|part| quoted(&table.columns[part.position].name));
    let _ = write!(text, "  PRIMARY KEY({})\n)", list(key));
    text
}

/// A name of the PostgreSQL dialect, which folds those without quotes to lower case.
fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name
            .chars()
            .all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_');
    if plain && !is_reserved(name) { name.to_owned() } else { format!("\"{name}\"") }
}

fn create_index(index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let filtered = if index.null_filtered { "NULL_FILTERED " } else { "" };
    let key = index.columns.iter().map(|column| {
        let order = if column.descending { " DESC" } else { "" };
        format!("{}{order}", name(&column.name))
    });
    let mut text = format!(
        "CREATE {unique}{filtered}INDEX {} ON {}({})",
        name(&index.name),
        name(&index.table),
        list(key)
    );
    if !index.storing.is_empty() {
        let _ = write!(text, " STORING ({})", names(&index.storing));
    }
    if let Some(parent) = &index.interleaved_in {
        let _ = write!(text, ", INTERLEAVE IN {}", name(parent));
    }
    text
}

fn create_table(table: &Table, foreign_keys: Vec<&ForeignKey>) -> String {
    let mut text = format!("CREATE TABLE {} (\n", name(&table.name));
    for column in &table.columns {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {},", definition(column));
    }
    for key in foreign_keys {
        let _ = writeln!(text, "  {},", foreign_key(key));
    }
    for Check { name: constraint, is_named, condition } in &table.checks {
        let named = named(*is_named, constraint);
        let _ = writeln!(text, "  {named}CHECK({}),", condition.text());
    }
    let key = table.primary_key.iter().map(|part| {
        let name = name(&table.columns[part.position].name);
        if part.descending { format!("{name} DESC") } else { name }
    });
    let _ = write!(text, ") PRIMARY KEY({})", list(key));
    if let Some(parent) = &table.parent {
        let enforced = if parent.is_enforced { "PARENT " } else { "" };
        let _ = write!(text, ",\n  INTERLEAVE IN {enforced}{}", name(&parent.table));
        if parent.on_delete == OnDelete::Cascade {
            text.push_str(" ON DELETE CASCADE");
        }
    }
    if let Some(policy) = &table.row_deletion_policy {
        let _ = write!(text, ",\n  ROW DELETION POLICY ({policy})");
    }
    text
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn names(columns: &[String]) -> String {
    list(columns.iter().map(|column| name(column)))
}

fn named(is_named: bool, constraint: &str) -> String {
    if is_named { format!("CONSTRAINT {} ", name(constraint)) } else { String::new() }
}

fn foreign_key(key: &ForeignKey) -> String {
    let mut text = format!(
        "{}FOREIGN KEY({}) REFERENCES {}({})",
        named(key.is_named, &key.name),
        names(&key.columns),
        name(&key.table),
        names(&key.referenced)
    );
    text.push_str(match key.on_delete {
        None => "",
        Some(OnDelete::NoAction) => " ON DELETE NO ACTION",
        Some(OnDelete::Cascade) => " ON DELETE CASCADE",
    });
    if !key.is_enforced {
        text.push_str(" NOT ENFORCED");
    }
    text
}

fn definition(column: &Column) -> String {
    let mut text = format!("{} {}", name(&column.name), column.spanner_type());
    if column.not_null {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        let _ = write!(text, " {}", default.definition());
    }
    if let Some(generated) = &column.generated {
        let _ = write!(text, " AS ({}) STORED", generated.text());
    }
    if column.allow_commit_timestamp {
        text.push_str(" OPTIONS (\n    allow_commit_timestamp = true\n  )");
    }
    text
}

/// A name as a statement can hold it.
fn name(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
    // `INTERLEAVE IN Parent` would name no table.
    match plain && !is_reserved(name) && !name.eq_ignore_ascii_case("PARENT") {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")),
    }
}
