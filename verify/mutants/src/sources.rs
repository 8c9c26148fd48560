//! The packages of the workspace and their tests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::mutant::Mutant;

/// The packages of the workspace with their Rust sources.
pub struct Sources {
    packages: BTreeMap<String, Package>,
}

struct Package {
    /// Relative to the workspace; empty for the package at its root.
    folder: String,
    /// The texts of the files below `src` and `tests`, by their paths in the workspace.
    files: BTreeMap<String, String>,
}

/// The test that must notice a mutant, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    pub package: String,
    pub name: String,
    /// The file with its function, relative to the workspace.
    pub file: String,
    /// The option of cargo's that selects the binary: `--lib`, `--bins`, or `--test=NAME`.
    pub target: String,
}

impl Test {
    /// Returns true if a line of a program's output says that this test failed.
    pub fn is_listed_in(&self, line: &str) -> bool {
        let modules = line.strip_prefix("    ").and_then(|failed| failed.strip_suffix(&*self.name));
        modules.is_some_and(|modules| modules.is_empty() || modules.ends_with("::"))
    }
}

impl Sources {
    pub fn read(workspace: &Path) -> io::Result<Sources> {
        let root = manifest(workspace)?;
        let members = root.get("workspace").and_then(|it| it.get("members")?.as_array());
        let folders = members.into_iter().flatten().filter_map(|it| it.as_str());
        let mut packages = BTreeMap::new();
        for folder in folders.chain([""]) {
            let place = workspace.join(folder);
            let manifest = manifest(&place)?;
            let name = manifest.get("package").and_then(|it| it.get("name")?.as_str());
            let Some(name) = name else { continue };
            let mut files = BTreeMap::new();
            for part in ["src", "tests"] {
                read_rust(workspace, &place.join(part), &mut files)?;
            }
            packages.insert(name.to_string(), Package { folder: folder.to_string(), files });
        }
        Ok(Sources { packages })
    }

    /// Returns each Rust file, relative to the workspace.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.packages.values().flat_map(|package| package.files.keys()).map(String::as_str)
    }

    /// Returns the test that a mutant names.
    pub fn test(&self, mutant: &Mutant) -> Result<Test, String> {
        let wrong = |what: String| format!("mutant `{}`: {what}", mutant.name);
        let (package, name) =
            mutant.test().ok_or_else(|| wrong("expected `test = \"PACKAGE NAME\"`".to_string()))?;
        let found = self.packages.get(package);
        let found = found.ok_or_else(|| wrong(format!("no package is called `{package}`")))?;
        let (modules, function) = name.rsplit_once("::").unwrap_or(("", name));
        let head = format!("fn {function}(");
        let has_it =
            |(file, text): &(&String, &String)| text.contains(&head) && is_in(file, modules);
        let files: Vec<&String> = found.files.iter().filter(has_it).map(|(file, _)| file).collect();
        let [file] = files[..] else {
            let places = files.len();
            return Err(wrong(format!("expected one test `{name}` in {package}, found {places}")));
        };
        let target = found.target(file);
        let (package, name) = (package.to_string(), name.to_string());
        Ok(Test { package, name, file: file.clone(), target })
    }
}

impl Package {
    /// Returns cargo's option for the binary that has the tests of a file.
    fn target(&self, file: &str) -> String {
        let inside = file.strip_prefix(&self.folder).unwrap_or(file).trim_start_matches('/');
        // A module of the library may keep its tests below `tests/private`.
        match inside.strip_prefix("tests/").filter(|rest| !rest.starts_with("private/")) {
            Some(rest) => {
                let name = rest.split('/').next().unwrap_or(rest);
                format!("--test={}", name.trim_end_matches(".rs"))
            }
            None if self.files.keys().any(|it| it.ends_with("src/lib.rs")) => "--lib".to_string(),
            None => "--bins".to_string(),
        }
    }
}

/// Returns true if a file can have the module of a test: `a::b::tests` is in `a/b.rs`, `a/b/mod.rs`
/// or `a/b/tests.rs`.
fn is_in(file: &str, modules: &str) -> bool {
    let beside =
        if modules == "tests" { "" } else { modules.strip_suffix("::tests").unwrap_or(modules) };
    let is_of = |module: &str, ends: &[&str]| {
        let module = module.replace("::", "/");
        module.is_empty() || ends.iter().any(|end| file.ends_with(&format!("/{module}{end}")))
    };
    is_of(modules, &[".rs", "/mod.rs"]) || is_of(beside, &[".rs", "/mod.rs", "/tests.rs"])
}

fn manifest(folder: &Path) -> io::Result<toml::Table> {
    let file = folder.join("Cargo.toml");
    let manifest = fs::read_to_string(&file)?.parse();
    manifest.map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}

fn read_rust(
    workspace: &Path,
    folder: &Path,
    files: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_rust(workspace, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_in_the_file_of_its_module() {
        assert!(is_in("src/batch/dispatch.rs", "batch::dispatch::tests"));
        assert!(is_in("src/batch/mod.rs", "batch::tests"));
        assert!(is_in("src/run/tests/values.rs", "run::tests::values"));
        assert!(!is_in("src/batch/dispatch.rs", "batch::queues::tests"));
        assert!(!is_in("src/batch/dispatch.rs", "other::dispatch::tests"));
    }
}
