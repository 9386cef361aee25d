//! The calls of an answer: they are asked about, run, and their results added to the messages.

use anyhow::{Result, bail};
use pelton::chat::{Content, Message, ToolCall, text_part};
use serde_json::{Map, Value};

use super::{input::Read, mcp::Outcome, session::Session, tools::Owner};
use crate::output::{note, sentence};

/// Characters of a result that the screen shows.
const SHOWN: usize = 600;
/// The most questions about the same call.
const QUESTIONS: usize = 3;

/// The user's answer to the question about a call.
enum Consent {
    Yes,
    No,
    /// No, and the answer ends.
    Stop,
}

/// The result of a call.
struct Answered {
    text: String,
    images: Vec<Map<String, Value>>,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        Self { text, images: Vec::new() }
    }
}

impl Session<'_> {
    /// Runs the calls of an answer and adds their results to the messages. Returns whether
    /// the model is to go on.
    ///
    /// # Errors
    /// If the input cannot be read, or ends before the result that the user writes.
    pub(super) fn run_calls(&mut self, calls: &[ToolCall], stopped: bool) -> Result<bool> {
        let mut goes_on = !stopped;
        for call in calls {
            let result = match goes_on {
                true => self.run_call(call)?,
                false => None,
            };
            goes_on &= result.is_some();
            let Answered { text, images } =
                result.unwrap_or_else(|| "The user stopped the call.".to_owned().into());
            let shown: String = text.chars().take(SHOWN).collect();
            let rest = if shown.len() < text.len() { " …" } else { "" };
            self.screen.note(&format!("{} gives: {shown}{rest}", call.name()));
            let id = call.id().unwrap_or_default();
            let mut message = Message::tool_result(id, call.name(), text.as_str());
            if !images.is_empty() && self.template.takes_images() {
                let parts = [text_part(&text)].into_iter().chain(images).collect();
                message.content = Some(Content::Parts(parts));
            }
            self.conversation.push(message);
        }
        Ok(goes_on)
    }

    /// The result of a call; `None` if the user stops the answer.
    fn run_call(&mut self, call: &ToolCall) -> Result<Option<Answered>> {
        let name = call.name();
        let arguments = match call.arguments_object() {
            Ok(arguments) => arguments,
            Err(error) => return Ok(Some(format!("Error: {error}").into())),
        };
        match self.tools.owner(name) {
            None => Ok(Some(format!("Error: there is no tool {name}").into())),
            Some(Owner::User) => Ok(self.ask_for_result(name)?.map(Answered::from)),
            Some(Owner::Server(server)) => match self.ask_for_consent(name, &arguments)? {
                Consent::Yes => self.call_server(server, name, arguments),
                Consent::No => Ok(Some("The user declined the call.".to_owned().into())),
                Consent::Stop => Ok(None),
            },
        }
    }

    fn call_server(
        &mut self,
        server: usize,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Option<Answered>> {
        let flag = self.interrupt.flag();
        let outcome = self.tools.call(server, name, arguments, &|| flag.is_set());
        self.interrupt.release();
        match outcome {
            Ok(outcome) if outcome.failed => Ok(Some(format!("Error: {}", outcome.text).into())),
            Ok(Outcome { text, images, .. }) => Ok(Some(Answered { text, images })),
            Err(_) if flag.is_set() => Ok(None),
            Err(error) => {
                self.screen.error(&error);
                Ok(Some(format!("Error: {}", sentence(&error)).into()))
            }
        }
    }

    /// Asks for the result of a tool that nobody else runs.
    fn ask_for_result(&mut self, name: &str) -> Result<Option<String>> {
        match self.input.ask(&format!("result of {name}> "))? {
            Read::Text(text) => Ok(Some(text)),
            Read::Interrupted => Ok(None),
            Read::End if self.input.is_terminal() => Ok(None),
            Read::End => bail!("the input ends before the result of {name}"),
        }
    }

    /// Asks whether a call may run. Without a terminal there is nobody to ask.
    fn ask_for_consent(&mut self, name: &str, arguments: &Map<String, Value>) -> Result<Consent> {
        if self.tools.is_allowed(name) {
            return Ok(Consent::Yes);
        }
        if !self.input.is_terminal() {
            note!("{name} is not called: expected --allow-calls, as there is no terminal to ask");
            return Ok(Consent::No);
        }
        let arguments = Value::Object(arguments.clone()).to_string();
        self.screen.show(&format!("The model wants to call {name} with {arguments}"))?;
        for _ in 0..QUESTIONS {
            match self.input.ask("call it? yes, no, always> ")? {
                Read::Text(text) => match text.trim().to_lowercase().as_str() {
                    "y" | "yes" => return Ok(Consent::Yes),
                    "a" | "always" => {
                        self.tools.allow(name);
                        return Ok(Consent::Yes);
                    }
                    "n" | "no" => return Ok(Consent::No),
                    _ => {}
                },
                Read::Interrupted | Read::End => return Ok(Consent::Stop),
            }
        }
        Ok(Consent::No)
    }
}
