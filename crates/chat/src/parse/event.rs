//! The events that a parser reports.

/// A piece of a parsed output.
///
/// How texts are cut into pieces depends on how the output came; the pieces of a text joined do
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Text of the answer.
    Content(String),
    /// Text of the reasoning.
    Reasoning(String),
    /// A tool call begins: its name is complete.
    ToolCallStart {
        /// Counted from 0 within an output.
        index: usize,
        /// The tool.
        name: String,
    },
    /// The next piece of the call's arguments. All pieces together are a JSON object once the call
    /// is complete, and never before.
    ToolCallArguments {
        /// The index of the call.
        index: usize,
        /// Text of JSON.
        delta: String,
    },
    /// The call is complete.
    ToolCallEnd {
        /// The index of the call.
        index: usize,
    },
    /// The output ended within the call, or its arguments are malformed: it is not to be carried
    /// out. The pieces of its arguments are what the model wrote, and no JSON.
    ToolCallBroken {
        /// The index of the call.
        index: usize,
        /// The whole call as the model wrote it, to be shown in place of the pieces.
        text: String,
    },
}

/// A list of events in which pieces of the same text are joined.
#[derive(Debug, Default)]
pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn content(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Event::Content(last)) => last.push_str(text),
            _ => self.0.push(Event::Content(text.to_owned())),
        }
    }

    pub(crate) fn reasoning(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Event::Reasoning(last)) => last.push_str(text),
            _ => self.0.push(Event::Reasoning(text.to_owned())),
        }
    }

    pub(crate) fn start(&mut self, index: usize, name: &str) {
        self.0.push(Event::ToolCallStart { index, name: name.to_owned() });
    }

    pub(crate) fn arguments(&mut self, index: usize, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Event::ToolCallArguments { delta, .. }) => delta.push_str(text),
            _ => self.0.push(Event::ToolCallArguments { index, delta: text.to_owned() }),
        }
    }

    pub(crate) fn end(&mut self, index: usize) {
        self.0.push(Event::ToolCallEnd { index });
    }

    pub(crate) fn broken(&mut self, index: usize, text: &str) {
        self.0.push(Event::ToolCallBroken { index, text: text.to_owned() });
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
}
