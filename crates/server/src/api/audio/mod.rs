//! Audio in, text out: the paths of OpenAI and of whisper.cpp.

mod answer;
mod inference;
mod openai;

pub(super) use inference::create as inference;
pub(super) use openai::{transcriptions, translations};
