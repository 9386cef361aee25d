//! The prose of a Markdown document.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::sentences::CODE;

/// The blocks of text of a document: paragraphs and items of lists. Code blocks, tables, headings,
/// HTML and the targets of links are left out. A span of code is [`CODE`].
pub(crate) fn blocks(document: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut skipped = 0;
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        let (text, begins) = match &event {
            Event::Start(
                Tag::CodeBlock(_) | Tag::Table(_) | Tag::Heading { .. } | Tag::HtmlBlock,
            ) => {
                skipped += 1;
                ("", true)
            }
            Event::End(
                TagEnd::CodeBlock | TagEnd::Table | TagEnd::Heading(_) | TagEnd::HtmlBlock,
            ) => {
                skipped -= 1;
                ("", true)
            }
            Event::Start(Tag::Paragraph | Tag::Item)
            | Event::End(TagEnd::Paragraph | TagEnd::Item) => ("", true),
            Event::Text(text) => (text.as_ref(), false),
            Event::SoftBreak | Event::HardBreak => (" ", false),
            Event::Code(_) => ("", false),
            _ => continue,
        };
        if begins {
            blocks.push(String::new());
        } else if let Some(block) = blocks.last_mut().filter(|_| skipped == 0) {
            block.push_str(text);
            if matches!(event, Event::Code(_)) {
                block.push(CODE);
            }
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

/// The targets of a document's links and pictures that are paths, as a path and a fragment, which
/// may both be empty.
pub(crate) fn links(document: &str) -> Vec<(String, String)> {
    let targets =
        Parser::new_ext(document, Options::ENABLE_TABLES).filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url)
            }
            _ => None,
        });
    let paths = targets.filter(|target| !target.contains("://"));
    paths
        .map(|target| {
            let (path, fragment) = target.split_once('#').unwrap_or((&target, ""));
            (path.to_owned(), fragment.to_owned())
        })
        .collect()
}

/// Endings of files of this repository.
const ENDINGS: [&str; 9] = [".c", ".h", ".md", ".py", ".rs", ".sh", ".toml", ".wgsl", ".yml"];
/// Folders of this repository whose paths are written from its root.
const FOLDERS: [&str; 6] = ["benches/", "bindings/", "crates/", "docs/", "packaging/", "tests/"];
/// Files that a release makes.
const MADE: [&str; 1] = ["pelton-installer.sh"];

/// The code spans of a document that are paths of this repository. A word in capitals stands for
/// any name.
pub(crate) fn paths(document: &str) -> Vec<String> {
    let is_path = |code: &str| {
        !MADE.contains(&code)
            && !code.starts_with('/')
            && code.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
            && (ENDINGS.iter().any(|ending| code.ends_with(ending) && code != *ending)
                || FOLDERS.iter().any(|folder| code.starts_with(folder)))
            && !code.split(['/', '.']).any(is_placeholder)
    };
    let codes = Parser::new_ext(document, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Code(code) => Some(code.into_string()),
        _ => None,
    });
    codes.flat_map(|code| expanded(&code)).filter(|code| is_path(code)).collect()
}

/// The paths that a shell makes of `a/{b,c}.d`.
fn expanded(code: &str) -> Vec<String> {
    let parts = code.split_once('{').and_then(|(start, rest)| {
        let (choices, end) = rest.split_once('}')?;
        Some((start, choices, end))
    });
    let Some((start, choices, end)) = parts else { return vec![code.to_owned()] };
    choices.split(',').flat_map(|one| expanded(&format!("{start}{one}{end}"))).collect()
}

/// Whether a part of a path is a word in capitals, except for the names of this repository's
/// documents.
fn is_placeholder(part: &str) -> bool {
    let is_document = matches!(part, "ARCHITECTURE" | "CHANGELOG" | "CONTRIBUTING" | "README");
    !is_document && part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// The fragments that lead to the headings of a document, as forges make them.
pub(crate) fn fragments(document: &str) -> Vec<String> {
    let mut fragments = Vec::new();
    let mut is_heading = false;
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                fragments.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Text(text) | Event::Code(text) if is_heading => {
                let kept = text.to_lowercase().replace(' ', "-");
                let kept = kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c));
                if let Some(fragment) = fragments.last_mut() {
                    fragment.extend(kept);
                }
            }
            _ => {}
        }
    }
    fragments
}
