//! The meanings of texts, and the texts that aren't understood.

use super::*;
use crate::engine::Code;
use crate::sql::ast::{
    Comparison, Expr, ExprKind, FromItem, Item, Literal, Select, Source, Statement,
};

fn parsed(text: &str) -> Statement {
    parse_statement(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn query(text: &str) -> Select {
    match parsed(text) {
        Statement::Query(select) => *select,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_query_has_all_its_clauses() {
    let select = query(
        "SELECT a, b AS bee, t.*, COUNT(*) FROM Orders AS t WHERE a = @p AND `b c` > 1
         ORDER BY a DESC, 2 LIMIT 5 OFFSET @skip FOR UPDATE;",
    );
    assert_eq!(select.items.len(), 4);
    let FromItem::Table(from) = &select.from[0].item else { panic!() };
    assert_eq!((from.name.as_str(), from.alias.as_deref()), ("Orders", Some("t")));
    assert!(select.filter.is_some() && select.limit.unwrap().skip.is_some());
    assert_eq!(
        select.order.iter().map(|order| order.descending).collect::<Vec<_>>(),
        [true, false]
    );
    assert!(select.for_update);
}

#[test]
fn a_table_can_have_an_alias_a_hint_and_a_schema() {
    let FromItem::Table(from) =
        query("select 1 from information_schema.tables t").from.remove(0).item
    else {
        panic!()
    };
    assert_eq!(from.schema.as_deref(), Some("information_schema"));
    assert_eq!((from.name.as_str(), from.alias.as_deref()), ("tables", Some("t")));
    query("@{LOCK_SCANNED_RANGES=exclusive} SELECT a FROM t@{FORCE_INDEX=_BASE_TABLE} AS u");
    let FromItem::Table(from) = query("SELECT 1 FROM t@{FORCE_INDEX=i}").from.remove(0).item else {
        panic!()
    };
    assert_eq!(from.index.unwrap().text, "i");
    query("SELECT a FROM t@{FORCE_INDEX=i, spanner_emulator.disable_index_check=true}");
    query("@{OPTIMIZER_VERSION=8, use_additional_parallelism=TRUE} SELECT a, FROM t");
}

#[test]
fn rows_come_from_values_or_from_a_query() {
    let source = |text: &str| match parsed(text) {
        Statement::Insert(insert) => (insert.columns.len(), insert.source),
        other => panic!("{other:?}"),
    };
    let (columns, values) = source("INSERT INTO t (a, b) VALUES (1, 2), (3, NULL)");
    assert!(matches!(values, Source::Values(rows) if rows.len() == 2) && columns == 2);
    let (_, query) = source("insert into t (a) select a from u where a > 1");
    assert!(matches!(query, Source::Query(_)));
    assert!(matches!(parsed("DELETE t WHERE true"), Statement::Delete(_)));
    let Statement::Update(update) = parsed("UPDATE t AS u SET a = u.a + 1, b = NULL WHERE TRUE")
    else {
        panic!()
    };
    assert_eq!((update.assignments.len(), update.table.alias.as_deref()), (2, Some("u")));
}

#[test]
fn trees_are_equal_when_they_say_the_same() {
    assert_eq!(parsed("SELECT a = 1"), parsed("select\n  a=1 -- one"));
    assert_ne!(parsed("SELECT a = 1"), parsed("SELECT a = 2"));
    let negated = ExprKind::Binary(
        super::super::ast::BinaryOp::Compare(Comparison::NotEqual),
        Box::new(Expr::new(Pos::START, ExprKind::Column { table: None, name: "a".into() })),
        Box::new(Expr::new(Pos::START, ExprKind::Literal(Literal::Integer(1)))),
    );
    let expected = Item::Expr { expr: Expr::new(Pos::START, negated), alias: None };
    assert_eq!(query("SELECT a <> 1").items, [expected]);
}

#[test]
fn nesting_is_bounded_in_every_direction_before_the_stack_is() {
    // Half of what a runtime's worker thread has.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let thread = small.spawn(|| {
        let deep = |open: &str, inner: &str, close: &str, levels: usize| {
            format!("SELECT {}{inner}{}", open.repeat(levels), close.repeat(levels))
        };
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("NOT ", "a", ""),
            ("- ", "a", ""),
            ("+ ", "a", ""),
            ("", "1", " + 1"),
            ("", "a", " || a"),
            ("f(", "1", ")"),
            ("CASE WHEN true THEN ", "1", " END"),
            ("CASE ", "1", " WHEN 1 THEN 1 END"),
            ("(1 + ", "1", ")"),
            ("a IN (", "1", ")"),
            ("a IN UNNEST(", "a", ")"),
            ("[", "1", "]"),
            ("CAST(", "1", " AS INT64)"),
            ("a LIKE (", "a", ")"),
            ("EXISTS(SELECT ", "1", ")"),
            ("EXISTS(SELECT 1 FROM t WHERE ", "true", ")"),
            ("EXISTS(SELECT 1 ORDER BY ", "true", ")"),
            ("(SELECT ", "1", ")"),
            ("a IN (SELECT ", "1", ")"),
            ("1 FROM (SELECT ", "1", ")"),
        ] {
            let fits =
                deep(open, inner, close, if open.contains("SELECT") { 3 } else { MAX_DEPTH - 2 });
            parsed(&fits);
            for levels in [MAX_DEPTH + 1, 1_000, 20_000] {
                let error = parse_statement(&deep(open, inner, close, levels)).unwrap_err();
                assert!(error.to_string().contains("nested more than"), "{open}: {error}");
            }
        }
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn long_chains_are_flat_and_long_texts_are_refused() {
    parsed(&format!("SELECT a{}", " AND a".repeat(10_000)));
    parsed(&format!("SELECT a{}", " OR a AND b".repeat(10_000)));
    let text = format!("SELECT '{}'", "é".repeat(MAX_STATEMENT_CHARS));
    assert_eq!(parse_statement(&text).unwrap_err().code(), Code::InvalidArgument);
    parsed(&format!("SELECT '{}'", "é".repeat(MAX_STATEMENT_CHARS - 9)));
}
