//! The module tree of a crate, with the imports, paths and items of each module.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// The sources of a crate: contents by path relative to `src`, with `/` as separator.
pub(crate) type Sources = BTreeMap<String, String>;

/// A path in the source, such as `crate::device::Device`.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// The name that a `use` binds, or `None` for other paths and for globs.
    pub(crate) binds: Option<String>,
    pub(crate) glob: bool,
}

/// A module, inline or in a file of its own.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) parent: usize,
    pub(crate) children: BTreeMap<String, usize>,
    /// Imports and all other paths of at least two segments.
    pub(crate) paths: Vec<Path>,
    /// Names of the items defined in the module.
    pub(crate) items: BTreeSet<String>,
}

/// All modules that are compiled without `cfg(test)`; the first is the crate root.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
}

impl Tree {
    /// Reads the modules of a crate from its root file, `lib.rs` or `main.rs`.
    pub(crate) fn read(sources: &Sources, root: &str) -> Self {
        let mut tree = Self { modules: Vec::new() };
        tree.add(root, 0);
        tree.scan_file(sources, 0, "");
        tree
    }

    fn add(&mut self, file: &str, parent: usize) -> usize {
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            paths: Vec::new(),
            items: BTreeSet::new(),
        });
        self.modules.len() - 1
    }

    /// Scans a module's file; `folder` is that of its children, empty or with a final `/`.
    fn scan_file(&mut self, sources: &Sources, module: usize, folder: &str) {
        let source = &sources[&self.modules[module].file];
        let tokens = tokens(source);
        let mut at = 0;
        self.scan(sources, &tokens, &mut at, module, folder);
    }

    /// Scans to the `}` that closes the module, or to the end of the file.
    fn scan(
        &mut self,
        sources: &Sources,
        tokens: &[Token],
        at: &mut usize,
        module: usize,
        folder: &str,
    ) {
        let text = |i: usize| tokens.get(i).map_or("", |token| &token.text);
        let mut depth = 0;
        while *at < tokens.len() {
            let token = &tokens[*at];
            match (token.text.as_str(), text(*at + 1)) {
                ("#", "[") => {
                    let end = closing(tokens, *at + 1);
                    let test = is_test(&tokens[*at + 2..end]);
                    *at = end + 1;
                    if test {
                        *at = after_item(tokens, *at);
                    }
                    continue;
                }
                ("mod", name) if !name.is_empty() && text(*at + 2) == ";" => {
                    self.child_file(sources, module, folder, name);
                    *at += 3;
                    continue;
                }
                ("mod", name) if text(*at + 2) == "{" => {
                    let child = self.child(module, name, self.modules[module].file.clone());
                    *at += 3;
                    self.scan(sources, tokens, at, child, &format!("{folder}{name}/"));
                    continue;
                }
                ("use", next) if next != "<" => {
                    let line = token.line;
                    *at += 1;
                    let mut leaves = Vec::new();
                    use_tree(tokens, at, &mut Vec::new(), &mut leaves);
                    leaves.iter_mut().for_each(|leaf| leaf.line = line);
                    self.modules[module].paths.append(&mut leaves);
                    continue;
                }
                ("fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union", _)
                    if depth == 0 =>
                {
                    let name = if text(*at + 1) == "mut" { text(*at + 2) } else { text(*at + 1) };
                    self.modules[module].items.insert(name.to_owned());
                }
                ("macro_rules", "!") => {
                    self.modules[module].items.insert(text(*at + 2).to_owned());
                }
                ("{" | "(" | "[", _) => depth += 1,
                ("}", _) if depth == 0 => {
                    *at += 1;
                    return;
                }
                ("}" | ")" | "]", _) => depth -= 1,
                (_, "::") if token.is_identifier() && !follows_path(tokens, *at) => {
                    let segments = segments(tokens, *at);
                    *at += 2 * segments.len() - 1;
                    if segments.len() > 1 {
                        let line = token.line;
                        let path = Path { segments, line, binds: None, glob: false };
                        self.modules[module].paths.push(path);
                    }
                    continue;
                }
                _ => {}
            }
            *at += 1;
        }
    }

    fn child(&mut self, module: usize, name: &str, file: String) -> usize {
        if let Some(&child) = self.modules[module].children.get(name) {
            return child;
        }
        let child = self.add(&file, module);
        self.modules[module].children.insert(name.to_owned(), child);
        child
    }

    fn child_file(&mut self, sources: &Sources, module: usize, folder: &str, name: &str) {
        if name == "tests" || self.modules[module].children.contains_key(name) {
            return;
        }
        let candidates = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
        let file = candidates.iter().find(|file| sources.contains_key(*file));
        let declared = &self.modules[module].file;
        let file = file.unwrap_or_else(|| {
            panic!("{declared} declares the module {name}, but {} is missing", candidates[0])
        });
        let child = self.child(module, name, file.clone());
        self.scan_file(sources, child, &format!("{folder}{name}/"));
    }
}

/// The identifiers of the path that begins at `at`.
fn segments(tokens: &[Token], mut at: usize) -> Vec<String> {
    let mut segments = vec![tokens[at].text.clone()];
    while let [separator, name, ..] = &tokens[at + 1..]
        && separator.text == "::"
        && name.is_identifier()
    {
        segments.push(name.text.clone());
        at += 2;
    }
    segments
}

/// Whether an identifier continues a path or names a method or field.
fn follows_path(tokens: &[Token], at: usize) -> bool {
    at > 0 && matches!(tokens[at - 1].text.as_str(), "::" | ".")
}

/// Parses a use tree into its leaves, up to and including the `;` or up to `,` or `}`.
fn use_tree(tokens: &[Token], at: &mut usize, prefix: &mut Vec<String>, leaves: &mut Vec<Path>) {
    let depth = prefix.len();
    let mut leaf = Path { segments: Vec::new(), line: 0, binds: None, glob: false };
    let mut group = false;
    while let Some(token) = tokens.get(*at) {
        match token.text.as_str() {
            ";" | "," | "}" => break,
            "{" => {
                group = true;
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token.text != "}") {
                    use_tree(tokens, at, prefix, leaves);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token.text == ","));
                }
            }
            "*" => leaf.glob = true,
            "as" => {
                *at += 1;
                leaf.binds = tokens.get(*at).map(|token| token.text.clone());
            }
            "::" => {}
            name => prefix.push(name.to_owned()),
        }
        *at += 1;
    }
    if depth == 0 && tokens.get(*at).is_some_and(|token| token.text == ";") {
        *at += 1;
    }
    if !group && !prefix.is_empty() {
        // `a::{self}` imports `a`.
        if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
            prefix.pop();
        }
        leaf.segments = prefix.clone();
        if leaf.binds.is_none() && !leaf.glob {
            leaf.binds = prefix.last().cloned();
        }
        leaves.push(leaf);
    }
    prefix.truncate(depth);
}

/// Whether an attribute restricts its item to tests: `cfg(test)` or `cfg(all(test, …))`.
fn is_test(attribute: &[Token]) -> bool {
    let words: Vec<_> = attribute.iter().map(|token| token.text.as_str()).collect();
    matches!(words[..], ["cfg", "(", "test", ")"] | ["cfg", "(", "all", "(", "test", ..])
}

/// The index of the bracket that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}

/// The index after the item at `at`, including its further attributes.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    let import = tokens[at..].iter().find(|token| !matches!(token.text.as_str(), "pub" | "crate"));
    let import = import.is_some_and(|token| token.text == "use");
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "{" if !import => return closing(tokens, at) + 1,
            "{" | "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    at
}
