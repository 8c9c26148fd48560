//! The docs quote code that runs.

#[test]
fn the_page_on_testing_quotes_the_test_that_runs_here() {
    let page = include_str!("../../docs/testing.md");
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("service.rs"))));
}
