//! The Jinja environment of transformers' chat templates.

use std::fmt::{self, Write};
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Object, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
};

use super::bounds::{WIDTH, check_widths};
use super::charge::{self, Counted, Text};
use super::marks::{self, Ends};
use super::numbers::python_float;
use super::{Clock, json, methods, operators, sharing, walks};

/// minijinja's filters of these names.
const MAP: &str = "_pelton_map";
const FORMAT: &str = "_pelton_format";

/// The message of `raise_exception`, as the source of the error that it makes.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// The syntax of transformers' templates.
pub(super) fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.unwrap_or_default()
}

/// The environment.
pub(super) fn new(clock: Clock) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    operators::add_functions(&mut environment);
    sharing::add_functions(&mut environment);
    walks::add(&mut environment);
    environment.remove_global("debug");
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(print);
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("trim", trim);
    environment.add_filter("string", string);
    environment.add_filter("format", format);
    environment.add_filter("indent", indent);
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.add_filter(MAP, minijinja::filters::map);
    environment.add_filter(FORMAT, minijinja::filters::format);
    environment.add_filter("map", map);
    environment.add_filter("list", list);
    environment.add_filter("pprint", pprint);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_test("iterable", is_iterable);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", move |format: &str| strftime_now(clock, format));
    environment.add_global("dict", Value::from_object(Dict));
    environment
}

/// Prints a value as Python's `str` does.
fn print(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let mut out = Counted(out);
    let written = match float(value) {
        Some(text) => out.write_str(&text),
        None => write!(out, "{value}"),
    };
    written.map_err(|_| Error::from(ErrorKind::WriteFailure))
}

fn float(value: &Value) -> Option<String> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    f64::try_from(value.clone()).ok().map(python_float)
}

fn string(value: &Value) -> Result<Value, Error> {
    Ok(match float(value) {
        Some(text) => Value::from(text),
        None if value.kind() == ValueKind::String => value.clone(),
        None => Value::from(charge::text(format_args!("{value}"))?),
    })
}

fn pprint(value: &Value) -> Result<String, Error> {
    charge::text(format_args!("{value:#?}"))
}

fn trim(state: &State<'_, '_>, value: &Value, set: Option<&str>) -> Result<String, Error> {
    let text = charge::text(format_args!("{value}"))?;
    Ok(marks::trim(&text, set, &marks::of(state), Ends::Both))
}

fn join(
    value: &Value,
    joiner: Option<&Value>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<String, Error> {
    let joiner = match joiner {
        Some(joiner) => charge::text(format_args!("{joiner}"))?,
        None => charge::text(format_args!("{}", options.get::<Option<&str>>("d")?.unwrap_or("")))?,
    };
    let attribute = match attribute {
        Some(name) => Some(name),
        None => options.get("attribute")?,
    };
    options.assert_all_used()?;
    let mut out = Text::default();
    for (i, item) in items(value)?.enumerate() {
        let item = match attribute {
            Some(path) => path.split('.').try_fold(item, |item, name| item.get_attr(name))?,
            None => item,
        };
        let joiner = if i > 0 { joiner.as_str() } else { "" };
        write!(out, "{joiner}{item}").map_err(|_| Error::from(ErrorKind::WriteFailure))?;
    }
    Ok(out.0)
}

/// The items of a value, none of an undefined one.
fn items(value: &Value) -> Result<impl Iterator<Item = Value> + use<>, Error> {
    match value.is_undefined() {
        true => Ok(Value::from(Vec::<Value>::new()).try_iter()?),
        false => value.try_iter(),
    }
}

fn replace(value: &Value, from: &Value, to: &Value) -> Result<String, Error> {
    let text = |value: &Value| charge::text(format_args!("{value}"));
    methods::replace(&text(value)?, &text(from)?, &text(to)?, None)
}

/// Applies a filter to each item, or gets an attribute of each.
fn map(
    state: &mut State<'_, '_>,
    value: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Vec<Value>, Error> {
    let mut args = args.into_values();
    args.insert(0, Value::UNDEFINED);
    let mut all = Vec::new();
    for item in items(value)? {
        args[0] = Value::from(vec![item]);
        for value in state.apply_filter(MAP, &args)?.try_iter()? {
            charge::items(all.len())?;
            all.push(sharing::counted(value)?);
        }
    }
    Ok(all)
}

fn list(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    charge::items(value.as_str().map_or_else(|| value.len().unwrap_or(0), str::len))?;
    minijinja::filters::list(state, value)
}

/// The number of characters, items or keys; marks do not count, and an undefined value has none.
fn length(state: &State<'_, '_>, value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    if let Some(text) = value.as_str() {
        let marks = marks::of(state);
        return Ok(text.chars().filter(|c| !marks.contains(*c)).count());
    }
    value.len().ok_or_else(|| {
        let reason = format!("a value of type {} has no length", value.kind());
        Error::new(ErrorKind::InvalidOperation, reason)
    })
}

/// Whether Python iterates over a value: not over `None`.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

fn format(
    state: &mut State<'_, '_>,
    text: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    check_widths(text.as_str().unwrap_or_default())?;
    let mut args = args.into_values();
    methods::check_format(text.as_str().unwrap_or_default(), '%', &args)?;
    args.insert(0, text.clone());
    state.apply_filter(FORMAT, &args)
}

/// Indents the lines of a text, as Jinja does: not the first, nor blank ones.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.or(options.get("width")?);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let margin = match width {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(width)?.min(WIDTH)),
        },
    };
    let mut out = Text::default();
    for (i, line) in charge::text(format_args!("{value}"))?.split('\n').enumerate() {
        let newline = if i > 0 { "\n" } else { "" };
        let indented = if i == 0 { first } else { blank || !line.is_empty() };
        let margin = if indented { margin.as_str() } else { "" };
        write!(out, "{newline}{margin}{line}").map_err(|_| Error::from(ErrorKind::WriteFailure))?;
    }
    Ok(out.0)
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raised").with_source(Raised(message.to_string())))
}

fn strftime_now(clock: Clock, format: &str) -> Result<String, Error> {
    check_widths(format)?;
    clock.format(format).map_err(|reason| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {reason}"))
    })
}

/// Python's `dict`.
#[derive(Debug)]
struct Dict;

impl Object for Dict {
    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (entries, options): (Option<Value>, Kwargs) = from_args(args)?;
        let mut pairs = IndexMap::new();
        if let Some(entries) = entries {
            let is_map = entries.kind() == ValueKind::Map;
            for item in entries.try_iter()? {
                let (key, value) = match is_map {
                    true => (item.clone(), entries.get_item(&item)?),
                    false => (item.get_item(&Value::from(0))?, item.get_item(&Value::from(1))?),
                };
                pairs.insert(sharing::key(key)?, value);
            }
        }
        for key in options.args() {
            pairs.insert(Value::from(key), options.get(key)?);
        }
        sharing::counted(Value::from_object(pairs))
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        if method != "fromkeys" {
            return Err(Error::from(ErrorKind::UnknownMethod));
        }
        let (keys, value): (Value, Option<Value>) = from_args(args)?;
        let value = value.unwrap_or_else(|| Value::from(()));
        let pairs = keys.try_iter()?.map(|key| Ok((sharing::key(key)?, value.clone())));
        let pairs = pairs.collect::<Result<IndexMap<Value, Value>, Error>>()?;
        sharing::counted(Value::from_object(pairs))
    }
}
