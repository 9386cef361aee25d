//! Addresses relative to other ones: the resolution of references by RFC 3986, section 5.

/// The parts of a reference. Absent parts differ from empty ones.
#[derive(Default)]
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

/// Splits a reference, as the regular expression of appendix B does.
fn split(text: &str) -> Parts<'_> {
    let (rest, fragment) = cut(text, '#');
    let (rest, query) = cut(rest, '?');
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, rest),
    };
    Parts { scheme, authority, path, query, fragment }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// The address that a reference in a document of the address `base` means: section 5.2.2, in its
/// strict form.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    let (base, found) = (split(base), split(reference));
    let merged;
    let (scheme, authority, path, query) = if found.scheme.is_some() {
        (found.scheme, found.authority, without_dots(found.path), found.query)
    } else if found.authority.is_some() {
        (base.scheme, found.authority, without_dots(found.path), found.query)
    } else if found.path.is_empty() {
        (base.scheme, base.authority, base.path.to_owned(), found.query.or(base.query))
    } else if found.path.starts_with('/') {
        (base.scheme, base.authority, without_dots(found.path), found.query)
    } else {
        // section 5.2.3
        merged = match (base.authority, base.path.rfind('/')) {
            (Some(_), _) if base.path.is_empty() => format!("/{}", found.path),
            (_, Some(end)) => format!("{}{}", &base.path[..=end], found.path),
            (_, None) => found.path.to_owned(),
        };
        (base.scheme, base.authority, without_dots(&merged), found.query)
    };
    let mut out = String::new();
    let parts = [(scheme, "", ":"), (authority, "//", "")];
    for (part, before, after) in parts {
        part.into_iter().for_each(|part| out.extend([before, part, after]));
    }
    out.push_str(&path);
    for (part, before) in [(query, "?"), (found.fragment, "#")] {
        part.into_iter().for_each(|part| out.extend([before, part]));
    }
    out
}

/// A path without the segments `.` and `..`: section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                // the path still ends with the folder
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    let start = if is_absolute { "/" } else { "" };
    format!("{start}{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3986, sections 5.4.1 and 5.4.2.
    #[test]
    fn the_examples_of_rfc_3986() {
        for (reference, address) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q#s"),
            ("g#s", "http://a/b/c/g#s"),
            ("g?y#s", "http://a/b/c/g?y#s"),
            (";x", "http://a/b/c/;x"),
            ("g;x", "http://a/b/c/g;x"),
            ("g;x?y#s", "http://a/b/c/g;x?y#s"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("g#s/./x", "http://a/b/c/g#s/./x"),
            ("g#s/../x", "http://a/b/c/g#s/../x"),
            ("http:g", "http:g"),
        ] {
            assert_eq!(resolve("http://a/b/c/d;p?q", reference), address, "{reference:?}");
        }
        assert_eq!(resolve("http://a", "g"), "http://a/g");
        assert_eq!(resolve("http://a?x=/y/", "g?z"), "http://a/g?z");
    }
}
