//! Requests as the clients that people use send them.

use pelton_server::ModelConfig;
use serde_json::{Value, json};

use crate::harness::{TestServer, shared, start};

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The prompt that a chat is given.
fn prompt(server: &TestServer, body: &Value) -> String {
    server.post("/apply-template", body).ok()["prompt"].as_str().unwrap().to_owned()
}

fn error(server: &TestServer, path: &str, body: &Value) -> (String, String) {
    let answer = server.post(path, body);
    assert_eq!(answer.status, 400, "{}", answer.body);
    let error = &answer.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("message"), text("param"))
}

/// LangChain's `Llamafile`, Continue's provider of llama.cpp, SillyTavern.
#[test]
fn completion_of_llama_cpp() {
    let server = shared();
    let body = |more: Value| {
        let mut body = json!({"prompt": "Once upon a time", "n_predict": 8, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let whole = server.post("/completion", &body(json!({"n_probs": 2, "return_tokens": true})));
    let whole = whole.ok();
    let other = json!({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0});
    let other = server.post("/v1/completions", &other).ok();
    assert_eq!(whole["content"], other["choices"][0]["text"]);
    assert_eq!((&whole["stop"], &whole["stop_type"]), (&json!(true), &json!("limit")));
    assert_eq!((&whole["tokens_predicted"], &whole["truncated"]), (&json!(8), &json!(false)));
    assert_eq!(whole["tokens"].as_array().unwrap().len(), 8);
    let entry = &whole["completion_probabilities"][0];
    assert_eq!(entry["id"], whole["tokens"][0]);
    assert_eq!(
        (&entry["id"], &entry["logprob"]),
        (&entry["top_logprobs"][0]["id"], &entry["top_logprobs"][0]["logprob"],)
    );
    assert!(whole["timings"]["predicted_n"] == 8 && whole["tokens_evaluated"].as_u64() > Some(1));
    // a stream ends with the object that has stop, and nothing after it
    let events = server.post("/completions", &body(json!({"stream": true}))).events();
    let events: Vec<Value> = events.iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    let text: String = events.iter().map(|event| event["content"].as_str().unwrap()).collect();
    assert_eq!(whole["content"], text);
    let (last, others) = events.split_last().unwrap();
    assert!(others.iter().all(|event| event["stop"] == false) && last["stop"] == true, "{last}");
    assert_eq!(last["tokens_predicted"], 8);
    // a grammar and a schema at the top of the body
    let grammar = body(json!({"grammar": "root ::= \"yes\" | \"no\""}));
    let text = server.post("/completion", &grammar).ok()["content"].clone();
    assert!(text == "yes" || text == "no", "{text}");
    let schema = body(json!({"n_predict": -1, "json_schema": {"type": "boolean"}}));
    let text = server.post("/completion", &schema).ok()["content"].clone();
    assert!(text == "true" || text == "false", "{text}");
    // a warm-up runs the prompt and answers nothing
    let warm = body(json!({"prompt": "Nobody has sent this so far. ".repeat(20), "n_predict": 0}));
    let first = server.post("/completion", &warm).ok();
    assert_eq!((&first["content"], &first["tokens_predicted"]), (&json!(""), &json!(0)));
    let again = server.post("/completion", &warm).ok();
    assert!(again["tokens_cached"].as_u64() > Some(0), "{again}");
    let (_, param) = error(server, "/completion", &json!({"prompt": ["a", "b"]}));
    assert_eq!(param, "prompt");
}

/// llama.vim and llama.vscode: a warm-up of the cache, and a text.
#[test]
fn infill() {
    // a model whose special tokens have the names of those for text in the middle
    let from = format!("{}/../../tests/fixtures/models/qwen3", env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("pelton-infill-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        let mut bytes = std::fs::read(format!("{from}/{name}")).unwrap();
        if name.starts_with("tokenizer") {
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replace("<unk>", "<|fim_prefix|>").replace("<s>", "<|fim_suffix|>");
            bytes = text.replace("<|endoftext|>", "<|fim_middle|>").into_bytes();
        }
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let server = start(|config| {
        config.models = vec![ModelConfig::file(&folder)];
        config.load = config.load.clone().context(128);
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let body = |count: i64| {
        json!({"input_prefix": "yes no yes no", "input_suffix": "no", "prompt": "on",
               "input_extra": [], "top_k": 40, "top_p": 0.9, "n_predict": count, "n_indent": 4,
               "cache_prompt": true, "t_max_predict_ms": 1, "response_fields": ["content"],
               "samplers": ["top_k", "top_p", "infill"], "ignore_eos": true, "stream": false})
    };
    let warm = server.post("/infill", &body(0)).ok();
    assert_eq!((&warm["content"], &warm["tokens_predicted"]), (&json!(""), &json!(0)));
    assert_eq!(server.post("/infill", &body(4)).ok()["tokens_predicted"], 4);
}

/// Base addresses without `/v1`: dspy, LiteLLM, editors.
#[test]
fn paths_without_a_version() {
    let server = shared();
    let chat = json!({"model": "built-in", "messages": [user("Hi")], "max_tokens": 2});
    assert_eq!(server.post("/chat/completions", &chat).ok()["object"], "chat.completion");
    assert_eq!(server.post("/messages", &chat).ok()["type"], "message");
    assert!(server.post("/messages/count_tokens", &chat).ok()["input_tokens"].is_u64());
    let wrong = server.post("/messages", &json!({"max_tokens": 1})).json();
    assert_eq!(wrong["type"], "error");
    let response = json!({"input": "Hi", "max_output_tokens": 2});
    assert_eq!(server.post("/responses", &response).ok()["object"], "response");
    let counted = server.post("/v1/responses/input_tokens", &response).ok();
    let other = server.post("/v1/chat/completions/input_tokens", &chat).ok();
    assert_eq!(counted["input_tokens"], other["input_tokens"]);
    assert_eq!(server.get("/models").ok()["data"][0]["id"], "built-in");
    assert_eq!(server.get("/lora-adapters").ok(), json!([]));
    for body in [json!({"input": "a"}), json!({"content": "a"})] {
        // the model has none, and says so
        error(server, "/embeddings", &body);
    }
    // Anthropic's list
    let list = server.get("/v1/models").ok();
    assert_eq!((&list["has_more"], &list["first_id"]), (&json!(false), &json!("built-in")));
    assert_eq!(
        (&list["data"][0]["type"], &list["data"][0]["display_name"]),
        (&json!("model"), &json!("built-in"),)
    );
}

/// llama.cpp's and LM Studio's habits, and older fields of OpenAI's.
#[test]
fn options_that_clients_send() {
    let server = shared();
    let chat = |more: Value| {
        let mut body = json!({"messages": [user("What is 2 plus 3?")], "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for unlimited in [json!({"max_tokens": -1}), json!({"max_tokens": 0}), json!({"n_predict": -1})]
    {
        let body = chat(unlimited);
        let json = server.post("/v1/chat/completions", &body).ok();
        assert!(json["usage"]["completion_tokens"].as_u64() > Some(0), "{json}");
    }
    let endless = json!({"prompt": "Once", "max_tokens": -1, "temperature": 0});
    let json = server.post("/v1/completions", &endless).ok();
    assert!(json["usage"]["completion_tokens"].as_u64() > Some(16), "{json}");
    let none = json!({"prompt": "Once", "max_tokens": 0, "echo": true});
    let json = server.post("/v1/completions", &none).ok();
    assert_eq!(json["choices"][0]["text"], "Once");
    let four = json!({"prompt": "Once", "n_predict": 4, "ignore_eos": true});
    let json = server.post("/v1/completions", &four).ok();
    assert_eq!(json["usage"]["completion_tokens"], 4);
    for accepted in [
        json!({"functions": [], "function_call": "none"}),
        json!({"function_call": "auto"}),
        json!({"logprobs": false, "top_logprobs": 0}),
        json!({"cache_prompt": false, "min_tokens": 0, "stop_token_ids": []}),
    ] {
        let mut body = chat(accepted);
        body["max_tokens"] = 1.into();
        server.post("/v1/chat/completions", &body).ok();
    }
    for (refused, name) in [
        (json!({"functions": [{"name": "f"}]}), "functions"),
        (json!({"function_call": {"name": "f"}}), "function_call"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"min_tokens": 5}), "min_tokens"),
        (json!({"stop_token_ids": [1]}), "stop_token_ids"),
    ] {
        assert_eq!(error(server, "/v1/chat/completions", &chat(refused)).1, name);
    }
    let mut grammar = chat(json!({"grammar": "root ::= \"yes\" | \"no\""}));
    let json = server.post("/v1/chat/completions", &grammar).ok();
    let text = &json["choices"][0]["message"]["content"];
    assert!(text == "yes" || text == "no", "{json}");
    grammar["grammar"] = "root ::= nothing".into();
    assert_eq!(server.post("/v1/chat/completions", &grammar).status, 400);
}

/// OpenAI's only field for thinking turns a template's switch.
#[test]
fn reasoning_effort_is_a_switch() {
    let template = std::env::temp_dir().join(format!("pelton-thinks-{}.jinja", std::process::id()));
    let source = "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is \
                  defined %}[thinks: {{ enable_thinking | tojson }} {{ reasoning_effort or '' }}]{% endif %}";
    std::fs::write(&template, source).unwrap();
    let server = start(|config| {
        let mut model = ModelConfig::built_in();
        model.template = Some(template.clone());
        config.models = vec![model];
    });
    std::fs::remove_file(&template).unwrap();
    for (effort, expected) in [
        (json!(null), "Hi"),
        (json!("none"), "Hi[thinks: false ]"),
        (json!("minimal"), "Hi[thinks: false minimal]"),
        (json!("low"), "Hi[thinks: true low]"),
        (json!("xhigh"), "Hi[thinks: true xhigh]"),
    ] {
        let body = json!({"messages": [user("Hi")], "reasoning_effort": effort});
        assert_eq!(prompt(&server, &body), expected);
    }
    let own =
        json!({"messages": [user("Hi")], "reasoning_effort": "low", "enable_thinking": false});
    assert_eq!(prompt(&server, &own), "Hi[thinks: false low]");
}

/// A call that was cut, an image: a conversation goes on after both.
#[test]
fn histories_go_on() {
    let server = shared();
    let call = json!({"id": "c1", "type": "function",
                      "function": {"name": "f", "arguments": "{\"a\": "}});
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let body = json!({"max_tokens": 1, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "See"}, image]},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [image]},
    ]});
    let text = prompt(server, &body);
    assert!(text.contains("See") && text.matches("left out").count() == 2, "{text}");
    assert!(text.contains("{\\\"a\\\": ") || text.contains("{\"a\": "), "{text}");
    server.post("/v1/chat/completions", &body).ok();
    let newest = json!({"messages": [{"role": "user", "content": [image]}]});
    let (message, param) = error(server, "/v1/chat/completions", &newest);
    assert_eq!(param, "messages");
    assert!(message.contains("reads text only") && message.contains("mmproj"), "{message}");
    // images of Ollama's API
    let body = json!({"model": "built-in", "stream": false, "options": {"num_predict": 1},
                      "messages": [{"role": "user", "content": "See", "images": ["AA=="]},
                                   {"role": "assistant", "content": "What?"}, user("Hi")]});
    server.post("/api/chat", &body).ok();
    let newest = json!({"model": "built-in",
                        "messages": [{"role": "user", "content": "See", "images": ["AA=="]}]});
    assert_eq!(server.post("/api/chat", &newest).status, 400);
}

/// Claude Code: blocks that are no text, turns of one author, and a full context.
#[test]
fn messages_of_claude_code() {
    let server = shared();
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                                   "data": "AA=="}});
    let count = |messages: Value| {
        let body = json!({"messages": messages});
        server.post("/v1/messages/count_tokens", &body).ok()["input_tokens"].as_u64().unwrap()
    };
    let document = json!({"type": "document", "title": "T", "source": {
        "type": "text", "media_type": "text/plain", "data": "one two three four five six"}});
    let with = count(json!([{"role": "user", "content": [document]}]));
    assert!(with > count(json!([user("T")])) + 3);
    let history = json!([
        {"role": "user", "content": [image, {"type": "text", "text": "See"}]},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
            image, {"type": "tool_reference", "tool_name": "read"}]}]},
        user("Go on."),
        user("Please."),
    ]);
    let body = json!({"max_tokens": 1, "messages": history});
    assert_eq!(server.post("/v1/messages", &body).ok()["role"], "assistant");
    let newest = json!({"max_tokens": 1, "messages": [{"role": "user", "content": [image]}]});
    let (message, _) = error(server, "/v1/messages", &newest);
    assert!(message.contains("reads text only"), "{message}");
    // two messages of a user are one
    let one = count(json!([user("Go on.\nPlease.")]));
    assert_eq!(count(json!([user("Go on."), user("Please.")])), one);
    let long = json!({"max_tokens": 1, "messages": [user(&"word ".repeat(2000))]});
    let (message, _) = error(server, "/v1/messages", &long);
    let rest = message.strip_prefix("prompt is too long: ").unwrap();
    let (tokens, most) = rest.split_once(" tokens > ").unwrap();
    assert!(tokens.parse::<usize>().unwrap() > 2000 && most == "512 maximum", "{message}");
}

/// The questions of clients before their first prompt: lists, versions, and whether there is a
/// server.
#[test]
fn first_requests() {
    let server = shared();
    let paths = "/ /v1/models /v1/models/built-in /models /api/tags /api/ps /api/version /props /slots \
                 /health /v1/health /docs /openapi.json /metrics";
    for path in paths.split_whitespace() {
        assert_eq!(server.get(path).status, 200, "{path}");
        let head = server.send("HEAD", path, &[], b"");
        assert!(head.status == 200 && head.body.is_empty(), "{path}: {head:?}");
        assert_eq!(server.send("OPTIONS", path, &[], b"").status, 204, "{path}");
    }
    let shown = server.post("/api/show", &json!({"model": "built-in:latest"})).ok();
    assert_eq!(shown["capabilities"][0], "completion");
    // Anthropic's library asks for a page of the list
    assert_eq!(server.get("/v1/models?limit=1000").ok()["data"][0]["id"], "built-in");
}

/// Vercel's AI SDK names earlier items; OpenAI's library names the response.
#[test]
fn responses_are_continued() {
    let server = shared();
    let items = |last: Value| {
        json!([{"role": "user", "content": "My name is Ada."}, last,
               {"role": "user", "content": "Hi"}])
    };
    let first = json!({"input": "My name is Ada.", "max_output_tokens": 8, "temperature": 0});
    let first = server.post("/v1/responses", &first).ok();
    assert_eq!(first["store"], true);
    let said = &first["output"][0];
    let count = |body: &Value| {
        server.post("/v1/responses/input_tokens", body).ok()["input_tokens"].as_u64().unwrap()
    };
    let whole = count(&json!({"input": items(said.clone())}));
    let reference = json!({"type": "item_reference", "id": said["id"]});
    assert_eq!(count(&json!({"input": items(reference)})), whole);
    let next = json!({"input": "Hi", "previous_response_id": first["id"], "max_output_tokens": 2});
    assert_eq!(count(&next), whole);
    let second = server.post("/v1/responses", &next).ok();
    assert_eq!(second["previous_response_id"], first["id"]);
    // a response is read, and forgotten
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(server.get(&path).ok(), first);
    let deleted = server.send("DELETE", &path, &[], b"").ok();
    assert_eq!((&deleted["id"], &deleted["deleted"]), (&first["id"], &json!(true)));
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.send("DELETE", &path, &[], b"").status, 404);
    assert_eq!(error(server, "/v1/responses", &next).1, "previous_response_id");
    // the conversation that went on from it is whole
    let third =
        json!({"input": "Hi", "previous_response_id": second["id"], "max_output_tokens": 2});
    server.post("/v1/responses", &third).ok();
    // a stream is stored too
    let stream = json!({"input": "Hi", "max_output_tokens": 2, "stream": true});
    let events = server.post("/v1/responses", &stream).events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    let id = &last["response"]["id"];
    server.post("/v1/responses", &json!({"input": "Hi", "previous_response_id": id})).ok();
    // one that is not stored is refused by name
    let private = json!({"input": "Hi", "max_output_tokens": 2, "store": false});
    let private = server.post("/v1/responses", &private).ok();
    assert_eq!(private["store"], false);
    let lost = json!({"input": "Hi", "previous_response_id": private["id"]});
    assert_eq!(error(server, "/v1/responses", &lost).1, "previous_response_id");
    let lost = json!({"input": [{"type": "item_reference", "id": "msg_none"}]});
    assert_eq!(error(server, "/v1/responses", &lost).1, "input[0].id");
    let unknown = json!({"input": [{"type": "nonsense"}]});
    assert_eq!(error(server, "/v1/responses", &unknown).1, "input[0].type");
}

/// Codex and instructor: calls of other kinds, tools of the provider, a format beside a demanded
/// call.
#[test]
fn responses_of_agents() {
    let server = shared();
    let tool = json!({"type": "function", "strict": true,
        "parameters": {"type": "object", "properties": {"a": {"type": "boolean"}},
                       "required": ["a"], "additionalProperties": false},
        "description": "It adds.", "name": "add"});
    let body = json!({
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "***"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
            {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "c2", "output": "a"},
            {"type": "web_search_call", "id": "w1", "status": "completed"},
            {"type": "message", "role": "user", "content": "Go on."},
        ],
        "tools": [{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": []}, tool],
        "tool_choice": {"type": "function", "name": "add"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low", "summary": "none"}, "temperature": 0.7,
        "parallel_tool_calls": false, "max_output_tokens": 200, "seed": 1,
    });
    let response = server.post("/v1/responses", &body).ok();
    assert_eq!(response["temperature"].to_string(), "0.7");
    let call = response["output"].as_array().unwrap().iter().find(|o| o["type"] == "function_call");
    let call = call.unwrap_or_else(|| panic!("{response}"));
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(call["name"] == "add" && arguments["a"].is_boolean(), "{call}");
    let part = json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]});
    assert_eq!(error(server, "/v1/responses", &part).1, "input[0].content[0]");
}

/// Ollama's command line, VS Code, and libraries for retrieval.
#[test]
fn habits_of_ollama() {
    let server = shared();
    let tags = server.get("/api/tags").ok();
    let (tag, ps) = (&tags["models"][0], server.get("/api/ps").ok());
    let digest = tag["digest"].as_str().unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{digest}");
    assert_eq!(ps["models"][0]["digest"], *digest);
    assert!(ps["models"][0]["size"].as_u64() > Some(0));
    // VS Code asks for 0.6.4 or higher
    let version = server.get("/api/version").ok();
    let parts: Vec<u32> =
        version["version"].as_str().unwrap().split('.').map(|n| n.parse().unwrap()).collect();
    assert!(parts >= vec![0, 6, 4], "{version}");
    // a text that goes on after another
    let generate = |prompt: &str, context: Value| {
        server.post(
            "/api/generate",
            &json!({"model": "built-in", "prompt": prompt,
            "context": context, "stream": false, "options": {"temperature": 0, "num_predict": 4}}),
        )
    };
    let first = generate("My name is Ada.", Value::Null).ok();
    let context = first["context"].as_array().unwrap();
    let tokens = |line: &Value, name: &str| line[name].as_u64().unwrap() as usize;
    let most = tokens(&first, "prompt_eval_count") + tokens(&first, "eval_count");
    assert!((most - 1..=most).contains(&context.len()), "{first}");
    let second = generate("Hi", first["context"].clone()).ok();
    let alone = generate("Hi", Value::Null).ok();
    let added = tokens(&second, "prompt_eval_count") - tokens(&alone, "prompt_eval_count");
    assert_eq!(added, context.len());
    assert_eq!(generate("Hi", json!([999_999_999])).status, 400);
}

/// A text that is too long for its model is cut, unless that is refused.
#[test]
fn long_texts_to_embed() {
    let model = format!("{}/../../tests/fixtures/models/nomic-bert", env!("CARGO_MANIFEST_DIR"));
    let server = start(|config| {
        config.models = vec![ModelConfig::file(model)];
        config.load = config.load.clone().context(16);
    });
    let long = "hello world ".repeat(40);
    let body = |more: Value| {
        let mut body = json!({"model": "nomic-bert", "input": ["hello", long]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let cut = server.post("/api/embed", &body(json!({}))).ok();
    assert_eq!(cut["embeddings"].as_array().unwrap().len(), 2);
    let same = server.post("/api/embed", &body(json!({"truncate": true}))).ok();
    assert_eq!(cut["embeddings"], same["embeddings"]);
    assert_eq!(server.post("/api/embed", &body(json!({"truncate": false}))).status, 400);
    let native = json!({"content": "hello"});
    let native = server.post("/embedding", &native).ok();
    assert_eq!(native[0]["embedding"][0].as_array(), cut["embeddings"][0].as_array());
}

/// The tokenizer of lm-evaluation-harness names no model.
#[test]
fn tokens_of_the_first_model() {
    let server = start(|config| {
        let mut other = ModelConfig::built_in();
        other.name = "other".to_owned();
        config.models = vec![ModelConfig::built_in(), other];
        config.lazy = true;
    });
    assert!(server.post("/tokenize", &json!({"prompt": "a"})).ok()["count"].is_u64());
    assert_eq!(server.post("/v1/completions", &json!({"prompt": "a"})).status, 400);
}

/// A model without a chat template explains its tools, and writes calls as the explanation says.
#[test]
fn tools_without_a_template() {
    let template = std::env::temp_dir().join(format!("pelton-plain-{}.jinja", std::process::id()));
    std::fs::write(&template, "{% for m in messages %}{{ m.content }}\n{% endfor %}").unwrap();
    let server = start(|config| {
        let mut model = ModelConfig::built_in();
        model.template = Some(template.clone());
        config.models = vec![model];
    });
    std::fs::remove_file(&template).unwrap();
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}});
    let body = json!({
        "messages": [user("Weather?"), {"role": "assistant", "content": null, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "c1", "content": "sunny"}],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
    });
    let text = prompt(&server, &body);
    assert!(text.contains("\"arguments\": OBJECT"), "{text}");
    assert!(
        text.contains("{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}"),
        "{text}"
    );
    assert!(text.contains("<tool_response>\nsunny\n</tool_response>"), "{text}");
}

/// Open WebUI, over OpenAI's API and over Ollama's, with fields of its own.
#[test]
fn open_webui() {
    let server = shared();
    let own = json!({
        "stream": true, "model": "built-in", "messages": [user("Hi")], "params": {},
        "tool_servers": [], "features": {"web_search": false}, "variables": {"{{USER_NAME}}": "a"},
        "session_id": "a", "chat_id": "b", "id": "c", "background_tasks": {"title_generation": true},
        "stream_options": {"include_usage": true}, "metadata": {"chat_id": "b"}, "max_tokens": 4,
    });
    let chunks = server.post("/v1/chat/completions", &own).chunks();
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].as_u64() > Some(4), "{chunks:?}");
    let mut ollama = own;
    ollama["model"] = "built-in:latest".into();
    ollama["options"] =
        json!({"num_ctx": 2048, "num_keep": 24, "num_predict": 4, "use_mmap": true});
    ollama["keep_alive"] = "5m".into();
    let lines = server.post("/api/chat", &ollama).lines();
    assert_eq!(lines.last().unwrap()["done"], true);
}
