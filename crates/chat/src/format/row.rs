//! A row of the table of formats.

/// How a family of models writes its reasoning and its tool calls.
///
/// ```
/// use pelton_chat::Format;
///
/// let template = "{% for tool in tools %}...{% endfor %}<tool_call>\n{\"name\": ...}</tool_call>";
/// assert_eq!(Format::detect(template).name, "hermes");
/// assert_eq!(Format::named("harmony").map(|format| format.name), Some("harmony"));
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Format {
    /// The name of the row.
    pub name: &'static str,
    /// The texts that a chat template of this format contains: all of one of the lists.
    pub clues: &'static [&'static [&'static str]],
    /// How reasoning is written before the answer.
    pub reasoning: Option<Reasoning>,
    /// How tool calls are written.
    pub calls: Option<Calls>,
    /// Markers between the parts of an output that carry no text, such as the ends of turns.
    pub ends: &'static [&'static str],
}

/// The markers around reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasoning {
    /// Before it. The chat template may have written it at the end of the prompt.
    pub open: &'static str,
    /// After it.
    pub close: &'static str,
}

/// How tool calls are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Markers around a list of calls, in pairs; models leave them out at times.
    pub sections: &'static [(&'static str, &'static str)],
    /// Whether each call is in a section of its own.
    pub section_each: bool,
    /// White space within a section, next to its markers.
    pub margin: &'static str,
    /// White space between two calls (or their sections).
    pub between: &'static str,
    /// The text that begins a call.
    pub open: &'static [&'static str],
    /// The text that ends a call; empty if nothing does.
    pub close: &'static str,
    /// White space between `open`, the body, and `close`.
    pub padding: &'static str,
    /// The form of the call between `open` and `close`.
    pub body: Body,
    /// Whether an output may begin with a call without `open`.
    pub bare: bool,
}

/// The form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// `{"name": "f", "arguments": {…}}`; in Llama 3 the key is `parameters`.
    Object {
        /// The key of the arguments that the format documents; the parser accepts both.
        arguments: &'static str,
    },
    /// `[{"name": "f", "arguments": {…}}, …]`. The texts are those that the format documents; the
    /// parser accepts other keys and orders, and one object without brackets.
    Array {
        /// Before the name of a call.
        before: &'static str,
        /// Between the name and the arguments.
        between: &'static str,
        /// Letters and digits of an identifier after the arguments; 0 without one.
        id: usize,
    },
    /// A name, a separator, and the arguments as a JSON object.
    Named {
        /// Text before the name.
        prefix: &'static str,
        /// The text that ends the name.
        separator: &'static str,
        /// The text that ends the name and begins an identifier, which `separator` ends.
        id: Option<&'static str>,
        /// Whether calls must have that: their number.
        is_numbered: bool,
        /// Text after the arguments.
        suffix: &'static str,
    },
    /// A name, and one element for each argument. The texts are those around the call's name (after
    /// `open`), around each parameter's name, and after its value. The parser ignores white space
    /// at their ends.
    Elements {
        /// After the name of the call.
        name_end: &'static str,
        /// Before the name of a parameter.
        parameter: &'static str,
        /// Between the name of a parameter and its value.
        parameter_end: Separator,
        /// After the value.
        value_end: &'static str,
    },
    /// `call:f{key:<|"|>text<|"|>,other:1}`.
    Gemma,
    /// `[f(a=1, b="x"), g()]`.
    Python,
    /// The header of a message names the channel and the recipient; the message is the JSON of the
    /// arguments. Reasoning is a channel too.
    Harmony,
}

/// The text between the name of a parameter and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// Two texts with white space between them, the second possibly empty. The value is a string or
    /// JSON, as the tool's schema says.
    Text(&'static str, &'static str),
    /// A text that says whether the value is a string, and the text that says that it is JSON.
    Typed {
        /// Before a string.
        string: &'static str,
        /// Before JSON.
        json: &'static str,
    },
}
