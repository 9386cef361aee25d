//! Fields that no API has, and fields of other servers.

use std::time::{Duration, Instant};

use pelton_server::ModelConfig;
use serde_json::{Value, json};

use crate::harness::{Answer, TestServer, shared, start};

/// The sentence and the field of a refusal in any API's shape.
fn refusal(answer: &Answer) -> (String, Option<String>) {
    assert_eq!(answer.status, 400, "{}", answer.body);
    let error = &answer.json()["error"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let message = text(error).or_else(|| text(&error["message"]));
    (message.unwrap(), text(&error["param"]))
}

fn chat(more: &Value) -> Value {
    let mut body = json!({"model": "built-in", "max_tokens": 1,
                          "messages": [{"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A field beside the example of every path of the document is refused by name.
#[test]
fn unknown_fields_are_refused_everywhere() {
    let server = shared();
    let document = server.get("/openapi.json").ok();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let content = &methods["post"]["requestBody"]["content"]["application/json"];
        // a download needs a hub
        if content.is_null() || path == "/api/pull" {
            continue;
        }
        let mut body = content["example"].clone();
        body["zzz_field"] = 1.into();
        let (message, _) = refusal(&server.post(path, &body));
        assert_eq!(message, "zzz_field is an unknown field, /docs lists the fields", "{path}");
        // and one that is null is not there
        body["zzz_field"] = Value::Null;
        let answer = server.post(path, &body);
        assert!(!answer.body.contains("zzz_field"), "{path}: {}", answer.body);
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

/// The fields that the document lists are read, with any value.
#[test]
fn documented_fields_are_known() {
    let server = shared();
    let document = server.get("/openapi.json").ok();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let content = &methods["post"]["requestBody"]["content"]["application/json"];
        if path == "/api/pull" || path.starts_with("/models/") {
            continue;
        }
        for name in
            content["schema"]["properties"].as_object().into_iter().flat_map(|all| all.keys())
        {
            let mut body = content["example"].clone();
            body[name] = json!({"zzz": 0});
            let answer = server.post(path, &body);
            let is_unknown = answer.body.contains(&format!("{name} is an unknown field"));
            assert!(!is_unknown, "{path} {name}: {}", answer.body);
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

/// Misspelled fields, in the body and within it, have the field that was meant in the error.
#[test]
fn misspelled_fields_name_the_right_one() {
    let server = shared();
    let message = |more: Value| json!({"messages": [more]});
    let user = |more: &str| {
        let mut user = json!({"role": "user", "content": "Hi"});
        user[more] = 1.into();
        message(user)
    };
    let tool = |more: Value| {
        let mut function = json!({"name": "f"});
        function.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tools": [{"type": "function", "function": function}]})
    };
    let schema = json!({"name": "a", "schema": {"type": "object"}, "strct": true});
    for (path, more, field, meant) in [
        ("/v1/chat/completions", json!({"max_tokns": 2}), "max_tokns", "max_tokens"),
        ("/v1/chat/completions", json!({"maxTokens": 2}), "maxTokens", "max_tokens"),
        ("/v1/chat/completions", json!({"temprature": 2}), "temprature", "temperature"),
        ("/v1/chat/completions", json!({"stopp": "a"}), "stopp", "stop"),
        (
            "/v1/chat/completions",
            json!({"respose_format": {}}),
            "respose_format",
            "response_format",
        ),
        ("/v1/chat/completions", user("contents"), "messages[0].contents", "content"),
        (
            "/v1/chat/completions",
            message(json!({"role": "user", "content": [{"type": "text", "text": "a", "txt": 1}]})),
            "messages[0].content[0].txt",
            "text",
        ),
        (
            "/v1/chat/completions",
            message(json!({"role": "assistant", "tool_calls": [
                {"id": "a", "function": {"name": "f", "argumens": "{}"}}]})),
            "messages[0].tool_calls[0].function.argumens",
            "arguments",
        ),
        (
            "/v1/chat/completions",
            tool(json!({"paramaters": {}})),
            "tools[0].function.paramaters",
            "parameters",
        ),
        (
            "/v1/chat/completions",
            json!({"stream": true, "stream_options": {"include_usag": true}}),
            "stream_options.include_usag",
            "include_usage",
        ),
        (
            "/v1/chat/completions",
            json!({"response_format": {"type": "json_schema", "json_schema": schema}}),
            "response_format.json_schema.strct",
            "strict",
        ),
        (
            "/v1/chat/completions",
            json!({"structured_outputs": {"regexp": "a"}}),
            "structured_outputs.regexp",
            "regex",
        ),
        (
            "/v1/chat/completions",
            json!({"thinking": {"type": "enabled", "budget_token": 9}}),
            "thinking.budget_token",
            "budget_tokens",
        ),
        ("/v1/messages", json!({"max_tokens_": 2}), "max_tokens_", "max_tokens"),
        ("/v1/messages", json!({"sytem": "a"}), "sytem", "system"),
        ("/v1/messages", user("contnt"), "messages[0].contnt", "content"),
        (
            "/v1/messages",
            json!({"tools": [{"name": "f", "input_schma": {}}]}),
            "tools[0].input_schma",
            "input_schema",
        ),
        (
            "/v1/messages",
            json!({"thinking": {"type": "disabled", "budget_token": 9}}),
            "thinking.budget_token",
            "budget_tokens",
        ),
        ("/api/chat", json!({"keep_aliv": 1}), "keep_aliv", "keep_alive"),
        ("/api/chat", json!({"options": {"num_predct": 2}}), "options.num_predct", "num_predict"),
    ] {
        let mut body = chat(&more);
        if path == "/api/chat" {
            body.as_object_mut().unwrap().remove("max_tokens");
        }
        let (message, param) = refusal(&server.post(path, &body));
        let expected =
            format!("{field} is an unknown field, did you mean {meant}? /docs lists all");
        assert_eq!(message, expected, "{path} {more}");
        if path == "/v1/chat/completions" {
            assert_eq!(param.as_deref(), Some(field), "{more}");
        }
    }
    for (path, body, expected) in [
        (
            "/v1/responses",
            json!({"input": "Hi", "max_output_token": 1}),
            "max_output_token is an unknown field, did you mean max_output_tokens?",
        ),
        (
            "/v1/responses",
            json!({"input": [{"role": "user", "contens": "Hi"}]}),
            "input[0].contens is an unknown field, did you mean content?",
        ),
        (
            "/v1/responses",
            json!({"input": "Hi", "reasoning": {"efort": "low"}}),
            "reasoning.efort is an unknown field, did you mean effort?",
        ),
        (
            "/v1/completions",
            json!({"prompt": "Hi", "max_token": 1}),
            "max_token is an unknown field, did you mean max_tokens?",
        ),
        (
            "/completion",
            json!({"prompt": "Hi", "n_predct": 1}),
            "n_predct is an unknown field, did you mean n_predict?",
        ),
        (
            "/api/generate",
            json!({"model": "built-in", "prompt": "Hi", "sistem": "a"}),
            "sistem is an unknown field, did you mean system?",
        ),
        (
            "/tokenize",
            json!({"content": "Hi", "add_speciall": true}),
            "add_speciall is an unknown field, did you mean add_special?",
        ),
    ] {
        let (message, _) = refusal(&server.post(path, &body));
        assert!(message.starts_with(expected), "{path} {body}: {message}");
    }
}

/// Fields of other servers that change nothing here are accepted, and those that would change the
/// text are refused by name unless they have the value with which they do not.
#[test]
fn fields_of_other_servers() {
    let server = shared();
    for more in [
        // OpenAI
        json!({"user": "a", "safety_identifier": "a", "prompt_cache_key": "a", "store": true,
               "prompt_cache_retention": "24h", "metadata": {"a": "b"}, "service_tier": "auto",
               "verbosity": "low", "modalities": ["text"]}),
        // vLLM and SGLang
        json!({"skip_special_tokens": true, "spaces_between_special_tokens": true, "priority": 1,
               "include_reasoning": true, "length_penalty": 1.0, "use_beam_search": false,
               "bad_words": [], "request_id": "a", "rid": "a", "separate_reasoning": true,
               "include_stop_str_in_output": false, "min_tokens": 0, "kv_transfer_params": {}}),
        // llama.cpp
        json!({"id_slot": 0, "cache_prompt": true, "n_keep": 0, "timings_per_token": true,
               "reasoning_format": "auto", "samplers": ["top_k"], "return_progress": false}),
        // Open WebUI, LiteLLM, OpenRouter
        json!({"chat_id": "a", "session_id": "a", "id": "a", "background_tasks": {}, "features": {},
               "variables": {}, "tool_ids": [], "model_item": {}, "litellm_metadata": {},
               "provider": {"sort": "price"}, "transforms": [], "usage": {"include": true},
               "reasoning": {"effort": "low", "exclude": false}, "thinking": {"type": "disabled"}}),
        // messages as clients send them back
        json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": "a", "refusal": null, "annotations": [], "audio": null,
             "function_call": null, "provider_specific_fields": {}, "reasoning_details": []},
            {"role": "user", "content": "Hi", "id": "msg_1"}]}),
    ] {
        server.post("/v1/chat/completions", &chat(&more)).ok();
    }
    for (name, value) in [
        ("bad_words", json!(["a"])),
        ("chat_template", json!("{{ messages }}")),
        ("ebnf", json!("root ::= \"a\"")),
        ("extra_body", json!({"top_k": 1})),
        ("include_stop_str_in_output", json!(true)),
        ("length_penalty", json!(1.5)),
        ("n_probs", json!(3)),
        ("random_seed", json!(3)),
        ("regex", json!("a+")),
        ("skip_special_tokens", json!(false)),
        ("use_beam_search", json!(true)),
    ] {
        let (message, param) =
            refusal(&server.post("/v1/chat/completions", &chat(&json!({name: value}))));
        assert!(message.starts_with(name), "{message}");
        assert_eq!(param.as_deref(), Some(name));
    }
    // Claude Code
    let body = chat(&json!({
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": "user_0_account_1_session_2"}, "service_tier": "auto",
        "context_management": {"edits": []}, "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "strict": true,
                   "cache_control": {"type": "ephemeral"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}));
    server.post("/v1/messages", &body).ok();
    // Ollama
    let body = json!({"model": "built-in", "prompt": "Hi", "stream": false, "truncate": true,
        "options": {"num_predict": 1, "num_ctx": 128, "num_gpu": 0, "num_thread": 2, "num_keep": 4,
                    "num_batch": 8, "use_mmap": true, "tfs_z": 1.0, "typical_p": 1.0, "numa": false}});
    server.post("/api/generate", &body).ok();
}

/// A name of a field that a client wrote has no control characters in an error.
#[test]
fn names_of_fields_are_printable() {
    let name = "\u{1b}]52;c;aGk=\u{7}\n\u{202e}forged";
    let (message, _) = refusal(&shared().post("/v1/completions", &json!({"prompt": "a", name: 1})));
    assert!(message.starts_with("\\u{1b}]52;c;aGk=\\u{7}\\n\\u{202e}forged is an"), "{message:?}");
}

/// OpenAI's limits of metadata hold wherever it is read.
#[test]
fn metadata_has_limits() {
    let server = shared();
    let many: Value = (0..17).map(|i| (i.to_string(), json!("a"))).collect();
    for (path, body) in [
        ("/v1/chat/completions", chat(&json!({}))),
        ("/v1/messages", chat(&json!({}))),
        ("/v1/responses", json!({"input": "Hi", "max_output_tokens": 1})),
        ("/v1/completions", json!({"prompt": "Hi", "max_tokens": 1})),
    ] {
        let send = |metadata: &Value| {
            let mut body = body.clone();
            body["metadata"] = metadata.clone();
            server.post(path, &body)
        };
        send(&json!({"k": "v"})).ok();
        for (wrong, found) in [
            (&many, "17 pairs"),
            (&json!({"a".repeat(65): "b"}), "a key of 65 characters"),
            (&json!({"a": "b".repeat(513)}), "a value of 513 characters"),
            (&json!({"a": {"b": 1}}), "an object"),
        ] {
            let (message, _) = refusal(&send(wrong));
            assert!(message.starts_with(&format!("metadata has {found}")), "{path}: {message}");
        }
    }
}

/// Echoed and kept values are bounded by their cost, a conversation by the cost of a body.
#[test]
fn stored_responses_are_bounded() {
    let server = start(|config| config.load = config.load.clone().context(1024));
    let values = json!(vec![json!({"a": 0}); 20_000]);
    let tool = json!({"type": "web_search", "filters": values});
    let body = json!({"input": "Hi", "max_output_tokens": 1, "tools": [tool]});
    let before = memory();
    let mut last = String::new();
    for _ in 0..20 {
        last = server.post("/v1/responses", &body).ok()["id"].as_str().unwrap().to_owned();
    }
    let shown = server.get(&format!("/v1/responses/{last}")).ok();
    assert_eq!(shown["tools"], body["tools"]);
    // as values each of them takes 16 MB
    if let (Some(before), Some(after)) = (before, memory()) {
        assert!(after < before + (160 << 20), "{before} and {after} bytes");
    }
    // an item that a request names often
    let output =
        json!({"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": values});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let body = json!({"input": [call, output], "max_output_tokens": 1});
    // the parts have no text, and are too many for the context
    let answer = server.post("/v1/responses", &body);
    assert_eq!(answer.status, 400, "{}", answer.body);
    let long = "there was a little girl ".repeat(100);
    let said = json!([{"role": "user", "id": "item_1", "content": long}]);
    server.post("/v1/responses", &json!({"input": said, "max_output_tokens": 1})).ok();
    let references = json!(vec![json!({"type": "item_reference", "id": "item_1"}); 20_000]);
    let answer = server.post("/v1/responses", &json!({"input": references}));
    let (message, param) = refusal(&answer);
    assert!(message.contains("names stored items that take more than"), "{message}");
    assert!(param.is_some_and(|param| param.starts_with("input[")));
}

/// Bytes of memory that this process has, on Linux.
fn memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

/// Encodings of bodies.
#[test]
fn encodings() {
    let server = shared();
    let body = json!({"prompt": "Once", "max_tokens": 1}).to_string();
    let send = |headers: &[(&str, &str)], body: &[u8]| {
        server.send("POST", "/v1/completions", headers, body)
    };
    send(&[], &[b"\xef\xbb\xbf", body.as_bytes()].concat()).ok();
    send(&[("content-encoding", "identity")], body.as_bytes()).ok();
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    for (coding, bytes) in
        [("gzip", &gzip[..]), ("br", b"\x0b"), ("zstd", b"{}"), ("deflate", b"{}")]
    {
        let answer = send(&[("content-encoding", coding)], bytes);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 415, "{message}");
        assert_eq!(
            message,
            format!("Content-Encoding is {coding}, expected a body that is not compressed")
        );
    }
    // without the header
    assert_eq!(send(&[], gzip).status, 415);
    for (bytes, words) in [
        (body.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), "in UTF-16"),
        (body.encode_utf16().flat_map(u16::to_be_bytes).collect(), "in UTF-16"),
        (body.chars().flat_map(|c| (c as u32).to_le_bytes()).collect(), "in UTF-32"),
        ([&b"\xff\xfe"[..], b"{\0}\0"].concat(), "in UTF-16"),
        (b"{\"prompt\": \"caf\xe9\"}".to_vec(), "not UTF-8 from byte 15 on"),
    ] {
        let (message, _) = refusal(&send(&[], &bytes));
        assert!(message.contains(words), "{message}");
    }
}

/// Ollama's raw mode has no system message and no template, and says so.
#[test]
fn raw_texts_of_ollama() {
    let server = shared();
    let body = |more: Value| {
        let mut body = json!({"model": "built-in", "prompt": "Hi", "raw": true, "stream": false,
                              "options": {"num_predict": 1}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    server.post("/api/generate", &body(json!({"system": "", "template": "", "context": []}))).ok();
    for (name, value) in [("system", json!("a")), ("template", json!("a")), ("context", json!([1]))]
    {
        let (message, _) = refusal(&server.post("/api/generate", &body(json!({name: value}))));
        assert!(message.starts_with(&format!("{name} is there")), "{message}");
    }
}

/// A batch that is larger than the queue runs in slices, and has the texts that each prompt has
/// alone.
#[test]
fn batches_larger_than_the_queue() {
    let server = start(|config| {
        config.load = config.load.clone().max_concurrent(2).queue_requests(3).queue_tokens(64);
        config.models = vec![ModelConfig::built_in()];
    });
    let one = |i: usize| format!("Once upon a time number {}", i % 5);
    let body = |prompt: Value| json!({"prompt": prompt, "max_tokens": 3, "temperature": 0});
    let alone: Vec<Value> = (0..5)
        .map(|i| {
            let answer = server.post("/v1/completions", &body(one(i).into())).ok();
            answer["choices"][0]["text"].clone()
        })
        .collect();
    let prompts: Vec<String> = (0..40).map(one).collect();
    let whole = server.post("/v1/completions", &body(json!(prompts))).ok();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 40);
    for (i, choice) in choices.iter().enumerate() {
        assert_eq!((&choice["text"], &choice["index"]), (&alone[i % 5], &json!(i)));
    }
    assert_eq!(whole["usage"]["completion_tokens"], 40 * 3);
    // a stream of it
    let mut streamed = body(json!(prompts));
    streamed["stream"] = true.into();
    let mut texts = vec![String::new(); 40];
    for chunk in server.post("/v1/completions", &streamed).chunks() {
        let choice = &chunk["choices"][0];
        texts[choice["index"].as_u64().unwrap() as usize] += choice["text"].as_str().unwrap();
    }
    assert!(texts.iter().enumerate().all(|(i, text)| alone[i % 5] == *text.as_str()));
    // log-probabilities of prompts come from the first of several texts
    let mut scored = body(json!(&prompts[..6]));
    scored["n"] = 3.into();
    scored["echo"] = true.into();
    scored["logprobs"] = 0.into();
    let choices = server.post("/v1/completions", &scored).ok()["choices"].clone();
    assert_eq!(choices.as_array().unwrap().len(), 18);
    assert_eq!(
        choices[0]["logprobs"]["token_logprobs"][1],
        choices[2]["logprobs"]["token_logprobs"][1]
    );
    // replies to a chat
    let replies =
        server.post("/v1/chat/completions", &chat(&json!({"n": 12, "temperature": 0}))).ok();
    let choices = replies["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 12);
    assert!(choices.iter().enumerate().all(|(i, choice)| choice["index"] == i));
    assert!(choices.iter().all(|choice| choice["message"] == choices[0]["message"]));
    wait_until_idle(&server);
}

fn wait_until_idle(server: &TestServer) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let metrics = server.get("/metrics").body;
        if metrics.contains("pelton_requests_running{model=\"built-in\"} 0\n") {
            return;
        }
        assert!(Instant::now() < end, "{metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
