//! The module tree of a crate, with the imports, paths and items of each module.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

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
        let file = &self.modules[module].file;
        let tokens: TokenStream =
            sources[file].parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.scan(sources, tokens, module, folder, false);
    }

    /// Scans the tokens of a module, or of a group in it.
    fn scan(
        &mut self,
        sources: &Sources,
        tokens: TokenStream,
        module: usize,
        folder: &str,
        in_group: bool,
    ) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let text = |at: usize| tokens.get(at).map(text).unwrap_or_default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let line = token.span().start().line;
            let before = |n: usize| at.checked_sub(n).map(text).unwrap_or_default();
            match [text(at), text(at + 1), text(at + 2)].each_ref().map(String::as_str) {
                ["#", "[", _] if is_test(&tokens[at + 1]) => at = end_of_item(&tokens, at + 2),
                ["#", "[", _] => at += 1,
                ["mod", name, ";"] => self.child_file(sources, module, folder, name),
                ["mod", name, "{"] => {
                    let child = self.child(module, name, self.modules[module].file.clone());
                    let folder = format!("{folder}{name}/");
                    self.scan(sources, inside(&tokens[at + 2]), child, &folder, false);
                    at += 2;
                }
                ["use", next, _] if next != "<" => {
                    let first = at + 1;
                    at = end_of_item(&tokens, at);
                    leaves(&tokens[first..at], &[], line, &mut self.modules[module].paths);
                }
                [
                    "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union",
                    name,
                    next,
                ] if !in_group && before(1) != "'" => {
                    let name = if name == "mut" { next } else { name };
                    self.modules[module].items.insert(name.to_owned());
                }
                ["macro_rules", "!", name] => {
                    self.modules[module].items.insert(name.to_owned());
                }
                ["(" | "[" | "{", ..] => {
                    self.scan(sources, inside(token), module, folder, true);
                }
                [_, ":", ":"] if matches!(token, TokenTree::Ident(_)) => {
                    let before = before(2) + &before(1);
                    // a name after a path, or that of a method, begins none
                    let begins = before != "::" && (!before.ends_with('.') || before == "..");
                    let segments = segments(&tokens[at..]);
                    at += 3 * (segments.len() - 1);
                    if begins && segments.len() > 1 {
                        let path = Path { segments, line, binds: None, glob: false };
                        self.modules[module].paths.push(path);
                    }
                }
                _ => {}
            }
            at += 1;
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

/// A word or a character; of a group the bracket that opens it.
fn text(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Parenthesis => "(".to_owned(),
            Delimiter::Bracket => "[".to_owned(),
            Delimiter::Brace => "{".to_owned(),
            Delimiter::None => String::new(),
        },
        other => other.to_string(),
    }
}

/// The tokens of a group; none of other tokens.
fn inside(token: &TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) => group.stream(),
        _ => TokenStream::new(),
    }
}

/// The identifiers of the path that tokens begin with.
fn segments(tokens: &[TokenTree]) -> Vec<String> {
    let mut segments = vec![text(&tokens[0])];
    for next in tokens[1..].chunks_exact(3) {
        match (&*text(&next[0]), &*text(&next[1]), &next[2]) {
            (":", ":", TokenTree::Ident(name)) => segments.push(name.to_string()),
            _ => break,
        }
    }
    segments
}

/// Adds the paths of a use tree, whose paths all begin with `prefix`.
fn leaves(tree: &[TokenTree], prefix: &[String], line: usize, found: &mut Vec<Path>) {
    for tokens in tree.split(|token| text(token) == ",").filter(|tokens| !tokens.is_empty()) {
        let words = tokens.iter().filter(|token| matches!(token, TokenTree::Ident(_)));
        let mut segments: Vec<String> = prefix.iter().cloned().chain(words.map(text)).collect();
        let last = &tokens[tokens.len() - 1];
        if text(last) == "{" {
            let inner: Vec<TokenTree> = inside(last).into_iter().collect();
            leaves(&inner, &segments, line, found);
            continue;
        }
        let glob = text(last) == "*";
        let mut binds = None;
        if let [.., keyword, name] = &segments[..]
            && keyword == "as"
        {
            binds = Some(name.clone());
            segments.truncate(segments.len() - 2);
        }
        // `a::{self}` imports `a`
        segments.pop_if(|last| last == "self" && !prefix.is_empty());
        let binds = binds.or_else(|| segments.last().cloned()).filter(|_| !glob);
        found.push(Path { segments, line, binds, glob });
    }
}

/// Whether an attribute restricts its item to tests: `cfg(test)` or `cfg(all(test, …))`.
fn is_test(attribute: &TokenTree) -> bool {
    let text = inside(attribute).to_string().replace(char::is_whitespace, "");
    text == "cfg(test)" || text.starts_with("cfg(all(test")
}

/// The index of the last token of the item at `at`, with its further attributes.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_import = tokens[at..]
        .iter()
        .map(text)
        .find(|text| !matches!(&**text, "pub" | "("))
        .is_some_and(|text| text == "use");
    let is_end = |token: &TokenTree| match &*text(token) {
        ";" => true,
        "{" => !is_import,
        _ => false,
    };
    tokens[at..].iter().position(is_end).map_or(tokens.len(), |length| at + length)
}
