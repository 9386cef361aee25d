//! The functions of the header with their parameters.

#![allow(dead_code, reason = "each test uses some of it")]

/// A function of the header.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The type of its result.
    pub(crate) result: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Its type, without `struct`, such as `const pelton_model *`.
    pub(crate) kind: String,
}

/// All functions of a header.
pub(crate) fn functions(header: &str) -> Vec<Function> {
    let mut text = String::new();
    let mut rest = header;
    // comments have sentences, of which some look like code
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    text.push_str(rest);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n");
    joined.split(';').filter_map(function).collect()
}

fn function(declaration: &str) -> Option<Function> {
    // the first function follows `extern "C" {`
    let declaration = declaration.rsplit(['}', '{']).next()?.trim();
    if declaration.starts_with("typedef") {
        return None;
    }
    let (head, parameters) = declaration.split_once('(')?;
    let (result, name) = split(head)?;
    let parameters = parameters.strip_suffix(')')?;
    let parameters = parameters.split(',').filter_map(|parameter| {
        let (kind, name) = split(parameter)?;
        Some(Parameter { name, kind })
    });
    Some(Function { name, result, parameters: parameters.collect() })
}

/// The type and the name of a declaration.
fn split(declaration: &str) -> Option<(String, String)> {
    let words = declaration.replace('*', " * ").replace("struct ", " ");
    let mut words: Vec<&str> = words.split_whitespace().collect();
    let name = words.pop().filter(|name| *name != "void")?;
    (!words.is_empty()).then(|| (words.join(" "), name.to_owned()))
}
