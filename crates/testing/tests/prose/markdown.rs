//! The prose of a Markdown document.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::sentences::CODE;

/// The blocks of text of a document: paragraphs and items of lists. Code blocks, tables, headings, HTML
/// and the targets of links are left out. A span of code is [`CODE`].
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

/// The targets of a document's links and pictures that are paths, as a path and a fragment, which may both be empty.
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
