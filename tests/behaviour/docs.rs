//! The docs quote code that runs.

#[test]
fn the_page_on_testing_quotes_the_test_that_runs_here() {
    quotes(include_str!("../../docs/testing.md"), include_str!("service.rs"), 1);
}

#[test]
fn the_page_on_a_service_quotes_the_example_that_is_tested_here() {
    quotes(include_str!("../../docs/service.md"), include_str!("../../examples/service.rs"), 6);
}

/// Asserts that all code of the page stands in this file, in so many parts.
fn quotes(page: &str, file: &str, count: usize) {
    let parts: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert_eq!(parts.len(), count);
    for part in parts {
        let (part, _) = part.split_once("```").unwrap();
        assert!(file.contains(part), "the file has no such lines:\n{part}");
    }
}

/// Types whose example is that of the item that makes them.
const SHOWN_BY: [(&str, &str); 26] = [
    ("Builder", "pub struct Member"),
    ("Ddl", "pub const fn ddl"),
    ("Evict", "pub fn evict"),
    ("FencedTransaction", "pub fn transaction"),
    ("History", "pub fn history"),
    ("Job", "pub fn job(self)"),
    ("JobOutcome", "pub fn run_once"),
    ("JobRun", "pub async fn finish_in"),
    ("JobState", "pub async fn jobs"),
    ("LockBuilder", "pub fn build"),
    ("LockList", "pub fn list"),
    ("LockState", "pub struct LockTable"),
    ("MemberState", "pub fn new(table: &LockTable, group: impl Into<String>) -> Members {"),
    ("Members", "pub fn new(table: &LockTable, group: impl Into<String>) -> Members {"),
    ("PastTerm", "pub fn history"),
    ("Permit", "pub struct Semaphore"),
    ("ReadGuard", "pub struct RwLock"),
    ("Resign", "pub fn resign(&self)"),
    ("RunHandle", "pub struct Spindle"),
    ("Shard", "pub fn run"),
    ("ShardCount", "pub async fn resize("),
    ("ShardEvent", "pub fn mine"),
    ("ShardEvents", "pub fn mine"),
    ("Shards", "pub fn run"),
    ("TermChange", "pub struct TermWatch"),
    ("WriteGuard", "pub struct RwLock"),
];
/// Types that a user only reads, by their fields, or never names.
const NEED_NONE: [&str; 19] = [
    "Cause",
    "Clock",
    "Contact",
    "Ended",
    "Failing",
    "HistoryEnd",
    "Holding",
    "Orders",
    "ReleaseOutcome",
    "Role",
    "RowRole",
    "Skip",
    "SlotRecord",
    "SlotState",
    "Snapshot",
    "TaskResult",
    "TermEnd",
    "Trouble",
    "Why",
];

#[test]
fn every_public_type_has_an_example_or_is_shown_by_what_makes_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders =
        vec![root.join("src"), root.join("crates/fleet/src"), root.join("crates/protocol/src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => sources.push(std::fs::read_to_string(entry).unwrap()),
            }
        }
    }
    // The comment before an item that begins so, in any file.
    let has_example = |item: &str| {
        sources.iter().any(|source| {
            let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
            let is_item = |line: &str| {
                let rest = line.strip_prefix(item);
                rest.is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            };
            lines.iter().enumerate().filter(|(_, line)| is_item(line)).any(|(at, _)| {
                let above = lines[..at]
                    .iter()
                    .rev()
                    .take_while(|line| !line.is_empty() && !line.starts_with('}'));
                above.into_iter().any(|line| line.starts_with("/// ```"))
            })
        })
    };
    let lists = [
        include_str!("../../docs/public-api.txt"),
        include_str!("../../docs/public-api-fleet.txt"),
    ];
    let listed = lists.into_iter().flat_map(str::lines).filter_map(|line| {
        let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
        let (kind, path) = line.strip_prefix("pub ")?.split_once(' ')?;
        let name = path.split(['(', '<', ' ']).next()?.trim_end_matches(':').rsplit("::").next()?;
        ["struct", "enum", "trait"].contains(&kind).then(|| (kind.to_string(), name.to_string()))
    });
    let mut count = 0;
    for (kind, name) in listed {
        count += 1;
        let own = has_example(&format!("pub {kind} {name}"));
        let by = SHOWN_BY.iter().find(|(of, _)| *of == name);
        let is_shown = by.is_some_and(|(_, item)| has_example(item));
        let needs_none = NEED_NONE.contains(&name.as_str());
        assert_eq!(usize::from(own) + usize::from(is_shown) + usize::from(needs_none), 1, "{name}");
    }
    assert!(count > 50, "{count}");
}

#[test]
fn every_published_package_carries_its_licences() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = |folder: &std::path::Path| std::fs::read_to_string(folder.join("Cargo.toml"));
    let folders =
        std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut published = 0;
    for folder in folders.chain([root.to_path_buf()]) {
        let Ok(manifest) = manifest(&folder) else { continue };
        if !manifest.contains("license.workspace") && !manifest.contains("license = ")
            || manifest.contains("publish = false")
        {
            continue;
        }
        published += 1;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = std::fs::read_to_string(folder.join(licence));
            assert!(text.is_ok_and(|text| text.len() > 500), "{}: {licence}", folder.display());
        }
    }
    assert_eq!(published, 5, "library, fleet, protocol, embedded Spanner, program");
}
