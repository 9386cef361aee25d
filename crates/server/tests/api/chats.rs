//! Chats as clients send them: what the model reads, and what its texts become.

use pelton_server::{Config, ModelConfig};
use serde_json::{Value, json};

use crate::harness::{TestServer, shared, start};

/// A template of a Mistral model in short: one system message, and a default without it. Its calls
/// are those of Hermes, which any vocabulary writes as text.
const TEMPLATE: &str = "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}\
    {% set rest = messages[1:] %}{% else %}{% set s = 'Default.' %}{% set rest = messages %}{% endif %}\
    <s>{{ s }}</s>{% for m in rest %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}\
    <{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}\
    {{ m.content + '' }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}</tool_call>\
    {% endfor %}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}\
    {# <think> </think> #}";

/// A server whose model has that template.
fn server(name: &str) -> TestServer {
    let path = std::env::temp_dir().join(format!("pelton-{name}-{}.jinja", std::process::id()));
    std::fs::write(&path, TEMPLATE).unwrap();
    let server = start(|config: &mut Config| {
        let mut model = ModelConfig::built_in();
        model.template = Some(path.clone());
        config.models = vec![model];
    });
    std::fs::remove_file(&path).unwrap();
    server
}

/// The prompt of a chat of OpenAI's form.
fn prompt(server: &TestServer, messages: Value) -> String {
    let answer = server.post("/apply-template", &json!({"messages": messages})).ok();
    answer["prompt"].as_str().unwrap().to_owned()
}

/// Tokens of a prompt of Anthropic's form, of a response, or of OpenAI's form.
fn tokens(server: &TestServer, path: &str, body: &Value) -> u64 {
    server.post(path, body).ok()["input_tokens"].as_u64().unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The tokens of a text, with those that a template's text begins with.
fn count(server: &TestServer, text: &str) -> u64 {
    let body = json!({"content": text, "parse_special": true, "add_special": false});
    server.post("/tokenize", &body).ok()["tokens"].as_array().unwrap().len() as u64
}

/// A message of OpenAI's client, as `model_dump` writes it, comes back.
#[test]
fn messages_of_the_client_come_back() {
    let server = server("dumped");
    let call = json!({"id": "call_1", "type": "function",
        "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let expected = "<s>Default.</s><user>Hi</user><assistant><tool_call>f</tool_call></assistant>\
                    <tool>21</tool><assistant>";
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "21"});
    for message in [
        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "assistant", "tool_calls": [call]}),
        json!({"role": "assistant", "content": [], "tool_calls": [call]}),
        json!({"content": null, "refusal": null, "role": "assistant", "annotations": null, "audio": null,
            "function_call": null, "tool_calls": [call]}),
    ] {
        assert_eq!(prompt(&server, json!([user("Hi"), message, result])), expected);
    }
    let part = json!([{"type": "text", "text": "21"}]);
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": part});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    assert_eq!(prompt(&server, json!([user("Hi"), message, result])), expected);
    // Ollama's form has the arguments as an object, and no identifiers
    let ollama = json!({"model": "built-in", "stream": false, "options": {"num_predict": 1}, "messages": [
        user("Hi"), {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "21"}]});
    let answer = server.post("/api/chat", &ollama).ok();
    assert_eq!(answer["prompt_eval_count"], count(&server, expected), "{answer}");
    let anthropic = json!({"model": "built-in", "messages": [user("Hi"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": part}]}]});
    let counted = tokens(&server, "/v1/messages/count_tokens", &anthropic);
    assert_eq!(counted, count(&server, expected));
}

/// A template that takes one system message has the texts of all.
#[test]
fn several_system_messages() {
    let server = server("systems");
    let system = |text: &str| json!({"role": "system", "content": text});
    let expected = "<s>A\n\nB</s><user>Hi</user><assistant>";
    for messages in [
        json!([system("A"), system("B"), user("Hi")]),
        json!([system("A"), {"role": "developer", "content": "B"}, user("Hi")]),
        json!([system("A"), user("Hi"), system("B")]),
    ] {
        assert_eq!(prompt(&server, messages), expected);
    }
    let body =
        json!({"instructions": "A", "input": [{"role": "developer", "content": "B"}, user("Hi")]});
    assert_eq!(tokens(&server, "/v1/responses/input_tokens", &body), count(&server, expected));
}

#[test]
fn roles_and_parts_are_known() {
    let server = shared();
    let error = |path: &str, body: Value| {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        let error = &answer.json()["error"];
        error["message"].as_str().or(error.as_str()).unwrap().to_owned()
    };
    let messages = json!([user("Hi"), {"role": "boss", "content": "x"}]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": messages})),
        ("/v1/responses", json!({"input": messages})),
        ("/api/chat", json!({"model": "built-in", "messages": messages})),
    ] {
        let message = error(path, body);
        assert!(message.contains("\"boss\"") && message.contains("developer, user"), "{message}");
    }
    let part = json!({"type": "hologram", "data": "x"});
    let messages = json!([{"role": "user", "content": [part]}, {"role": "assistant", "content": "a"}, user("b")]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": messages})),
        ("/v1/responses", json!({"input": messages})),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 1})),
        ("/api/chat", json!({"model": "built-in", "messages": messages})),
    ] {
        let message = error(path, body);
        assert!(message.contains("hologram") && message.contains("content[0]"), "{message}");
    }
}

/// Reasoning of the Responses API belongs to the turn in which it comes.
#[test]
fn reasoning_of_items() {
    let server = server("items");
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let thought = |text: &str| {
        json!({"type": "reasoning", "id": "r", "summary": [],
        "content": [{"type": "reasoning_text", "text": text}]})
    };
    let call =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "1"});
    let summary = json!({"type": "reasoning", "encrypted_content": "xyz",
        "summary": [{"type": "summary_text", "text": "Sum"}]});
    let sealed = json!({"type": "reasoning", "encrypted_content": "xyz", "summary": []});
    let called = "<tool_call>f</tool_call></assistant><tool>1</tool>";
    for (items, expected) in [
        (
            json!([message("user", "U"), thought("T"), call("a"), output("a"), message("assistant", "M")]),
            format!("<user>U</user><assistant><think>T</think>{called}<assistant>M</assistant>"),
        ),
        (
            json!([message("user", "U"), message("assistant", "I look."), thought("T"), call("a"),
                output("a"), message("assistant", "M")]),
            format!("<user>U</user><assistant><think>T</think>I look.{called}<assistant>M</assistant>"),
        ),
        (
            json!([message("user", "U"), thought("S"), message("assistant", "I look."), thought("T"),
                call("a"), output("a"), thought("R"), message("assistant", "M"), message("user", "V")]),
            format!("<user>U</user><assistant><think>S\nT</think>I look.{called}<assistant>\
                     <think>R</think>M</assistant><user>V</user>"),
        ),
        (
            json!([message("user", "U"), thought("S"), call("a"), thought("T"), call("b"), output("a"),
                output("b")]),
            "<user>U</user><assistant><think>S\nT</think><tool_call>f</tool_call><tool_call>f</tool_call>\
             </assistant><tool>1</tool><tool>1</tool>".to_owned(),
        ),
        (
            json!([message("user", "U"), summary, call("a"), output("a")]),
            format!("<user>U</user><assistant><think>Sum</think>{called}"),
        ),
        (
            json!([message("user", "U"), sealed, call("a"), output("a")]),
            format!("<user>U</user><assistant>{called}"),
        ),
        // a turn that was not answered
        (
            json!([message("user", "U"), thought("T"), message("user", "V"), message("assistant", "M"),
                message("user", "W")]),
            "<user>U</user><user>V</user><assistant>M</assistant><user>W</user>".to_owned(),
        ),
    ] {
        let expected = format!("<s>Default.</s>{expected}<assistant>");
        let counted = tokens(&server, "/v1/responses/input_tokens", &json!({"input": items}));
        assert_eq!(counted, count(&server, &expected), "{items}\n{expected}");
    }
}

/// A request whose model writes a text, by a grammar.
fn written(text: &str, more: Value) -> Value {
    let tool = json!({"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}});
    let mut body = json!({"model": "built-in", "messages": [user("Go.")], "max_tokens": 300,
        "tools": [{"type": "function", "function": tool}],
        "grammar": format!("root ::= {}", Value::from(text))});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The message of a chat, which is the same streamed.
fn reply(server: &TestServer, mut body: Value) -> (Value, String, u64) {
    let whole = server.post("/v1/chat/completions", &body).ok();
    let choice = &whole["choices"][0];
    body["stream"] = true.into();
    let chunks = server.post("/v1/chat/completions", &body).chunks();
    let started: Vec<&Value> = chunks
        .iter()
        .filter(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/id").is_some())
        .collect();
    let calls = choice["message"]["tool_calls"].as_array().map_or(0, Vec::len);
    assert_eq!(started.len(), calls, "{whole}");
    let mut reasons =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(reasons.next_back(), choice["finish_reason"].as_str());
    let tokens = whole["usage"]["completion_tokens"].as_u64().unwrap();
    (choice["message"].clone(), choice["finish_reason"].as_str().unwrap().to_owned(), tokens)
}

#[test]
fn one_call_of_two() {
    let server = server("one-call");
    let one = |n: usize| {
        format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"a\": {n}}}}}\n</tool_call>")
    };
    let two = format!("{}\n{}", one(1), one(2));
    let (message, reason, all) = reply(&server, written(&two, json!({})));
    assert_eq!(
        (message["tool_calls"].as_array().unwrap().len(), &*reason),
        (2, "tool_calls"),
        "{message}"
    );
    let more = json!({"parallel_tool_calls": false, "tool_choice": "auto"});
    let (message, reason, less) = reply(&server, written(&two, more));
    assert_eq!(
        (message["tool_calls"].as_array().unwrap().len(), &*reason),
        (1, "tool_calls"),
        "{message}"
    );
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), json!({"a": 1}));
    // tokens without an alternative come in one pass: the second call may be computed, and is not
    // counted
    let (_, _, single) = reply(&server, written(&one(1), json!({})));
    assert!(less <= single && single < all, "{less}, {single} and {all} tokens");
}

/// A model that ends its answer while it thinks.
#[test]
fn thinking_that_is_not_finished() {
    let server = server("thinking");
    let (message, reason, _) = reply(&server, written("<think>abc", json!({})));
    assert_eq!((&message["reasoning_content"], &*reason), (&json!("abc"), "stop"), "{message}");
    assert!(message["content"].is_null() || message["content"] == "", "{message}");
    let (message, reason, _) =
        reply(&server, written("<think>abcXYZdef", json!({"stop": ["XYZ"]})));
    assert_eq!((&message["reasoning_content"], &*reason), (&json!("abc"), "stop"), "{message}");
}
