//! The public API of the library as a file, so that a review sees each change of it.

use std::fs;
use std::process::Command;

use public_api::{Builder, MINIMUM_NIGHTLY_RUST_VERSION};
use serde_json::Value;

const KEPT: &str = "docs/public-api.txt";
const JSON: &str = "target/doc/spindle.json";
/// The form of rustdoc's JSON that `public-api` reads.
const FORMAT: u64 = 57;

/// Fails if the public API is not the one that is kept, or cannot be told here; or keeps it.
pub fn check(write: bool) -> Result<String, String> {
    let found = match listed()? {
        Ok(found) => found,
        Err(why) => return Err(format!("!! THE PUBLIC API WAS NOT COMPARED: {why}")),
    };
    if write {
        fs::write(KEPT, found).map_err(|error| format!("{KEPT}: {error}"))?;
        return Ok(format!("{KEPT}: written"));
    }
    let kept = fs::read_to_string(KEPT).map_err(|error| format!("{KEPT}: {error}"))?;
    let only = |lines: &str, others: &str, sign: char| -> String {
        let others: std::collections::BTreeSet<&str> = others.lines().collect();
        lines
            .lines()
            .filter(|line| !others.contains(line))
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    let changes = only(&kept, &found, '-') + &only(&found, &kept, '+');
    if changes.is_empty() {
        return Ok(format!("api: {} lines, as kept", kept.lines().count()));
    }
    Err(format!(
        "{changes}{KEPT} is not the public API; if it ought to be: `cargo run -p spindle-tidy -- api --write`"
    ))
}

/// The public API, an item a line; or why it can't be told here.
fn listed() -> Result<Result<String, String>, String> {
    let rustdoc = fs::canonicalize(".ci/rustdoc-json")
        .map_err(|error| format!(".ci/rustdoc-json: {error}"))?;
    let status = Command::new("cargo")
        .args(["doc", "--quiet", "--workspace", "--no-deps", "--all-features"])
        .env("RUSTDOC", rustdoc)
        // Cargo tells by the flags that the pages of another run are not what is asked for.
        .env("RUSTDOCFLAGS", "--cfg api")
        .status()
        .map_err(|error| format!("cargo doc: {error}"))?;
    if !status.success() {
        return Ok(Err("rustdoc writes no JSON here".to_string()));
    }
    let text = fs::read_to_string(JSON).map_err(|error| format!("{JSON}: {error}"))?;
    let format = serde_json::from_str::<Value>(&text)
        .map_err(|error| format!("{JSON}: {error}"))?["format_version"]
        .as_u64();
    if format != Some(FORMAT) {
        return Ok(Err(format!(
            "rustdoc's JSON has form {format:?}; expected {FORMAT}, of about {MINIMUM_NIGHTLY_RUST_VERSION}"
        )));
    }
    let api = Builder::from_rustdoc_json(JSON)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| format!("{JSON}: {error}"))?;
    Ok(Ok(api.items().map(|item| format!("{item}\n")).collect()))
}
