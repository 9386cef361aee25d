//! A name, a separator, and the arguments as JSON.

use super::object::Array;
use super::scan::{Begins, Found, begins, find};
use super::step::{Arguments, Context, NAME, Step, after, is_name};

/// The texts around the name and the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) prefix: &'static str,
    pub(crate) separator: &'static str,
    pub(crate) id: Option<&'static str>,
    pub(crate) suffix: &'static str,
    pub(crate) close: &'static str,
}

/// The parser of one call.
#[derive(Debug)]
pub(crate) struct Named {
    layout: Layout,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Name,
    /// After the name and the marker of an identifier.
    Id {
        name: String,
        at: usize,
    },
    Arguments(Arguments),
    Close(usize),
    /// A list of objects, which older versions of the format have.
    Array(Array),
}

impl Named {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, stage: Stage::Name }
    }

    pub(crate) fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        let more = if context.end { Step::Fail } else { Step::More };
        loop {
            match &mut self.stage {
                Stage::Name => {
                    if self.layout.id.is_some() && raw.trim_start().starts_with('[') {
                        self.stage = Stage::Array(Array::default());
                        continue;
                    }
                    let prefix = self.layout.prefix;
                    match begins(raw, prefix) {
                        Begins::Yes => {}
                        Begins::Maybe => return more,
                        Begins::No => return Step::Fail,
                    }
                    let rest = &raw[prefix.len()..];
                    // Some models leave the separator out: the arguments follow the name.
                    let mut ends = vec![self.layout.separator, "{"];
                    ends.extend(self.layout.id);
                    let (which, at) = match find(rest, &ends, context.end) {
                        Found::Marker(which, at) => (which, at),
                        Found::Until(at) if at > NAME => return Step::Fail,
                        Found::Until(_) => return more,
                    };
                    let name = rest[..at].trim().to_owned();
                    if !is_name(&name) || !context.tools.allows(&name) {
                        return Step::Fail;
                    }
                    let at = prefix.len() + at;
                    self.stage = match which {
                        0 => Stage::Arguments(Arguments::new(at + ends[0].len(), &name)),
                        1 => Stage::Arguments(Arguments::new(at, &name)),
                        _ => Stage::Id { name, at: at + ends[2].len() },
                    };
                }
                Stage::Id { name, at } => {
                    match find(&raw[*at..], &[self.layout.separator], context.end) {
                        // in one piece as in several
                        Found::Marker(_, n) if n > NAME => return Step::Fail,
                        Found::Marker(_, n) => {
                            let at = *at + n + self.layout.separator.len();
                            self.stage = Stage::Arguments(Arguments::new(at, name));
                        }
                        Found::Until(n) if n > NAME => return Step::Fail,
                        Found::Until(_) => return more,
                    }
                }
                Stage::Arguments(arguments) => match arguments.step(raw, context) {
                    Step::Done(at) => self.stage = Stage::Close(at),
                    step => return step,
                },
                Stage::Close(at) => {
                    let texts = [self.layout.suffix, self.layout.close];
                    return match after(raw, *at, &texts, context.end) {
                        Some(at) => Step::Done(at),
                        None => Step::More,
                    };
                }
                Stage::Array(array) => return array.step(raw, context),
            }
        }
    }
}
