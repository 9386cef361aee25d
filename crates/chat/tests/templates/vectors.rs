//! All cases of the test data.

use std::path::PathBuf;

use pelton_chat::{Chat, Clock, Error, Limits, Message, Template};
use pelton_testing::{Need, skip};
use serde_json::{Map, Value};

use crate::exceptions::EXCEPTIONS;

/// 2024-07-26 12:00 UTC, the clock of the data.
const NOW: Clock = Clock::Fixed(1_721_995_200);

pub(super) fn read(file: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            skip(Need::Data, format_args!("{}: {error}", path.display()));
            None
        }
    }
}

fn json(file: &str) -> Option<Value> {
    Some(serde_json::from_str(&read(file)?).unwrap())
}

/// A chat whose variables are exactly those of a context.
fn chat(context: &Map<String, Value>) -> Chat {
    let messages: Vec<Message> = serde_json::from_value(context["messages"].clone()).unwrap();
    let mut chat = Chat::new(messages);
    chat.adapt = false;
    chat.add_generation_prompt = false;
    for (name, value) in context {
        match (name.as_str(), value) {
            ("messages", _) => {}
            ("tools", Value::Array(tools)) => chat.tools = tools.clone(),
            ("add_generation_prompt", Value::Bool(add)) => chat.add_generation_prompt = *add,
            _ => drop(chat.kwargs.insert(name.clone(), value.clone())),
        }
    }
    chat
}

/// Compares a rendering, unless it is an exception: those must differ.
fn compare(template: &str, case: &str, expected: &str, got: &str, failures: &mut Vec<String>) {
    let exception = EXCEPTIONS.iter().find(|e| e.template == template && e.case == case);
    match (exception, expected == got) {
        (None, true) => {}
        (Some(exception), false) => assert!(!exception.reason.is_empty()),
        (None, false) => {
            let same = expected.bytes().zip(got.bytes()).take_while(|(a, b)| a == b).count();
            let from = |text: &str| -> String {
                text.bytes().skip(same.saturating_sub(40)).take(160).map(char::from).collect()
            };
            failures.push(format!(
                "{template}, {case}, byte {same}:\n  expected {:?}\n  got      {:?}",
                from(expected),
                from(got)
            ));
        }
        (Some(_), true) => failures.push(format!("{template}, {case} is no exception any more")),
    }
}

#[test]
fn renderings_of_jinja2() {
    let (Some(goldens), Some(contexts)) =
        (json("templates/goldens.json"), json("templates/contexts.json"))
    else {
        return;
    };
    let mut failures = Vec::new();
    let mut cases = 0;
    for (name, goldens) in goldens.as_object().unwrap() {
        let source = read(&format!("templates/{name}")).unwrap();
        let template = Template::with(&source, NOW, Limits::default()).unwrap();
        for (case, golden) in goldens.as_object().unwrap() {
            cases += 1;
            let got = template.render(&chat(contexts[case].as_object().unwrap()));
            if let Some(expected) = golden.get("output") {
                let got = match &got {
                    Ok(prompt) => prompt.text(),
                    Err(error) => error.to_string(),
                };
                compare(name, case, expected.as_str().unwrap(), &got, &mut failures);
                continue;
            }
            // The kind of an error counts, and the text of those that the template raises.
            let expected = golden["error"].as_str().unwrap();
            match (expected.strip_prefix("TemplateError: "), got) {
                (Some(message), Err(Error::Raised(got))) => {
                    compare(name, case, message, &got, &mut failures);
                }
                (None, Err(Error::Failed { line, .. })) => assert!(line > 0),
                (_, got) => failures.push(format!("{name}, {case}: {expected}, but got {got:?}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} of {cases}\n{}", failures.len(), failures.join("\n"));
    assert_eq!(cases, 84);
}

#[test]
fn renderings_of_llama_cpp() {
    let Some(cases) = json("vectors/test-chat-template.json") else { return };
    let messages = [
        ("system", "You are a helpful assistant"),
        ("user", "Hello"),
        ("assistant", "Hi there"),
        ("user", "Who are you"),
        ("assistant", "   I am an assistant   "),
        ("user", "Another question"),
    ];
    let messages: Vec<Value> = messages
        .iter()
        .map(|(role, content)| serde_json::json!({"role": role, "content": content}))
        .collect();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases.as_array().unwrap() {
        let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        let mut context = Map::new();
        let extra = case["extra_conversation"].as_array().into_iter().flatten();
        let messages: Vec<Value> = messages.iter().chain(extra).cloned().collect();
        context.insert("messages".into(), messages.into());
        context.insert("bos_token".into(), text("bos_token").into());
        context.insert("eos_token".into(), text("eos_token").into());
        context.insert("add_generation_prompt".into(), true.into());
        if name == "ai-sage/GigaChat-20B-A3B-instruct" {
            // The variable is part of the model's tokenizer configuration, which the data lacks.
            let tokens = ["<|role_sep|>", "<|message_sep|>", "[", "]"];
            context.insert("additional_special_tokens".into(), tokens.to_vec().into());
        }
        // llama.cpp puts the system message before the first user message where a template has no
        // place for it, as adapted chats do.
        let mut chat = chat(&context);
        chat.adapt = !context.contains_key("additional_special_tokens");
        count += 1;
        let got = Template::with(&text("template"), NOW, Limits::default())
            .and_then(|template| {
                let token = |t: Template, name| t.token(name, &text(name));
                token(token(template, "bos_token"), "eos_token").render(&chat)
            })
            .map_or_else(|error| error.to_string(), |prompt| prompt.text());
        let expected = match text("expected_jinja") {
            jinja if jinja.is_empty() => text("expected_builtin"),
            jinja => jinja,
        };
        compare(&name, "expected_jinja", &expected, &got, &mut failures);
        if name.starts_with("ai-sage") {
            assert_eq!(format!("<s>{got}"), expected);
        }
    }
    assert!(failures.is_empty(), "{} of {count}\n{}", failures.len(), failures.join("\n"));
    assert_eq!(count, 36);
}
