//! The parser of one call (or of a list of calls), whatever its format.

use super::elements::{self, Fault};
use super::literal::{gemma_call, python_call, python_list};
use super::named::{self, Named};
use super::object::{Array, Object};
use super::scan::{Found, find};
use super::step::{Context, NAME, Step, after};
use crate::format::{Body, Calls};

/// The most places at which a call may end that are tried.
const TRIES: usize = 64;

/// A call that has begun.
#[derive(Debug)]
pub(crate) enum Call {
    Object(Object),
    Array(Array),
    Named(Named),
    Enclosed(Enclosed),
    Python(Python),
    /// After `<|python_tag|>`: an object, or a call of a built-in tool.
    Tagged {
        ends: &'static [&'static str],
        object: Option<Object>,
        at: usize,
    },
}

impl Call {
    /// A call after its first marker; `bare` if it has none.
    pub(crate) fn new(calls: &Calls, ends: &'static [&'static str], bare: bool) -> Option<Self> {
        let close = calls.close;
        Some(match calls.body {
            Body::Object { .. } if calls.bare && !bare => {
                Self::Tagged { ends, object: None, at: 0 }
            }
            Body::Object { .. } => Self::Object(Object::new(close, bare)),
            Body::Array { .. } => Self::Array(Array::new(close)),
            Body::Named { prefix, separator, id, suffix, .. } => {
                Self::Named(Named::new(named::Layout { prefix, separator, id, suffix, close }))
            }
            Body::Elements { name_end, parameter, parameter_end, value_end } => {
                let layout = elements::Layout { name_end, parameter, parameter_end, value_end };
                let mut ends = vec![close];
                ends.extend(calls.open);
                ends.extend(calls.sections.iter().map(|(_, close)| close));
                Self::Enclosed(Enclosed { layout: Some(layout), ends, at: 0, tries: 0 })
            }
            Body::Gemma => {
                let ends = [&[close], calls.open].concat();
                Self::Enclosed(Enclosed { layout: None, ends, at: 0, tries: 0 })
            }
            Body::Python => Self::Python(Python { close, ..Python::default() }),
            Body::Harmony => return None,
        })
    }

    /// Goes on with the text since the call's first marker.
    pub(crate) fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        match self {
            Self::Object(object) => object.step(raw, context),
            Self::Array(array) => array.step(raw, context),
            Self::Named(named) => named.step(raw, context),
            Self::Enclosed(enclosed) => enclosed.step(raw, context),
            Self::Python(python) => python.step(raw, context),
            Self::Tagged { ends, object, at } => {
                if object.is_none() && raw.trim_start().starts_with('{') {
                    *object = Some(Object::new("", false));
                }
                if let Some(object) = object {
                    return object.step(raw, context);
                }
                let end = match find(&raw[*at..], ends, context.end) {
                    Found::Marker(_, n) => *at + n,
                    Found::Until(_) if context.end => raw.len(),
                    Found::Until(n) => {
                        *at += n;
                        return Step::More;
                    }
                };
                match python_call(&raw[..end]) {
                    Some((name, arguments)) if context.tools.allows(&name) => {
                        context.call(&name, arguments);
                        Step::Done(end)
                    }
                    _ => Step::Fail,
                }
            }
        }
    }
}

/// A call that is read up to its closing marker before it is parsed.
#[derive(Debug)]
pub(crate) struct Enclosed {
    /// Elements, or Gemma's notation.
    layout: Option<elements::Layout>,
    /// The closing marker, and others that show that it was left out.
    ends: Vec<&'static str>,
    at: usize,
    tries: usize,
}

impl Enclosed {
    fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        loop {
            let (which, at) = match find(&raw[self.at..], &self.ends, context.end) {
                Found::Marker(which, n) => (which, self.at + n),
                Found::Until(n) if !context.end => {
                    self.at += n;
                    return Step::More;
                }
                Found::Until(_) => {
                    // Without the marker a call without arguments is no more than a word, and
                    // more arguments may have followed where the output is cut.
                    let call = self.parse(raw, context).ok();
                    return match call.filter(|(_, all)| !all.is_empty() && !context.cut) {
                        Some((name, arguments)) => {
                            context.call(&name, arguments);
                            Step::Done(raw.len())
                        }
                        None => Step::Fail,
                    };
                }
            };
            let marker = self.ends[which];
            match self.parse(&raw[..at], context) {
                Ok((name, arguments)) => {
                    context.call(&name, arguments);
                    return Step::Done(if which == 0 { at + marker.len() } else { at });
                }
                Err(Fault::Malformed) => return Step::Fail,
                Err(Fault::Incomplete) => {}
            }
            self.tries += 1;
            if self.tries >= TRIES {
                return Step::Fail;
            }
            // The marker may be part of a value.
            self.at = at + marker.len();
        }
    }

    fn parse(&self, body: &str, context: &Context<'_>) -> Result<elements::Call, Fault> {
        let (name, arguments) = match &self.layout {
            Some(layout) => layout.parse(body, context.tools)?,
            None => gemma_call(body)?,
        };
        match context.tools.allows(&name) {
            true => Ok((name, arguments)),
            false => Err(Fault::Malformed),
        }
    }
}

/// A list of Python calls, read up to its closing bracket.
#[derive(Debug, Default)]
pub(crate) struct Python {
    close: &'static str,
    at: usize,
    depth: usize,
    quote: Option<char>,
    escaped: bool,
    /// The offset after the closing bracket, once the calls were reported.
    done: Option<usize>,
    /// The calls as objects, which some models write instead.
    objects: Option<Array>,
}

impl Python {
    fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        if self.objects.is_none() && begins_with_object(raw) {
            self.objects = Some(Array::new(self.close));
        }
        if let Some(objects) = &mut self.objects {
            return objects.step(raw, context);
        }
        if self.done.is_none() {
            if !could_be_list(raw) {
                return Step::Fail;
            }
            let Some(end) = self.end(raw) else {
                return if context.end { Step::Fail } else { Step::More };
            };
            let calls = python_list(&raw[..end]).unwrap_or_default();
            if calls.is_empty() || !calls.iter().all(|(name, _)| context.tools.allows(name)) {
                return Step::Fail;
            }
            for (name, arguments) in calls {
                context.call(&name, arguments);
            }
            self.done = Some(end);
        }
        match after(raw, self.done.unwrap_or(0), &[self.close], context.end) {
            Some(at) => Step::Done(at),
            None => Step::More,
        }
    }

    /// The offset after the bracket that closes the list.
    fn end(&mut self, raw: &str) -> Option<usize> {
        for (n, c) in raw[self.at..].char_indices() {
            match (c, self.quote) {
                _ if self.escaped => self.escaped = false,
                ('\\', Some(_)) => self.escaped = true,
                (c, Some(quote)) if c == quote => self.quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => self.quote = Some(c),
                ('[' | '(' | '{', None) => self.depth += 1,
                (']' | ')' | '}', None) => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.at + n + 1);
                    }
                }
                _ => {}
            }
        }
        self.at = raw.len();
        None
    }
}

/// Whether a text begins with `[{`.
fn begins_with_object(raw: &str) -> bool {
    let inner = raw.trim_start().strip_prefix('[');
    inner.is_some_and(|inner| inner.trim_start().starts_with('{'))
}

/// Whether a text may begin with `[name(`.
fn could_be_list(raw: &str) -> bool {
    let Some(inner) = raw.trim_start().strip_prefix('[') else {
        return raw.trim_start().is_empty();
    };
    let inner = inner.trim_start();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let end = inner.find(|c: char| !is_name(c)).unwrap_or(inner.len());
    end <= NAME && inner[end..].chars().next().is_none_or(|c| c == '(' && end > 0)
}
