//! Rules of the repository itself: which module may use which, the listed public API, the stages, the log lines, and what
//! the docs name.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "repository/pages.rs"]
mod pages;

/// `docs/modules.md` lists the modules at the top of `src/`, from the lowest to the highest.
#[test]
fn a_module_uses_only_those_that_stand_above_it_in_the_table_of_modules() {
    let page = fs::read_to_string("docs/modules.md").unwrap();
    let (_, table) = page.split_once("| module | does |").unwrap();
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|'));
    let mut listed: Vec<&str> = Vec::new();
    for row in rows.skip(1) {
        let names = quoted(row.split('|').nth(1).unwrap(), '`');
        listed.extend(names.map(|name| name.trim_end_matches('/')));
    }
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    let mut tops = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in &files {
        let top = file.components().nth(1).unwrap().as_os_str().to_str().unwrap();
        let top = top.trim_end_matches(".rs");
        if top == "lib" {
            continue;
        }
        tops.insert(top.to_string());
        let height = |name: &str| listed.iter().position(|listed| *listed == name);
        for used in used_modules(&fs::read_to_string(file).unwrap()) {
            if height(&used) > height(top) {
                wrong.push(format!("{} uses `{used}`, which is below `{top}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/modules.md: {}", wrong.join("; "));
    assert_eq!(tops, listed.iter().map(|name| (*name).to_string()).collect::<BTreeSet<_>>());
}

/// The first names after `crate::` in code that ships. A re-export is no use.
fn used_modules(text: &str) -> BTreeSet<String> {
    let code = shipped(text);
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let statement = code[..at].rsplit([';', '}']).next().unwrap().trim();
        if statement.starts_with("pub") && statement.ends_with("use") {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let name: String =
            rest.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        assert!(
            !name.is_empty(),
            "one `use crate::` for each module: {}",
            &rest[..rest.len().min(40)]
        );
        used.insert(name);
    }
    used
}

/// A folder's files, its folders and its `mod.rs` use each other in one direction.
#[test]
fn the_files_of_a_folder_use_each_other_in_no_circle() {
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    let mut circles = Vec::new();
    for folder in files.iter().filter(|file| file.ends_with("mod.rs")) {
        let folder = folder.parent().unwrap();
        let within = files.iter().filter(|file| file.starts_with(folder));
        let part = |file: &Path| {
            let inner = file.strip_prefix(folder).unwrap().components().next().unwrap();
            inner.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_string()
        };
        let parts: BTreeSet<String> = within.clone().map(|file| part(file)).collect();
        let hub = shipped(&fs::read_to_string(folder.join("mod.rs")).unwrap());
        let words: Vec<&str> = hub.split(' ').collect();
        let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
        for file in within {
            let code = shipped(&fs::read_to_string(file).unwrap());
            let own = part(file);
            let nested = file.strip_prefix(folder).unwrap().components().count();
            let used = uses.entry(own.clone()).or_default();
            if own == "mod" {
                used.extend(parts.iter().filter(|part| uses_by_name(&code, part)).cloned());
                continue;
            }
            let up = nested - usize::from(file.ends_with("mod.rs"));
            let top = folder.strip_prefix("src").unwrap().to_str().unwrap().replace('/', "::");
            for from in ["super::".repeat(up), format!("crate::{top}::")] {
                for name in names_after(&code, &from) {
                    let exporter = parts.iter().find(|part| exports(&hub, part, &name));
                    let is_own = words.windows(2).any(|pair| {
                        let kinds = ["fn", "struct", "enum", "trait", "type", "const"];
                        kinds.contains(&pair[0]) && leading_name(pair[1]) == name
                    });
                    used.extend(parts.get(&name).or(exporter).cloned());
                    used.extend(is_own.then(|| "mod".to_string()));
                }
            }
            used.remove(&own);
        }
        // A part that uses nothing that is left is in no circle.
        while let Some(part) = uses.iter().find(|(_, used)| used.is_empty()).map(|(part, _)| part) {
            let part = part.clone();
            uses.remove(&part);
            for used in uses.values_mut() {
                used.remove(&part);
            }
        }
        if !uses.is_empty() {
            circles.push(format!("{}: {uses:?}", folder.display()));
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("; "));
}

/// The code without comments and unit tests.
fn shipped(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: Vec<&str> = shipped.lines().map(|line| line.split("//").next().unwrap()).collect();
    code.join(" ")
}

fn leading_name(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

/// The names that stand after `path`, alone or in braces.
fn names_after(code: &str, path: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(path) {
        let is_whole = !code[..at].ends_with(|it: char| it == ':' || it.is_alphanumeric());
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            _ if !is_whole => {}
            Some(group) => {
                let group = group.split(';').next().unwrap();
                names.extend(group.split(['{', ',', ' ']).map(leading_name));
            }
            None => {
                names.insert(leading_name(rest));
            }
        }
    }
    names.remove("");
    names
}

/// Returns true if `mod.rs` re-exports `name` from `part`.
fn exports(hub: &str, part: &str, name: &str) -> bool {
    hub.split(';').filter(|statement| statement.contains("pub")).any(|statement| {
        let names = names_after(statement, &format!("{part}::"));
        names.contains(name)
    })
}

/// Returns true if `mod.rs` uses something of `part`, other than to re-export it.
fn uses_by_name(code: &str, part: &str) -> bool {
    code.split(';')
        .filter(|statement| !(statement.contains("pub") && statement.contains(" use ")))
        .any(|statement| !names_after(statement, &format!("{part}::")).is_empty())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn the_table_of_log_lines_in_operating_md_has_those_that_are_written_and_no_other() {
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    collect(Path::new("crates/cli/src"), &mut files);
    collect(Path::new("crates/fleet/src"), &mut files);
    let mut written = BTreeSet::new();
    for file in &files {
        // A text that goes on in the next line is one text.
        let source = fs::read_to_string(file).unwrap();
        let source: Vec<_> = source.split("\\\n").map(str::trim_start).collect();
        let source = source.concat();
        for level in ["tracing::error!(", "tracing::warn!(", "tracing::info!("] {
            let calls = source.split(level).skip(1);
            written.extend(calls.map(|call| message(call).replace('`', "")));
        }
    }
    let page = fs::read_to_string("docs/operating.md").unwrap();
    let (_, table) = page.split_once("| level | line | meaning, and what to do |").unwrap();
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|')).skip(1);
    let lines = rows.flat_map(|row| quoted(row.split('|').nth(2).unwrap(), '`'));
    let listed: BTreeSet<String> = lines.map(str::to_string).collect();
    assert_eq!(written, listed);
}

/// The last text before the end of the call.
fn message(call: &str) -> &str {
    let mut rest = call;
    loop {
        let (_, text) = rest.split_once('"').expect("a call has a message");
        let (text, after) = text.split_once('"').expect("a text ends");
        if after.trim_start().starts_with(')') {
            return text;
        }
        rest = after;
    }
}

#[test]
fn the_docs_list_the_words_for_how_terms_begin_and_end() {
    let words = |file: &str, function: &str| {
        let source = fs::read_to_string(file).unwrap();
        let (_, body) = source.split_once(function).unwrap();
        quoted(body.split("\n\n").next().unwrap(), '"').map(str::to_string).collect()
    };
    let begins: BTreeSet<String> = words("src/term/origin.rs", "fn origin(");
    let ends: BTreeSet<String> = words("src/error/term_end.rs", "fn as_str(");
    let page = fs::read_to_string("docs/operating.md").unwrap();
    let list = |after: &str| {
        let (_, list) = page.split_once(after).unwrap();
        let list = list.split([';', '|']).next().unwrap();
        quoted(list, '`').map(str::to_string).collect::<BTreeSet<_>>()
    };
    assert_eq!(list("terms that began here: "), begins);
    assert_eq!(list("| `term begins` | this instance holds; `how` is "), begins);
    assert_eq!(list("terms that ended here: "), ends);
    let page = fs::read_to_string("docs/agent.yaml").unwrap();
    let (_, list) = page.split_once("Of `lost`: ").unwrap();
    let list = list.split('.').next().unwrap();
    assert_eq!(list.split(", ").map(str::to_string).collect::<BTreeSet<_>>(), ends);
}

/// Each text between two of these marks.
fn quoted(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// `UPDATE_SNAPSHOTS=yes` writes the list anew. It needs the rustdoc of Rust 1.95, and fails with another.
#[test]
#[ignore = "builds the docs: a stage of the gate of its own"]
fn the_public_api_is_the_listed_one() {
    let rustdoc = fs::canonicalize(".ci/rustdoc-json").unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--quiet", "--workspace", "--no-deps", "--all-features"])
        .env("RUSTDOC", rustdoc)
        // Cargo tells by the flags that the pages of another run are not what is asked for.
        .env("RUSTDOCFLAGS", "--cfg api")
        .status();
    assert!(
        status.unwrap().success(),
        "the public API was not compared: rustdoc writes no JSON here"
    );
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    for (library, list) in [("spindle", "public-api"), ("spindle_fleet", "public-api-fleet")] {
        let json = Path::new(&target).join(format!("doc/{library}.json"));
        public_api::Builder::from_rustdoc_json(json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .expect("the public API was not compared: another form of rustdoc's JSON is needed")
            .assert_eq_or_update(format!("docs/{list}.txt"));
    }
}

#[test]
fn the_map_around_the_library_names_files_that_exist() {
    let page = fs::read_to_string("docs/modules.md").unwrap();
    let (_, map) = page.split_once("| to change, around the library | go to |").unwrap();
    let rows: Vec<&str> =
        map.trim_start().lines().take_while(|line| line.starts_with('|')).collect();
    let names = rows.iter().flat_map(|row| quoted(row, '`'));
    let paths: Vec<&str> = names.filter(|name| name.contains('/')).collect();
    assert!(paths.len() >= rows.len() - 1, "{rows:?}");
    let gone: Vec<&&str> = paths.iter().filter(|path| !Path::new(path).exists()).collect();
    assert!(gone.is_empty(), "docs/modules.md: {gone:?}");
}

/// A stage that no list names would never run.
#[test]
fn each_stage_of_the_gate_is_in_one_of_its_lists() {
    let script = fs::read_to_string(".ci/run").unwrap();
    let (lists, cases) = script.split_once("case $1 in").unwrap();
    let (cases, _) = cases.split_once("esac").unwrap();
    let listed = ["\nnames=(", "\nnightly=("].map(|list| {
        let (_, names) = lists.split_once(list).unwrap();
        names.split_once(')').unwrap().0.split_whitespace()
    });
    let mut listed: Vec<&str> = listed.into_iter().flatten().collect();
    let is_name = |name: &str| name.chars().all(|it| it.is_ascii_lowercase() || it == '-');
    let labels = cases.lines().filter_map(|line| line.strip_prefix("        ")?.split_once(')'));
    let mut stages: Vec<&str> = labels.map(|(name, _)| name).filter(|it| is_name(it)).collect();
    listed.sort_unstable();
    stages.sort_unstable();
    assert_eq!(listed, stages);
}

/// A stage that no job names would never run on GitHub's machines.
#[test]
fn each_stage_of_the_gate_is_in_one_job_and_actions_are_pinned() {
    let list = |name: &str| {
        let listed = Command::new(".ci/run").args(["--list", name]).output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let mut names: Vec<String> =
            String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let jobs = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap();
        let stages = text.lines().filter_map(|line| {
            let (_, stages) = line.trim_start().strip_prefix("- {")?.split_once(key)?;
            Some(stages.split([',', '}']).next().unwrap().to_owned())
        });
        let mut names: Vec<String> = stages
            .flat_map(|it| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(list("gate"), jobs(".github/workflows/ci.yml", " stages: "));
    assert_eq!(list("nightly"), jobs(".github/workflows/nightly.yml", " stage: "));
    let workflows = fs::read_dir(".github/workflows").unwrap().map(|it| it.unwrap().path());
    for file in workflows.chain([PathBuf::from(".github/actions/setup/action.yml")]) {
        let text = fs::read_to_string(&file).unwrap();
        for action in text.split("uses: ").skip(1).map(|it| it.lines().next().unwrap()) {
            let pin = action.split_once('@').map_or("", |(_, pin)| pin);
            let commit = pin.split_once(" # v").map_or("", |(commit, _)| commit);
            let is_commit = commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit());
            assert!(is_commit || action.starts_with("./"), "{}: {action}", file.display());
        }
    }
}

/// Of all tools, the gate finds its own alone, so that the stage has none of those that it needs.
#[cfg(target_os = "linux")]
#[test]
fn a_stage_without_its_tool_is_listed_as_skipped_and_fails_where_no_skip_is_allowed() {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gate-without-go");
    drop(fs::remove_dir_all(&tools));
    fs::create_dir(&tools).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for name in ["awk", "bash", "dirname", "mkdir", "mktemp", "rm", "sort", "tee", "timeout"] {
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
        let found = found.find(|file| file.is_file()).unwrap();
        std::os::unix::fs::symlink(found, tools.join(name)).unwrap();
    }
    let gate = |variables: &[(&str, &str)]| {
        let mut gate = Command::new(tools.join("bash"));
        gate.args([".ci/run", "spannertest"]).env_clear().env("PATH", &tools);
        gate.env("CARGO_TARGET_DIR", &tools).envs(variables.iter().copied());
        let ran = gate.output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        (ran.status.success(), said.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    for variables in [&[][..], &[("CI", "true"), ("STRICT", "0")]] {
        let (passed, said) = gate(variables);
        let expected = ["skipped: spannertest (no Go)", "tests: 0 passed, 0 failed"];
        assert!(passed && said.ends_with(&expected.map(str::to_owned)), "{variables:?}: {said:?}");
    }
    for variables in [("STRICT", "1"), ("CI", "true")] {
        let (passed, said) = gate(&[variables]);
        let expected = "skipped: spannertest (no Go)";
        assert!(!passed && said.last().is_some_and(|it| it == expected), "{variables:?}: {said:?}");
    }
}
