//! The values of expressions.

use spindle_emulator::engine::Code;
use spindle_emulator::sql::MAX_DEPTH;

use crate::memory::Memory;

#[test]
fn whatever_can_be_parsed_can_be_evaluated_on_half_a_small_stack() {
    // Half of what a runtime's worker thread has.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let thread = small.spawn(|| {
        let world = Memory::with_orders();
        for (open, inner, close) in [
            ("NOT ", "true", ""),
            ("- ", "id", ""),
            ("1 + 1 + (", "1.5", " + 2) - 1"),
            ("CONCAT('x', ", "note", ")"),
            ("COALESCE(", "1", ")"),
            ("NULLIF(", "1", ", 2)"),
            ("IF(true, ", "1", ", 2)"),
            ("CASE WHEN true THEN ", "1", " END"),
            ("CASE ", "1", " WHEN 1 THEN 1 END"),
            ("true IN (", "true", ")"),
            ("true = (", "true", ")"),
            ("1 + (", "1.5", ")"),
            ("1 / (", "NUMERIC '1'", ")"),
            ("SUBSTR(", "note", ", 1, 5)"),
            ("LOWER(", "note", ")"),
            ("ABS(", "id", ")"),
            ("SAFE_CAST(", "id", " AS INT64)"),
        ] {
            let expr =
                format!("{}{inner}{}", open.repeat(MAX_DEPTH - 2), close.repeat(MAX_DEPTH - 2));
            let rows = world.rows(&format!("SELECT {expr} FROM Orders WHERE shard = 2"));
            assert_eq!(rows.len(), 2, "{expr}");
        }
        for (open, inner, close) in [
            ("CAST(CAST(", "id", " AS STRING) AS INT64)"),
            ("ARRAY_LENGTH([", "id", "])"),
            ("true IN UNNEST([paid, ", "paid", "])"),
            ("CAST('x' LIKE ", "note", " AS STRING)"),
        ] {
            let expr = format!(
                "{}{inner}{}",
                open.repeat(MAX_DEPTH / 2 - 1),
                close.repeat(MAX_DEPTH / 2 - 1)
            );
            let rows = world.rows(&format!("SELECT {expr} FROM Orders WHERE shard = 2"));
            assert_eq!(rows.len(), 2, "{expr}");
        }
        let exists = "EXISTS (SELECT 1 FROM Flags WHERE NOT NOT NOT NOT NOT ";
        let expr = format!("{}v IS NULL{}", exists.repeat(3), ")".repeat(3));
        assert_eq!(world.one(&expr), "true");
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn a_sum_of_hundreds_is_added_up_from_left_to_right() {
    let world = Memory::with_orders();
    for (text, value) in [
        (format!("1{}", " + 1".repeat(200)), "201"),
        (format!("10{}", " - 1 + 2".repeat(100)), "110"),
        ("7 - 2 - 1".to_owned(), "4"),
        ("64 / 4 / 2".to_owned(), "8.0"),
        ("1 + 2 + 0.5 - 1 + NUMERIC '1'".to_owned(), "3.5"),
        ("(1 + 2 + 3) - (1 + 2 - 3) - 1".to_owned(), "5"),
        (format!("LENGTH('a'{})", " || 'b'".repeat(200)), "201"),
        ("1 + 2 + CAST(NULL AS INT64) IS NULL".to_owned(), "true"),
    ] {
        assert_eq!(world.one(&text), value, "{text}");
    }
    assert_eq!(world.error("SELECT 1 + NULL + 1"), Code::InvalidArgument);
    assert_eq!(world.error("SELECT 1 + 1 + 'a'"), Code::InvalidArgument);
}

#[test]
fn a_product_of_tables_that_would_fill_the_memory_is_refused() {
    let world = Memory::with_orders();
    // Of five rows each, so that they have 390,625 in the end.
    let tables: Vec<String> = (0..8).map(|at| format!("Orders t{at}")).collect();
    let query = format!("SELECT * FROM {}", tables.join(" CROSS JOIN "));
    // Its rows would be a long message.
    let Err(refused) = world.run(&query) else { panic!("not refused") };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("bytes of rows"), "{refused}");
}

#[test]
fn a_product_of_few_rows_of_long_texts_is_refused_too() {
    let world = Memory::new("CREATE TABLE Pages (id INT64, text STRING(MAX)) PRIMARY KEY (id)");
    let text = "a".repeat(100_000);
    for id in 0..12 {
        world.run(&format!("INSERT INTO Pages (id, text) VALUES ({id}, '{text}')")).unwrap();
    }
    let two = "Pages a CROSS JOIN Pages b WHERE a.text = b.text";
    assert_eq!(world.rows(&format!("SELECT COUNT(*) FROM {two}")), ["144"]);
    // 1,728 rows of 300 kB each.
    let three = two.replace("WHERE", "CROSS JOIN Pages c WHERE b.text = c.text AND");
    assert_eq!(world.error(&format!("SELECT COUNT(*) FROM {three}")), Code::ResourceExhausted);
}

#[test]
fn a_pattern_that_would_take_minutes_is_refused() {
    let long = format!("SELECT LOWER('{}') LIKE '%{}b'", "a".repeat(900_000), "a".repeat(50_000));
    assert_eq!(Memory::with_orders().error(&long), Code::ResourceExhausted);
}
