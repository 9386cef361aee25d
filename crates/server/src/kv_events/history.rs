//! The newest messages, which a subscriber that was away can ask for.

use std::{collections::VecDeque, sync::Arc};

/// Messages that are kept to be sent again, and their bytes.
pub(super) const HISTORY_MAX: usize = 10_000;
pub(super) const HISTORY_BYTES_MAX: usize = 16 << 20;

/// A message: its topic, its number from 0 on, and its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) topic: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
}

/// The newest messages.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) messages: VecDeque<Arc<Message>>,
    pub(super) bytes: usize,
}

impl History {
    pub(super) fn push(&mut self, message: Arc<Message>) {
        self.bytes += message.payload.len();
        self.messages.push_back(message);
        while self.messages.len() > HISTORY_MAX || self.bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.payload.len();
        }
    }

    pub(super) fn since(&self, sequence: u64) -> Vec<Arc<Message>> {
        self.messages.iter().filter(|message| message.sequence >= sequence).cloned().collect()
    }
}
