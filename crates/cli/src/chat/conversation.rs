//! The messages of a conversation.

use std::fs;

use anyhow::{Context, Result, bail};
use pelton::chat::{Content, Message, ToolCall, text_part};
use serde_json::{Value, json};

/// The messages so far, the system message apart from the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    system: Option<String>,
    messages: Vec<Message>,
}

impl Conversation {
    /// The system message.
    pub(crate) fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    pub(crate) fn set_system(&mut self, text: Option<String>) {
        self.system = text;
    }

    /// All messages, the system message first.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Messages without the system message.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Forgets all messages but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
    }

    /// Removes the user's last message and what follows it, and returns it.
    pub(crate) fn undo(&mut self) -> Option<Message> {
        let at = self.last_user()?;
        self.messages.drain(at..).next()
    }

    /// Removes what follows the user's last message; whether there is one.
    pub(crate) fn retry(&mut self) -> bool {
        match self.last_user() {
            Some(at) => {
                self.messages.truncate(at + 1);
                true
            }
            None => false,
        }
    }

    /// The tools that the last message calls.
    pub(crate) fn last_calls(&self) -> &[ToolCall] {
        self.messages.last().map_or(&[], |message| &message.tool_calls)
    }

    /// Removes the last message if it is an answer of the model that can go on, and returns it.
    pub(crate) fn take_answer(&mut self) -> Option<Message> {
        self.messages.pop_if(|last| {
            last.role == "assistant" && last.tool_calls.is_empty() && last.text().is_some()
        })
    }

    /// The text of the user's last message.
    pub(crate) fn last_text(&self) -> Option<String> {
        Some(said(&self.messages[self.last_user()?]))
    }

    /// Replaces the text of the user's last message, whose pictures stay, and forgets what follows
    /// it. Whether there is one.
    pub(crate) fn edit(&mut self, text: &str) -> bool {
        let Some(mut message) = self.undo() else { return false };
        let images: Vec<_> = message.images().cloned().collect();
        message.content = Some(match images.is_empty() {
            true => Content::Text(text.to_owned()),
            false => Content::Parts(images.into_iter().chain([text_part(text)]).collect()),
        });
        self.messages.push(message);
        true
    }

    fn last_user(&self) -> Option<usize> {
        self.messages.iter().rposition(|message| message.role == "user")
    }

    /// The messages as a terminal shows them: those of the user after `> `.
    pub(crate) fn show(&self) -> String {
        let one = |message: &Message| {
            let images = "[picture] ".repeat(message.images().count());
            let text = images + &said(message);
            match message.role.as_str() {
                "user" => format!("> {text}"),
                "assistant" if text.is_empty() => "[calls of tools]".to_owned(),
                "assistant" => text,
                role => format!("[{role}] {text}"),
            }
        };
        self.messages.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    /// The messages as JSON, as `pelton template --messages` reads it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"messages": self.messages().into_iter().map(Value::from).collect::<Vec<_>>()})
    }

    /// Forgets the oldest message of the user with its answers; the newest stays. Returns whether
    /// there was one to forget.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        let mut own = (0..self.messages.len()).filter(|&i| self.messages[i].role == "user");
        match (own.next(), own.next()) {
            (Some(_), Some(second)) => {
                self.messages.drain(..second);
                true
            }
            _ => false,
        }
    }

    /// The messages in a file.
    ///
    /// # Errors
    /// If it cannot be read, or has no messages.
    pub(crate) fn load(file: &str) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("{file} could not be read"))?;
        let json = serde_json::from_str(&text).with_context(|| format!("{file} is not JSON"))?;
        Self::from_json(json).with_context(|| format!("the messages in {file}"))
    }

    /// Messages from JSON: a list, or an object with one.
    ///
    /// # Errors
    /// If it is something else, or a message is not valid.
    pub(crate) fn from_json(mut json: Value) -> Result<Self> {
        if let Some(messages) = json.get_mut("messages") {
            json = messages.take();
        }
        let mut messages: Vec<Message> =
            serde_json::from_value(json).context("expected a list of messages")?;
        let system = match messages.first() {
            Some(first) if first.role == "system" => {
                let Some(text) = first.text() else {
                    bail!("the system message is not text");
                };
                messages.remove(0);
                Some(text)
            }
            _ => None,
        };
        Ok(Self { system, messages })
    }
}

/// The texts of a message, a line each.
pub(crate) fn said(message: &Message) -> String {
    match &message.content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_retry_and_json() {
        let mut chat = Conversation::default();
        chat.set_system(Some("Be brief.".into()));
        assert!(chat.undo().is_none() && !chat.retry());
        for (role, text) in [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")] {
            chat.push(Message::new(role, text));
        }
        let json = chat.to_json();
        assert_eq!(json["messages"][0], json!({"role": "system", "content": "Be brief."}));
        assert_eq!(json["messages"].as_array().unwrap().len(), 5);
        assert_eq!(Conversation::from_json(json.clone()).unwrap(), chat);
        assert_eq!(Conversation::from_json(json["messages"].clone()).unwrap(), chat);

        let answer = chat.take_answer().unwrap();
        assert_eq!((answer.text().as_deref(), chat.len()), (Some("d"), 3));
        assert!(chat.take_answer().is_none());
        chat.push(answer);
        assert!(chat.retry());
        assert_eq!((chat.len(), chat.last_text().as_deref()), (3, Some("c")));
        assert_eq!(chat.undo().unwrap().text().as_deref(), Some("c"));
        assert_eq!((chat.len(), chat.last_text().as_deref()), (2, Some("a")));
        // pictures stay with their message
        chat.push(Message::with_images("user", "What?", [b"x"]));
        assert!(chat.edit("Who?") && chat.show().ends_with("> [picture] Who?"), "{}", chat.show());
        assert_eq!(Conversation::from_json(chat.to_json()).unwrap(), chat);
        for bad in [json!(1), json!([{"content": "x"}]), json!({"messages": "x"})] {
            Conversation::from_json(bad).unwrap_err();
        }
    }
}
