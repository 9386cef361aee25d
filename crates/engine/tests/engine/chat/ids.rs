//! Token ids of rendered chats, compared with transformers' `apply_chat_template`.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use pelton::chat::{Chat, ChatTemplate, Clock, Limits, Message};
use pelton::{Prompt, tokenizer::Tokenizer};
use pelton_testing::{Need, skip};
use pelton_weights::Checkpoint;
use serde_json::{Map, Value};

/// 2024-07-26 12:00 UTC, the clock of the data.
const NOW: Clock = Clock::Fixed(1_721_995_200);

/// The rows of `ids.py`: vocabulary, template, context, number of ids, their hash.
const IDS: &str = include_str!("ids.json");

/// Combinations whose ids differ, with the reason.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[];

fn chat(context: &Map<String, Value>) -> Chat {
    let mut chat = Chat::new(serde_json::from_value(context["messages"].clone()).unwrap());
    (chat.adapt, chat.add_generation_prompt) = (false, false);
    for (name, value) in context {
        match (name.as_str(), value) {
            // those of the vocabulary
            ("messages" | "bos_token" | "eos_token", _) => {}
            ("tools", Value::Array(tools)) => chat.tools = tools.clone(),
            ("add_generation_prompt", Value::Bool(add)) => chat.add_generation_prompt = *add,
            _ => drop(chat.kwargs.insert(name.clone(), value.clone())),
        }
    }
    chat
}

/// The chats of the data, and variations of them by the options of [`Chat`].
fn chats(contexts: &Map<String, Value>) -> BTreeMap<String, Chat> {
    let of = |name: &str| chat(contexts[name].as_object().unwrap());
    let mut chats: BTreeMap<String, Chat> =
        contexts.keys().map(|name| (name.clone(), of(name))).collect();
    for (name, enable) in [("thinking", true), ("no_thinking", false)] {
        let mut chat = of("simple");
        chat.enable_thinking = Some(enable);
        chats.insert(name.to_owned(), chat);
    }
    let mut low = of("simple");
    low.reasoning_effort = Some("low".to_owned());
    chats.insert("low_effort".to_owned(), low);
    let mut continued = of("four_turn");
    continued.messages.push(Message::new("assistant", "The answer is"));
    (continued.add_generation_prompt, continued.continue_final_message) = (false, true);
    chats.insert("continued".to_owned(), continued);
    chats
}

/// FNV-1a over the ids.
fn hash(ids: &[u32]) -> String {
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

#[test]
fn ids_of_rendered_chats_equal_those_of_transformers() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let Ok(contexts) = std::fs::read_to_string(data.join("templates/contexts.json")) else {
        return skip(Need::Data, format_args!("no {}", data.display()));
    };
    let chats = chats(&serde_json::from_str(&contexts).unwrap());
    let rows: Vec<(String, String, String, usize, String)> = serde_json::from_str(IDS).unwrap();
    assert!(rows.len() > 300, "{}", rows.len());
    let mut wrong = Vec::new();
    let mut vocabulary: Option<(String, Arc<Tokenizer>)> = None;
    for (name, template, context, count, expected) in rows {
        if vocabulary.as_ref().is_none_or(|(loaded, _)| *loaded != name) {
            let file = data.join(format!("vocab/ggml-vocab-{name}.gguf"));
            let checkpoint = Checkpoint::open(file).unwrap();
            let tokenizer = Tokenizer::from_metadata(checkpoint.metadata()).unwrap();
            vocabulary = Some((name.clone(), Arc::new(tokenizer)));
        }
        let (_, tokenizer) = vocabulary.as_ref().unwrap();
        let source = std::fs::read_to_string(data.join(format!("templates/{template}.jinja")));
        let source = source.unwrap();
        let compiled =
            ChatTemplate::with(Arc::clone(tokenizer), &source, NOW, Limits::default()).unwrap();
        let prompt = compiled.prompt(&chats[&context]).unwrap();
        let Prompt::Segments { segments, .. } = &prompt.prompt else { unreachable!("{prompt:?}") };
        let ids = compiled.encode(segments).unwrap();
        let equal = ids.len() == count && hash(&ids) == expected;
        let exception = EXCEPTIONS.iter().any(|(v, t, c, reason)| {
            (*v, *t, *c) == (&name, &template, &context) && !reason.is_empty()
        });
        if equal == exception {
            wrong.push(format!(
                "{name}, {template}, {context}: {} ids, expected {count}",
                ids.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
