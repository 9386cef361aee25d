//! The words of a command line.

use anyhow::{Result, bail};

/// The words of a command: separated by white space, except between quotation marks. A backslash
/// takes the next character as it is, but not between single quotation marks, and not on Windows,
/// where it separates folders.
///
/// # Errors
/// If a quotation mark is not closed, or there is no word.
pub(super) fn words(command: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) if !cfg!(windows) => {
                word.get_or_insert_default().extend(chars.next());
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        bail!("the command {command:?} has a {quote} without a second one");
    }
    words.extend(word);
    match words.is_empty() {
        true => bail!("expected a command that starts an MCP server, found an empty one"),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotation_marks() {
        let split = |command| words(command).unwrap();
        assert_eq!(split(" python  server.py\t-v "), ["python", "server.py", "-v"]);
        assert_eq!(split(r#"a "b c"'d "e' """#), ["a", "b cd \"e", ""]);
        if !cfg!(windows) {
            assert_eq!(split(r#"a\ b "c\"d" '\e'"#), ["a b", "c\"d", "\\e"]);
        }
        for bad in ["", "  ", "a 'b", "\""] {
            words(bad).unwrap_err();
        }
    }
}
