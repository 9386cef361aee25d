//! Messages as clients send them, in templates that take them otherwise: a message has one prompt
//! in all its spellings.

use std::path::PathBuf;

use pelton_chat::{Chat, Clock, Limits, Message, Template};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

/// Forms of published templates, by family, short enough to be read.
const TEMPLATES: [(&str, &str); 6] = [
    // Qwen/Qwen3-0.6B as it was published first
    (
        "qwen3",
        "{% for message in messages %}{% if message.role == 'assistant' %}\
      {{ '<|im_start|>' + message.role + '\\n' + message.content }}\
      {% for tool_call in message.tool_calls or [] %}<tool_call>{{ tool_call.function.name }} \
      {{ tool_call.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>\
      {% elif message.role == 'tool' %}<|im_start|>user\n<tool_response>{{ message.content }}<|im_end|>\
      {% else %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}{% endif %}\
      {% endfor %}",
    ),
    // zai-org/GLM-4.6 takes parts of the user alone
    (
        "glm4.6",
        "{% macro visible(content) %}{% if content is string %}{{ content }}\
      {% elif content is iterable %}{% for item in content %}{{ item.text }}{% endfor %}{% endif %}{% endmacro %}\
      {% for m in messages %}{% if m.role == 'user' %}<|user|>\n{{ visible(m.content) }}\
      {% elif m.role == 'assistant' %}<|assistant|>\n{{ m.content.strip() }}\
      {% for tc in m.tool_calls or [] %}<tool_call>{{ tc.function.name }}</tool_call>{% endfor %}\
      {% elif m.role == 'tool' %}<|observation|>\n<tool_response>\n{{ m.content }}\n</tool_response>\
      {% elif m.role == 'system' %}<|system|>\n{{ m.content }}{% endif %}{% endfor %}",
    ),
    // deepseek-ai/DeepSeek-R1 writes the calls of a message whose content is null
    (
        "r1",
        "{% for m in messages %}{% if m['role'] == 'assistant' and m['content'] is none %}\
      {% for tc in m['tool_calls'] %}<call>{{ tc['function']['name'] }}</call>{% endfor %}\
      {% elif m['role'] == 'assistant' %}<a>{{ m['content'] + '</a>' }}\
      {% elif m['role'] == 'tool' %}<t>{{ m['content'] + '</t>' }}\
      {% else %}<{{ m['role'] }}>{{ m['content'] }}{% endif %}{% endfor %}",
    ),
    // a template of a model that sees takes nothing but parts
    (
        "parts",
        "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p['text'] + '.' }}{% endfor %}\
      {% for tc in m.tool_calls or [] %}<call>{{ tc.function.name }}{% endfor %}{% endfor %}",
    ),
    // mistralai/Mistral-Small: one system message, and a default without it
    (
        "mistral-small",
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}\
      {% set rest = messages[1:] %}{% else %}{% set s = 'I am a default.' %}{% set rest = messages %}{% endif %}\
      [SYSTEM_PROMPT]{{ s }}[/SYSTEM_PROMPT]{% for m in rest %}\
      {% if m.role == 'user' %}[INST]{{ m.content + '[/INST]' }}\
      {% elif m.role == 'assistant' and m.tool_calls %}[TOOL_CALLS]{{ m.tool_calls[0].function.name }}\
      {% elif m.role == 'assistant' %}{{ m.content + '</s>' }}\
      {% elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content + '[/TOOL_RESULTS]' }}\
      {% else %}{{ raise_exception('Only user, system and assistant') }}{% endif %}{% endfor %}",
    ),
    (
        "chatml",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content + '<|im_end|>' }}\
      {% for tc in m.tool_calls or [] %}<call>{{ tc.function.name }}{% endfor %}{% endfor %}",
    ),
];

fn published() -> Option<Vec<(String, String)>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/templates");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        skip(Need::Data, format_args!("{} is missing", folder.display()));
        return None;
    };
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Some((name, std::fs::read_to_string(path).ok()?))
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let templates = paths.filter(|path| path.extension().is_some_and(|end| end == "jinja"));
    Some(templates.filter_map(read).collect())
}

fn template(source: &str) -> Template {
    let template = Template::with(source, Clock::Fixed(0), Limits::default()).unwrap();
    template.token("bos_token", "<s>").token("eos_token", "</s>")
}

fn rendered(template: &Template, messages: &Value) -> Result<String, String> {
    let messages: Vec<Message> = serde_json::from_value(messages.clone()).unwrap();
    let mut chat = Chat::new(messages);
    let tool = json!({"name": "get_weather", "description": "W", "parameters": {"type": "object", "properties": {}}});
    chat.tools = vec![json!({"type": "function", "function": tool})];
    template.render(&chat).map(|prompt| prompt.text()).map_err(|error| error.to_string())
}

fn all(check: impl Fn(&str, &Template)) {
    for (name, source) in TEMPLATES {
        check(name, &template(source));
    }
    for (name, source) in published().unwrap_or_default() {
        check(&name, &template(&source));
    }
}

/// A call and its result, as the message of an assistant says.
fn called(assistant: Value, result: &Value) -> Value {
    let mut message = json!({"role": "assistant", "tool_calls": [{"id": "abcdefghi", "type": "function",
        "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]});
    message.as_object_mut().unwrap().extend(assistant.as_object().unwrap().clone());
    json!([{"role": "user", "content": "Hi"}, message,
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": result}])
}

/// OpenAI's client sends back the message that it has, with all its nulls.
#[test]
fn calls_without_content() {
    let dumped = json!({"content": null, "refusal": null, "annotations": null, "audio": null,
        "function_call": null, "reasoning_content": null, "name": null});
    let mut written = 0;
    all(|name, template| {
        let expected = rendered(template, &called(json!({"content": ""}), &"21".into()));
        for assistant in
            [json!({"content": null}), json!({}), json!({"content": []}), dumped.clone()]
        {
            let got = rendered(template, &called(assistant.clone(), &"21".into()));
            assert_eq!(got, expected, "{name}: {assistant}");
        }
        let text = expected.unwrap_or_default();
        assert!(!text.contains("None"), "{name}: {text}");
    });
    for (name, source) in TEMPLATES {
        let text = rendered(&template(source), &called(json!({"content": null}), &"21".into()));
        assert!(text.as_ref().is_ok_and(|text| text.contains("get_weather")), "{name}: {text:?}");
        written += 1;
    }
    assert_eq!(written, 6);
}

/// A text is the same as one part, in every role.
#[test]
fn parts_are_texts() {
    all(|name, template| {
        let part = |text: &str| json!([{"type": "text", "text": text}]);
        for (text, parts) in [
            (
                called(json!({"content": ""}), &"21".into()),
                called(json!({"content": []}), &part("21")),
            ),
            (
                json!([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                    {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}]),
                json!([{"role": "system", "content": part("S")}, {"role": "user", "content": part("U")},
                    {"role": "assistant", "content": part("A")}, {"role": "user", "content": part("V")}]),
            ),
            (
                json!([{"role": "developer", "content": "S"}, {"role": "user", "content": "U"}]),
                json!([{"role": "developer", "content": part("S")}, {"role": "user", "content": part("U")}]),
            ),
        ] {
            let (text, parts) = (rendered(template, &text), rendered(template, &parts));
            assert_eq!(text, parts, "{name}");
        }
    });
    let glm = template(TEMPLATES[1].1);
    let two = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let text = rendered(&glm, &called(json!({"content": null}), &two)).unwrap();
    assert!(text.ends_with("<tool_response>\na\nb\n</tool_response>"), "{text}");
}

/// The text of each system message is in the prompt, and no default prompt.
#[test]
fn several_system_messages() {
    let system = |text: &str| json!({"role": "system", "content": text});
    let user = |text: &str| json!({"role": "user", "content": text});
    let answer = json!({"role": "assistant", "content": "Yes."});
    all(|name, template| {
        for messages in [
            json!([system("Alpha."), system("Beta."), user("Hi")]),
            json!([system("Alpha."), {"role": "developer", "content": "Beta."}, user("Hi")]),
            json!([{"role": "developer", "content": "Alpha."}, system("Beta."), user("Hi")]),
            json!([system("Alpha."), user("Hi"), answer, system("Beta."), user("Ho")]),
            json!([user("Alpha."), answer, system("Beta."), user("Ho")]),
        ] {
            let text =
                rendered(template, &messages).unwrap_or_else(|error| panic!("{name}: {error}"));
            let (first, second) = (text.matches("Alpha.").count(), text.matches("Beta.").count());
            assert_eq!((first, second), (1, 1), "{name}: {messages}\n{text}");
            assert!(!text.contains("I am a default"), "{name}: {text}");
        }
    });
    let text =
        |template: usize, messages| rendered(&self::template(TEMPLATES[template].1), &messages);
    assert_eq!(
        text(4, json!([system("A"), system("B"), user("Hi")])).unwrap(),
        "[SYSTEM_PROMPT]A\n\nB[/SYSTEM_PROMPT][INST]Hi[/INST]"
    );
    // a template that writes each keeps each
    assert_eq!(
        text(5, json!([system("A"), system("B"), user("Hi")])).unwrap(),
        "<|im_start|>system\nA<|im_end|><|im_start|>system\nB<|im_end|><|im_start|>user\nHi<|im_end|>"
    );
    // one that writes any role knows no developer
    assert_eq!(
        text(5, json!([{"role": "developer", "content": "A"}, user("Hi")])).unwrap(),
        "<|im_start|>system\nA<|im_end|><|im_start|>user\nHi<|im_end|>"
    );
}

#[test]
fn messages_of_one_author() {
    let strict = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
                  {{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let messages = json!([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"}, {"role": "assistant", "content": null},
        {"role": "user", "content": "d"}]);
    assert_eq!(rendered(&template(strict), &messages).unwrap(), "<user>a\n\nb<assistant>c<user>d");
    // a system message has no place in it
    let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
        {"role": "user", "content": "b"}]);
    assert_eq!(rendered(&template(strict), &messages).unwrap(), "<user>s\na\n\nb");
}

#[test]
fn a_message_without_content_is_continued() {
    for content in [json!(null), json!(""), json!([])] {
        let messages =
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": content}]);
        let mut chat = Chat::new(serde_json::from_value(messages).unwrap());
        (chat.add_generation_prompt, chat.continue_final_message) = (false, true);
        let text = template(TEMPLATES[5].1).render(&chat).unwrap().text();
        assert_eq!(text, "<|im_start|>user\na<|im_end|><|im_start|>assistant\n");
    }
}

/// Mistral's templates demand identifiers of nine characters, which other servers and Ollama's
/// clients do not send.
#[test]
fn identifiers_of_calls() {
    let strict = "{% for m in messages %}{% for c in m.tool_calls or [] %}\
                  {% if c.id is not defined or c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}\
                  <call {{ c.id }}>{% endfor %}{% if m.role == 'tool' %}\
                  {% if m.tool_call_id is not defined or m.tool_call_id | length != 9 %}\
                  {{ raise_exception('id') }}{% endif %}<result {{ m.tool_call_id }}>{{ m.content }}{% endif %}\
                  {% endfor %}";
    let call = |id: Value| {
        let mut call = json!({"type": "function", "function": {"name": "f", "arguments": {}}});
        if !id.is_null() {
            call["id"] = id;
        }
        call
    };
    let text = |ids: [Value; 2], results: [Value; 2]| {
        let [first, second] = ids.map(call);
        let [one, two] =
            results.map(|id| json!({"role": "tool", "tool_call_id": id, "content": "x"}));
        let asked = json!({"role": "assistant", "content": null, "tool_calls": [first, second]});
        rendered(&template(strict), &json!([{"role": "user", "content": "u"}, asked, one, two]))
            .unwrap()
    };
    let none = Value::Null;
    let in_order = "<call 000000000><call 000000001><result 000000000>x<result 000000001>x";
    assert_eq!(
        text(["call_a".into(), "call_b".into()], ["call_a".into(), "call_b".into()]),
        in_order
    );
    assert_eq!(text([none.clone(), none.clone()], [none.clone(), none.clone()]), in_order);
    let swapped = "<call 000000000><call 000000001><result 000000001>x<result 000000000>x";
    assert_eq!(
        text(["call_a".into(), "call_b".into()], ["call_b".into(), "call_a".into()]),
        swapped
    );
    let kept = "<call abcdefghi><call 123456789><result abcdefghi>x<result 123456789>x";
    assert_eq!(
        text(["abcdefghi".into(), "123456789".into()], ["abcdefghi".into(), "123456789".into()]),
        kept
    );
}

/// Kimi's identifiers are names and numbers of calls, which its templates write as they come.
#[test]
fn identifiers_that_a_model_writes() {
    let source = "{% for m in messages %}{% for c in m.tool_calls or [] %}<|tool_call_begin|>\
                  {{ c.id }}<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}\
                  {% endfor %}{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }}\
                  {% endif %}{% endfor %}";
    let call = |name: &str, id: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": {}}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let messages = json!([
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": null, "tool_calls": [call("f", "call_a"), call("g", "call_b")]},
        result("call_b"),
        result("call_a"),
    ]);
    assert_eq!(
        rendered(&template(source), &messages).unwrap(),
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}\
         <|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}\
         ## Return of functions.g:1## Return of functions.f:0"
    );
}
