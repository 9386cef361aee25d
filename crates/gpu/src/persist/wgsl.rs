//! The declarations of a kernel's WGSL, as far as [`link`](super::link) needs them.
//!
//! The sources are our own templates, so this reads the part of the language that they use, and
//! refuses the rest.

use std::collections::{HashMap, HashSet};

/// Lexemes of WGSL: words, numbers, single signs, and runs of white space. Comments are left out.
pub(super) fn lexemes(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if first.is_ascii_digit() {
            number_len(rest)
        } else if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if first.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        all.push(&rest[..len]);
        rest = &rest[len..];
    }
    all
}

/// Bytes of the number at the start of a text, with its suffix and a signed exponent.
fn number_len(text: &str) -> usize {
    let hex = text.starts_with("0x");
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let sign = (c == '-' || c == '+') && !hex && matches!(before, 'e' | 'E');
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || sign) {
            return at;
        }
        before = c;
    }
    text.len()
}

pub(super) fn is_space(token: &str) -> bool {
    token.starts_with(char::is_whitespace)
}

pub(super) fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The index of the sign that closes the one at `open`.
pub(super) fn closing(lexemes: &[&str], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, &token) in lexemes.iter().enumerate().skip(open) {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            _ => continue,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A storage buffer of a kernel.
#[derive(Debug)]
pub(super) struct Storage<'a> {
    pub(super) binding: usize,
    pub(super) writes: bool,
    pub(super) name: &'a str,
    /// The type, with aliases replaced and without spaces.
    pub(super) ty: String,
}

/// A variable in workgroup memory.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) name: &'a str,
    /// The type of an element, with aliases replaced and without spaces.
    pub(super) element: String,
    /// Elements of an array; `None` of a single value.
    pub(super) len: Option<usize>,
}

/// The declarations of a kernel.
#[derive(Debug, Default)]
pub(super) struct Declarations<'a> {
    pub(super) storage: Vec<Storage<'a>>,
    pub(super) shared: Vec<Shared<'a>>,
    /// Constants, aliases, structs and functions, without `main`: their lexemes.
    pub(super) others: Vec<Vec<&'a str>>,
    /// The names of all declarations but `main`.
    pub(super) names: HashSet<&'a str>,
    /// The names of the structs.
    pub(super) structs: HashSet<&'a str>,
    /// The words in functions.
    pub(super) used: HashSet<&'a str>,
    /// The parameters `(builtin, name)` of `main`, and the lexemes of its body with braces.
    pub(super) parameters: Vec<(&'a str, &'a str)>,
    pub(super) body: Vec<&'a str>,
    pub(super) threads: usize,
}

/// Reads the declarations of a kernel; an error says what it has that cannot be linked.
pub(super) fn declarations(text: &str) -> Result<Declarations<'_>, String> {
    let all = lexemes(text);
    let mut found = Declarations::default();
    let mut aliases: HashMap<&str, String> = HashMap::new();
    // an alias may come after its use
    let mut variables = Vec::new();
    let mut at = 0;
    while at < all.len() {
        if is_space(all[at]) || all[at] == ";" {
            at += 1;
            continue;
        }
        let mut attributes = Vec::new();
        while all.get(at) == Some(&"@") {
            let name = *all.get(at + 1).ok_or("an attribute without a name")?;
            at += 2;
            let mut value = "";
            if all.get(at) == Some(&"(") {
                let end = closing(&all, at).ok_or("an open attribute")?;
                value = all.get(at + 1).copied().unwrap_or("");
                at = end + 1;
            }
            attributes.push((name, value));
            while all.get(at).is_some_and(|token| is_space(token)) {
                at += 1;
            }
        }
        let keyword = *all.get(at).ok_or("attributes of nothing")?;
        let block = matches!(keyword, "fn" | "struct");
        let end = match block {
            true => {
                let open = (at..all.len()).find(|&i| all[i] == "{").ok_or("no block")?;
                closing(&all, open).ok_or("an open block")?
            }
            false => (at..all.len()).find(|&i| all[i] == ";").ok_or("an open declaration")?,
        };
        let item = &all[at..=end];
        at = end + 1;
        let words: Vec<&str> = item.iter().copied().filter(|token| !is_space(token)).collect();
        match keyword {
            "var" => variables.push((words, attributes)),
            "fn" => function(item, &words, &attributes, &mut found)?,
            "const" | "alias" | "struct" => {
                let name = words.get(1).copied().ok_or("no name")?;
                found.names.insert(name);
                match keyword {
                    "alias" => {
                        let ty = words.get(3..words.len() - 1).unwrap_or_default();
                        aliases.insert(name, resolved(ty, &aliases));
                    }
                    "struct" => {
                        found.structs.insert(name);
                    }
                    _ => {}
                }
                found.others.push(item.to_vec());
            }
            other => return Err(format!("{other:?} at the top level")),
        }
    }
    for (words, attributes) in &variables {
        variable(words, attributes, &aliases, &mut found)?;
    }
    match found.threads {
        0 => Err("no entry point".to_owned()),
        _ => Ok(found),
    }
}

/// A type without spaces, with aliases replaced.
fn resolved(lexemes: &[&str], aliases: &HashMap<&str, String>) -> String {
    lexemes.iter().map(|token| aliases.get(token).map_or(*token, String::as_str)).collect()
}

fn value<'a>(attributes: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn variable<'a>(
    words: &[&'a str],
    attributes: &[(&'a str, &'a str)],
    aliases: &HashMap<&str, String>,
    found: &mut Declarations<'a>,
) -> Result<(), String> {
    let close = words.iter().position(|&word| word == ">").ok_or("a variable of no space")?;
    let name = words.get(close + 1).copied().ok_or("a variable without a name")?;
    let ty = words.get(close + 3..words.len() - 1).unwrap_or_default();
    let ty = resolved(ty, aliases);
    found.names.insert(name);
    match words.get(2) {
        Some(&"storage") => {
            let binding = value(attributes, "binding").and_then(|n| n.parse().ok());
            let binding = binding.ok_or("a storage buffer without a binding")?;
            let writes = words[..close].contains(&"read_write");
            found.storage.push(Storage { binding, writes, name, ty });
        }
        Some(&"workgroup") => {
            let array = ty.strip_prefix("array<").and_then(|ty| ty.strip_suffix('>'));
            let (element, len) = match array.and_then(|ty| ty.rsplit_once(',')) {
                Some((element, len)) => {
                    let len = len.trim_end_matches('u').parse();
                    (element.to_owned(), Some(len.map_err(|_| "an array of unknown length")?))
                }
                None => (ty, None),
            };
            found.shared.push(Shared { name, element, len });
        }
        other => return Err(format!("a variable in the space {other:?}")),
    }
    Ok(())
}

fn function<'a>(
    item: &[&'a str],
    words: &[&'a str],
    attributes: &[(&'a str, &'a str)],
    found: &mut Declarations<'a>,
) -> Result<(), String> {
    found.used.extend(words.iter().copied().filter(|word| is_word(word)));
    let name = words.get(1).copied().ok_or("a function without a name")?;
    if value(attributes, "compute").is_none() {
        found.names.insert(name);
        found.others.push(item.to_vec());
        return Ok(());
    }
    let threads = value(attributes, "workgroup_size").and_then(|n| n.parse().ok());
    found.threads = threads.ok_or("a workgroup of unknown size")?;
    let close = closing(words, 2).ok_or("open parameters")?;
    // @builtin(NAME) name: type,
    for (at, _) in words[..close].iter().enumerate().filter(|(_, word)| **word == "@") {
        let part = words.get(at..at + 6).ok_or("a parameter that ends")?;
        if part[1] != "builtin" {
            return Err(format!("a parameter with {:?}", part[1]));
        }
        found.parameters.push((part[3], part[5]));
    }
    let open = item.iter().position(|&token| token == "{").ok_or("no body")?;
    found.body = item[open..].to_vec();
    Ok(())
}
