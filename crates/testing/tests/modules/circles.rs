//! Dependencies between the files of a crate, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Path, Sources, Tree};

/// Dependencies between files: for each pair the first path that causes it.
type Edges = BTreeMap<(String, String), String>;

/// The meaning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
    /// An item of another crate, or a local name.
    Outside,
}

/// A bound on chains of re-exports, which may be circular.
const MAX_REEXPORTS: usize = 16;

impl Tree {
    /// Dependencies between the crate's files.
    ///
    /// A path depends on the file that defines the item; re-exports are followed. An import of a
    /// module is no dependency by itself, in contrast to the paths that begin with its name.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (module, from) in self.modules.iter().enumerate() {
            for path in &from.paths {
                for target in self.targets(module, path) {
                    let to = &self.modules[target].file;
                    if *to != from.file {
                        let text = path.segments.join("::") + if path.glob { "::*" } else { "" };
                        edges
                            .entry((from.file.clone(), to.clone()))
                            .or_insert_with(|| format!("line {}: {text}", path.line));
                    }
                }
            }
        }
        edges
    }

    /// The modules that define the items that a path of `module` names.
    fn targets(&self, module: usize, path: &Path) -> Vec<usize> {
        match self.resolve(module, &path.segments, MAX_REEXPORTS) {
            Target::Item(owner) => vec![owner],
            Target::Module(named) if path.glob => self.glob(named),
            Target::Module(named) => {
                // A function may have the name of a module, and one `use` imports both.
                let parent = self.modules[named].parent;
                let name = path.segments.last().map_or("", String::as_str);
                match self.member(parent, name, MAX_REEXPORTS) {
                    Some(Target::Item(owner)) => vec![owner],
                    _ => Vec::new(),
                }
            }
            Target::Outside => Vec::new(),
        }
    }

    /// The modules on which a glob import of a module depends: itself, or if it has no items, those
    /// of its re-exports.
    fn glob(&self, module: usize) -> Vec<usize> {
        let named = &self.modules[module];
        if !named.items.is_empty() {
            return vec![module];
        }
        let imports = named.paths.iter().filter(|path| path.binds.is_some());
        imports
            .filter_map(|path| match self.resolve(module, &path.segments, MAX_REEXPORTS) {
                Target::Item(owner) => Some(owner),
                _ => None,
            })
            .collect()
    }

    fn resolve(&self, from: usize, segments: &[String], fuel: usize) -> Target {
        let mut module = from;
        for (i, segment) in segments.iter().enumerate() {
            let named = match segment.as_str() {
                "crate" => Target::Module(0),
                "self" => Target::Module(module),
                "super" => Target::Module(self.modules[module].parent),
                name => match self.modules[module].children.get(name) {
                    Some(&child) => Target::Module(child),
                    None => match self.member(module, name, fuel) {
                        Some(target) => target,
                        // Other crates and local names, as opposed to members of modules.
                        None if i == 0 => Target::Outside,
                        None => Target::Item(module),
                    },
                },
            };
            match named {
                Target::Module(next) => module = next,
                other => return other,
            }
        }
        Target::Module(module)
    }

    /// An item that a module defines or imports under this name.
    fn member(&self, module: usize, name: &str, fuel: usize) -> Option<Target> {
        let fuel = fuel.checked_sub(1)?;
        let this = &self.modules[module];
        if this.items.contains(name) {
            return Some(Target::Item(module));
        }
        // `use self::name::name` binds an item; `use name` names a module or another crate.
        let import = this.paths.iter().find(|path| path.binds.as_deref() == Some(name));
        if let Some(import) = import {
            if import.segments.len() == 1 && import.segments[0] == name {
                return Some(Target::Outside);
            }
            return Some(self.resolve(module, &import.segments, fuel));
        }
        this.paths.iter().filter(|path| path.glob).find_map(|path| {
            let Target::Module(other) = self.resolve(module, &path.segments, fuel) else {
                return None;
            };
            match self.modules[other].children.get(name) {
                Some(&child) => Some(Target::Module(child)),
                None => self.member(other, name, fuel),
            }
        })
    }
}

/// The circles of a crate: for each the files and the dependencies among them.
pub(crate) fn circles(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        if sources.contains_key(root) {
            found.extend(components(&Tree::read(sources, root).edges()));
        }
    }
    found
}

/// The strongly connected components of more than one file.
fn components(edges: &Edges) -> Vec<String> {
    let files: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<_, _> =
        files.iter().map(|file| (*file, reachable(edges, file))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for file in files {
        let circle: BTreeSet<&String> =
            reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            let mut text = format!("a circle of {} files:", circle.len());
            for ((from, to), path) in edges {
                if circle.contains(from) && circle.contains(to) {
                    text += &format!("\n    {from} -> {to}  ({path})");
                }
            }
            found.push(text);
        }
    }
    found
}

/// The files on which a file depends, directly or not.
fn reachable<'a>(edges: &'a Edges, file: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(from) = open.pop() {
        for ((_, to), _) in edges.iter().filter(|((start, _), _)| start == from) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}
