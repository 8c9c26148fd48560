//! Links between the pages of the docs, and the figures that the model printed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn safety_md_names_the_scenarios_that_the_model_printed_and_their_states_add_up() {
    let figures = fs::read_to_string("docs/figures.md").unwrap();
    let (_, section) = figures.split_once("\n## model\n").unwrap();
    let lines: Vec<&str> = section.split("\n## ").next().unwrap().lines().map(str::trim).collect();
    let states = |line: &str| -> u64 {
        let (_, states) = line.split_once(" states=").unwrap();
        states.split(' ').next().unwrap().parse().unwrap()
    };
    let total = lines.iter().find(|line| line.starts_with("model: ok ")).unwrap();
    let mut printed = BTreeSet::new();
    let mut sum = 0;
    for line in lines.iter().filter(|line| line.contains(" states=") && *line != total) {
        let (name, _) = line.split_once(" states=").unwrap();
        printed.insert(name.trim());
        sum += states(line);
    }
    assert_eq!(sum, states(total));
    let page = fs::read_to_string("docs/safety.md").unwrap();
    let tables = page.lines().filter(|line| line.starts_with("| "));
    let cells = tables.flat_map(|line| line.split('|')).flat_map(|cell| cell.split(", "));
    let named: BTreeSet<&str> = cells.map(str::trim).collect();
    let missing: Vec<_> = printed.difference(&named).collect();
    assert!(!printed.is_empty() && missing.is_empty(), "docs/safety.md: {missing:?}");
}

/// Of links to other pages and files of the repository, with their anchors.
#[test]
fn a_link_in_the_docs_leads_somewhere_and_the_index_has_each_page() {
    let docs = fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "crates/cli/README.md",
        "crates/emulator/README.md",
    ];
    let pages: Vec<PathBuf> = docs.chain(others.map(PathBuf::from)).collect();
    let is_part = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
    let anchor = |heading: &str| heading.to_lowercase().chars().filter(is_part).collect::<String>();
    let mut wrong = Vec::new();
    let mut linked = BTreeSet::new();
    for page in &pages {
        for link in fs::read_to_string(page).unwrap().split("](").skip(1) {
            let (link, _) = link.split_once(')').unwrap();
            let (path, name) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            if link.contains("://") {
                continue;
            }
            linked.insert((page.clone(), target.clone()));
            let text = fs::read_to_string(&target).unwrap_or_default();
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors =
                headings.map(|it| anchor(it.trim_start_matches('#').trim()).replace(' ', "-"));
            if !target.exists() || !name.is_empty() && !anchors.any(|it| it == name) {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    let index = Path::new("docs/README.md");
    let listed = |page: &Path| linked.contains(&(index.to_path_buf(), page.to_path_buf()));
    let missing = pages.iter().filter(|it| it.starts_with("docs") && it != &index && !listed(it));
    wrong.extend(missing.map(|page| format!("{}: no {}", index.display(), page.display())));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
