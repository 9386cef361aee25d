//! Texts of several lines in an input of lines.

/// The marker around a text of several lines.
const BLOCK: &str = "\"\"\"";

/// Whether an input is complete: not if it ends with a backslash, or begins with `"""` and has no
/// second one.
pub(crate) fn is_complete(input: &str) -> bool {
    match input.trim_start().strip_prefix(BLOCK) {
        Some(rest) => rest.contains(BLOCK),
        None => !continues(input),
    }
}

/// Whether a line ends with a backslash that is not escaped by another.
fn continues(line: &str) -> bool {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

/// The text of an input, without the markers and the backslashes at the ends of lines.
pub(crate) fn text(input: &str) -> String {
    if let Some(rest) = input.trim_start().strip_prefix(BLOCK) {
        let inner = match rest.rfind(BLOCK) {
            Some(end) => [&rest[..end], &rest[end + BLOCK.len()..]].concat(),
            None => rest.to_owned(),
        };
        return inner.trim_matches('\n').to_owned();
    }
    let mut lines: Vec<&str> = input.split('\n').collect();
    let last = lines.len() - 1;
    for (i, line) in lines.iter_mut().enumerate() {
        if i < last && continues(line) {
            *line = &line[..line.len() - 1];
        }
    }
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_several_lines() {
        for (input, expected) in [
            ("one", Some("one")),
            (" one ", Some("one")),
            ("one\\", None),
            ("one\\\n two", Some("one\n two")),
            ("C:\\\\", Some("C:\\\\")),
            ("\"\"\"", None),
            ("\"\"\"one\n", None),
            ("\"\"\"\none\\\n\ntwo\n\"\"\"", Some("one\\\n\ntwo")),
            ("\"\"\"one\"\"\"", Some("one")),
            ("pasted\nlines", Some("pasted\nlines")),
        ] {
            assert_eq!(is_complete(input).then(|| text(input)).as_deref(), expected, "{input:?}");
        }
    }
}
