//! One deliberate bug: a file, the text that it replaces, and the test that must notice.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

/// The folder of the mutants, one file each.
pub const LIST: &str = "verify/mutants/list";

/// A deliberate bug, as its file in the list describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name of its file, without the ending.
    #[serde(skip)]
    pub name: String,
    /// Says in a sentence which rule it breaks.
    pub what: String,
    /// A package and the name of its test; without one the model or the simulation must notice.
    pub test: Option<String>,
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
}

/// A text that occurs exactly once in a file, and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub file: String,
    pub old: String,
    pub new: String,
}

/// Reads all mutants of the list, sorted by name.
pub fn read_all(workspace: &Path) -> io::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for entry in fs::read_dir(workspace.join(LIST))? {
        let path = entry?.path();
        let wrong = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", path.display()))
        };
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(wrong(&"expected a file `NAME.toml`"));
        }
        let mut mutant: Mutant =
            toml::from_str(&fs::read_to_string(&path)?).map_err(|error| wrong(&error))?;
        mutant.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        mutants.push(mutant);
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

impl Mutant {
    /// Returns the package and the name of the test that must notice it.
    pub fn test(&self) -> Option<(&str, &str)> {
        self.test.as_deref()?.split_once(' ')
    }

    /// Returns the package that is tested and the first file that it edits: a build takes over most of the last one of
    /// the same.
    pub fn built(&self) -> [&str; 2] {
        let package = self.test().map_or("", |(package, _)| package);
        [package, self.edits.first().map_or("", |edit| &edit.file)]
    }

    /// Returns each file that it changes, before and after.
    ///
    /// Fails where a text doesn't occur exactly once, or where nothing is changed.
    pub fn mutated(&self, workspace: &Path) -> Result<Vec<Mutated>, String> {
        let mut by_file: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
        for edit in &self.edits {
            by_file.entry(&edit.file).or_default().push(edit);
        }
        if by_file.is_empty() {
            return Err(format!("mutant `{}` has no edit", self.name));
        }
        let mutate = |(file, edits): (&str, Vec<&Edit>)| {
            let wrong = |error: String| format!("mutant `{}`: {file}: {error}", self.name);
            let before = fs::read_to_string(workspace.join(file))
                .map_err(|error| wrong(error.to_string()))?;
            let after = replace(&before, &edits).map_err(wrong)?;
            Ok(Mutated { file: file.to_string(), before, after })
        };
        by_file.into_iter().map(mutate).collect()
    }
}

/// A file that a mutant changes.
#[derive(Debug)]
pub struct Mutated {
    pub file: String,
    pub before: String,
    pub after: String,
}

/// Replaces each text; all are looked for in the source as it was.
fn replace(source: &str, edits: &[&Edit]) -> Result<String, String> {
    let mut places = Vec::new();
    for edit in edits {
        let mut found = source.match_indices(&edit.old);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            let times = source.matches(&edit.old).count();
            return Err(format!("expected this text once, found it {times} times:\n{}", edit.old));
        };
        if edit.old.is_empty() || edit.old == edit.new {
            return Err("an edit changes nothing".to_string());
        }
        places.push((at, *edit));
    }
    places.sort_by_key(|(at, _)| *at);
    let mut after = String::new();
    let mut copied = 0;
    for (at, edit) in places {
        let between = source.get(copied..at).ok_or("two edits overlap")?;
        after += between;
        after += &edit.new;
        copied = at + edit.old.len();
    }
    Ok(after + &source[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;

    fn edit(old: &str, new: &str) -> Edit {
        Edit { file: "a.rs".into(), old: old.into(), new: new.into() }
    }

    #[test]
    fn a_text_that_occurs_once_is_replaced() {
        let edits = [edit("three", "3"), edit("one", "1")];
        let edits: Vec<&Edit> = edits.iter().collect();
        assert_eq!(replace("one two three", &edits).as_deref(), Ok("1 two 3"));
    }

    #[test]
    fn a_text_that_is_missing_or_occurs_twice_is_refused() {
        for (source, times) in [("two", "0 times"), ("one one", "2 times")] {
            let error = replace(source, &[&edit("one", "1")]).expect_err("not once");
            assert!(error.contains(times), "{error}");
        }
    }

    #[test]
    fn an_edit_that_changes_nothing_or_overlaps_another_is_refused() {
        assert!(replace("one", &[&edit("one", "one")]).is_err());
        assert!(replace("one two", &[&edit("one t", "1"), &edit("two", "2")]).is_err());
    }

    #[test]
    fn every_mutant_applies_and_its_test_exists() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::read(&workspace).expect("the sources");
        let mutants = read_all(&workspace).expect("the mutants");
        assert!(!mutants.is_empty());
        let mut wrong = Vec::new();
        for mutant in &mutants {
            wrong.extend(mutant.mutated(&workspace).err());
            if mutant.test.is_some() {
                wrong.extend(sources.test(mutant).err());
            }
            if mutant.what.is_empty() {
                wrong.push(format!("mutant `{}` doesn't say what it breaks", mutant.name));
            }
        }
        assert!(wrong.is_empty(), "mutants to mend:\n{}", wrong.join("\n"));
    }
}
