//! The modules of a crate and what each of them names: items, re-exports, paths to elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

/// A module's place in the tree of its crate: `["fence", "serde"]`; the root has none.
pub type Place = Vec<String>;

/// One module as its file has it. Modules within a file belong to the file.
#[derive(Debug, Default)]
pub struct Module {
    pub items: Vec<String>,
    /// Names that `use` brings in, each with the path that it stands for.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Paths that the module names, as written, without those that it only re-exports.
    pub paths: Vec<Vec<String>>,
    /// True if it is a file beside the folder of its children, instead of that folder's `mod.rs`.
    pub is_beside_its_folder: bool,
}

/// Reads all modules of the crate whose root is `root`, without those that only tests have.
pub fn load(root: &Path) -> Result<BTreeMap<Place, Module>, String> {
    let mut modules = BTreeMap::new();
    let directory = root.parent().unwrap_or(Path::new(".")).to_path_buf();
    load_file(root, &directory, Vec::new(), &mut modules)?;
    Ok(modules)
}

fn load_file(
    file: &Path,
    children: &Path,
    place: Place,
    modules: &mut BTreeMap<Place, Module>,
) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let parsed: File =
        syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut reader = Reader::default();
    for item in &parsed.items {
        reader.visit_item(item);
    }
    // Of a root and of a `mod.rs` the children lie in the same folder.
    reader.module.is_beside_its_folder =
        file.parent() != Some(children) && !reader.children.is_empty();
    for name in reader.children {
        let (file, directory) = child(children, &name)?;
        let place = [&place[..], &[name]].concat();
        load_file(&file, &directory, place, modules)?;
    }
    modules.insert(place, reader.module);
    Ok(())
}

fn child(directory: &Path, name: &str) -> Result<(PathBuf, PathBuf), String> {
    let inner = directory.join(name);
    [directory.join(format!("{name}.rs")), inner.join("mod.rs")]
        .into_iter()
        .find(|file| file.exists())
        .map(|file| (file, inner))
        .ok_or_else(|| format!("{}: no file of module `{name}`", directory.display()))
}

#[derive(Default)]
struct Reader {
    module: Module,
    children: Vec<String>,
    /// How many modules within the file are around what is read.
    inline: usize,
}

impl Reader {
    /// Paths of a module within the file, as the file itself would write them.
    fn name(&mut self, mut path: Vec<String>) {
        let ups = path.iter().take_while(|segment| *segment == "super").count().min(self.inline);
        path.drain(..ups);
        if !path.is_empty() {
            self.module.paths.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        if let Some(name) = name(item) {
            self.module.items.push(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        match &item.content {
            None => self.children.push(item.ident.to_string()),
            Some(_) => {
                self.inline += 1;
                visit::visit_item_mod(self, item);
                self.inline -= 1;
            }
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut found);
        for (name, path) in found {
            if matches!(item.vis, Visibility::Inherited) {
                self.name(path.clone());
            }
            self.module.imports.insert(name, path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string());
            self.name(segments.collect());
        }
        visit::visit_path(self, path);
    }
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        UseTree::Name(leaf) => add(&leaf.ident.to_string(), &leaf.ident.to_string(), before, found),
        UseTree::Rename(leaf) => {
            add(&leaf.ident.to_string(), &leaf.rename.to_string(), before, found);
        }
        UseTree::Glob(_) => found.push((format!("*{}", before.join("::")), before.clone())),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, found);
            }
        }
    }
}

fn add(leaf: &str, name: &str, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    if leaf == "self" {
        let name = before.last().cloned().unwrap_or_default();
        found.push((name, before.to_vec()));
    } else {
        found.push((name.to_string(), [before, &[leaf.to_string()]].concat()));
    }
}

/// Returns true if the item is compiled for tests or doctests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition == "doctest"
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}
