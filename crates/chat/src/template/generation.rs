//! Rewriting of `{% generation %}` blocks, which minijinja does not know.

use std::borrow::Cow;

/// Replaces `{% generation %}` and `{% endgeneration %}` with an `if` that always holds. Comments,
/// raw blocks and string literals are left as they are.
pub(super) fn rewrite(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (text, from) = rest.split_at(at);
        out.push_str(text);
        let end = match from.as_bytes().get(1) {
            Some(b'#') => from.find("#}").map(|end| end + 2),
            Some(b'{') => close(from, "}}"),
            Some(b'%') => close(from, "%}"),
            _ => Some(1),
        };
        let Some(end) = end else {
            out.push_str(from);
            return Cow::Owned(out);
        };
        let (block, after) = from.split_at(end);
        rest = after;
        match tag(block) {
            Some("generation") => out.push_str(&block.replacen("generation", "if true", 1)),
            Some("endgeneration") => out.push_str(&block.replacen("endgeneration", "endif", 1)),
            Some("raw") => {
                out.push_str(block);
                let end = raw_end(rest);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            _ => out.push_str(block),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The only word of a statement block.
fn tag(block: &str) -> Option<&str> {
    let inner = block.strip_prefix("{%")?.strip_suffix("%}")?;
    Some(inner.trim_matches(['-', '+']).trim())
}

/// The offset of the `{% endraw %}` that ends a raw block.
fn raw_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%") {
        let at = from + at;
        if let Some(end) = text[at..].find("%}")
            && tag(&text[at..at + end + 2]) == Some("endraw")
        {
            return at;
        }
        from = at + 2;
    }
    text.len()
}

/// The end of a block: the first `mark` outside of string literals.
fn close(block: &str, mark: &str) -> Option<usize> {
    let bytes = block.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(mark.as_bytes()) => return Some(at + mark.len()),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn blocks_are_rewritten_and_nothing_else() {
        for (source, expected) in [
            ("a {%- generation -%} b {% endgeneration %}", "a {%- if true -%} b {% endif %}"),
            ("{%generation%}{%+ endgeneration -%}", "{%if true%}{%+ endif -%}"),
            ("{# {% generation %} #}", "{# {% generation %} #}"),
            ("{{ '{% generation %}' }}", "{{ '{% generation %}' }}"),
            ("{{ \"}} {% generation %}\" }}", "{{ \"}} {% generation %}\" }}"),
            (
                "{% raw %}{% generation %}{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{% endraw %}{% if true %}",
            ),
            ("{% set generation = 1 %}{ {", "{% set generation = 1 %}{ {"),
            ("{% generation", "{% generation"),
            ("é{é generation", "é{é generation"),
        ] {
            assert_eq!(rewrite(source), expected, "{source}");
        }
    }
}
