//! Chats with pictures, compared with renderings by transformers (`tests/fixtures/pictures.json`).

use pelton_chat::{
    Chat, Content, Error, IMAGES_MAX, Message, Prompt, Template, ToolCall, image_part,
};
use serde_json::{Map, Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn message(value: Value) -> Message {
    serde_json::from_value(value).unwrap()
}

fn chat(messages: Value) -> Chat {
    Chat::new(serde_json::from_value(messages).unwrap())
}

/// The part of a picture, as a client sends it.
fn image() -> Value {
    json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The numbers of the pictures in a prompt.
fn numbers(prompt: &Prompt) -> Vec<usize> {
    prompt.segments.iter().filter_map(|segment| segment.image).collect()
}

/// A template of the family of Qwen, in which messages of tools have pictures too.
fn qwen() -> Template {
    template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}\
         {% else %}{% for p in m.content %}{% if p.type == 'image' %}<|image_pad|>{% else %}{{ p.text }}\
         {% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}",
        "<|image_pad|>",
    )
}

fn template(source: &str, placeholder: &str) -> Template {
    let controls = ["<|im_start|>", "<|im_end|>"].map(str::to_owned);
    Template::new(source).unwrap().image(placeholder).unwrap().controls(controls).unwrap()
}

#[test]
fn renderings_of_transformers() {
    let all: Map<String, Value> =
        serde_json::from_str(include_str!("../fixtures/pictures.json")).unwrap();
    let mut cases = 0;
    for (name, entry) in &all {
        let source = match &entry["file"] {
            Value::String(file) => match super::vectors::read(&format!("templates/{file}")) {
                Some(source) => source,
                None => continue,
            },
            _ => entry["template"].as_str().unwrap().to_owned(),
        };
        let placeholder = entry["placeholder"].as_str().unwrap();
        let template = Template::new(&source).unwrap().token("bos_token", "<s>");
        let template = template.token("eos_token", "</s>").image(placeholder).unwrap();
        assert!(template.capabilities().images, "{name}");
        for (case, one) in entry["cases"].as_object().unwrap() {
            let sent =
                one["messages"].to_string().replace(r#"{"type":"image"}"#, &image().to_string());
            let sent: Value = serde_json::from_str(&sent).unwrap();
            let prompt = template.render(&chat(sent.clone())).unwrap();
            assert_eq!(prompt.text(), one["expected"].as_str().unwrap(), "{name}, {case}");
            // the placeholders are segments of their own, in the order of the pictures
            let count = sent.to_string().matches("image_url\":").count();
            assert_eq!(numbers(&prompt), (0..count).collect::<Vec<_>>(), "{name}, {case}");
            for segment in &prompt.segments {
                assert_eq!(
                    segment.image.is_some(),
                    segment.text == placeholder && segment.control_tokens
                );
            }
            // one that a user has typed is a text
            let typed = prompt.segments.iter().filter(|segment| !segment.control_tokens);
            let typed: Vec<&str> = typed.map(|segment| segment.text.as_str()).collect();
            let expected: &[&str] = if case == "typed" { &[placeholder] } else { &[] };
            assert_eq!(typed, expected, "{name}, {case}");
            cases += 1;
        }
    }
    assert!(cases >= 24, "{cases}");
}

#[test]
fn a_template_without_pictures_has_them_before_the_text() {
    let plain = template(
        "{% for m in messages %}<|im_start|>{{ m.content | trim }}<|im_end|>{% endfor %}",
        "<image>",
    );
    assert!(!plain.capabilities().images);
    let chat = chat(json!([
        {"role": "user", "content": [text(" a <image>"), image(), text("b "), image()]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": [image()]},
    ]));
    let prompt = plain.render(&chat).unwrap();
    assert_eq!(
        prompt.text(),
        "<|im_start|><image><image>a <image>\nb<|im_end|><|im_start|>c<|im_end|><|im_start|><image>\
         <|im_end|>"
    );
    assert_eq!(numbers(&prompt), [0, 1, 2]);
}

#[test]
fn every_form_of_a_part() {
    let data = "data:image/png;base64,iVBORw0KGgo=";
    for part in [
        image(),
        json!({"type": "image_url", "image_url": data}),
        json!({"type": "input_image", "image_url": data, "detail": "low"}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg",
                                           "data": "iVBORw0KGgo"}}),
        json!({"type": "image", "image": data}),
        json!({"type": "image", "url": "DATA:;base64,iVBORw0K\r\nGgo=\n"}),
        json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}),
    ] {
        let chat = chat(json!([{"role": "user", "content": [part, text("x")]}]));
        assert_eq!(chat.images().unwrap(), [PNG], "{part}");
        assert_eq!(
            qwen().render(&chat).unwrap().text(),
            "<|im_start|>user\n<|image_pad|>x<|im_end|>\n"
        );
    }
    // the two alphabets
    let bytes = [0xfb, 0xff, 0xfe];
    for source in ["+//+", "-__-"] {
        let part = Value::Object(image_part(source));
        assert_eq!(chat(json!([{"role": "user", "content": [part]}])).images().unwrap(), [bytes]);
    }
    let own = Message::with_images("user", "x", [PNG, &bytes]);
    assert_eq!(Chat::new(vec![own]).images().unwrap(), [PNG, &bytes]);
}

#[test]
fn pictures_that_are_refused() {
    let fails = |content: Value, word: &str| {
        let error = chat(json!([{"role": "user", "content": content}])).images().unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    let url = |url: &str| json!([{"type": "image_url", "image_url": {"url": url}}]);
    fails(url("https://example.com/a.png"), "\"https://example.com/a.png\"");
    fails(url("file:///etc/passwd"), "file:///etc/passwd");
    fails(url("data:image/png,abc"), "base64");
    fails(url("data:image/png;base64"), "comma");
    fails(url("data:image/png;base64,****"), "not valid base64");
    fails(url("data:image/png;base64,"), "empty");
    fails(json!([{"type": "image_url"}]), "no source");
    fails(url(&"A".repeat(27_000_000)), "20000000 bytes");
    // the number is checked before anything is decoded
    let many: Vec<Value> = (0..10_000).map(|_| url("****")[0].clone()).collect();
    fails(many.into(), "10000 pictures, expected at most 16");
    let most: Vec<Value> = (0..IMAGES_MAX).map(|_| image()).collect();
    assert_eq!(chat(json!([{"role": "user", "content": most}])).images().unwrap().len(), 16);
    // roles that have none, and models that take none
    let chat =
        chat(json!([{"role": "system", "content": [image()]}, {"role": "user", "content": "x"}]));
    let error = qwen().render(&chat).unwrap_err().to_string();
    assert!(error.contains("\"system\""), "{error}");
    let own = Chat::new(vec![Message::with_images("user", "x", [PNG])]);
    let error = Template::new("{{ messages[0].content }}").unwrap().render(&own).unwrap_err();
    assert!(error.to_string().contains("takes no pictures"), "{error}");
}

#[test]
fn a_template_that_loses_or_repeats_a_picture_is_an_error() {
    let shown = "{% for p in messages[-1].content %}{% if p.type == 'image' %}[IMG]{% else %}{{ p.text }}\
                 {% endif %}{% endfor %}";
    let chat = chat(json!([
        {"role": "user", "content": [image(), text("x")]},
        {"role": "user", "content": [image(), text("x")]},
    ]));
    for (source, count) in [(shown.to_owned(), 1), (format!("{shown}[IMG][IMG]{shown}"), 4)] {
        let error = template(&source, "[IMG]").render(&chat).unwrap_err();
        let expected = format!("wrote {count} placeholders \"[IMG]\", expected one for each of 2");
        assert!(matches!(&error, Error::Invalid(text) if text.contains(&expected)), "{error}");
    }
}

/// A conversation in which two results have pictures.
fn called() -> Chat {
    let mut calls = Message::new("assistant", "");
    calls.tool_calls = ["a", "b"].map(|id| ToolCall::new(id, "shot", json!({}))).into();
    let result = |id: &str| {
        message(json!({"role": "tool", "tool_call_id": id, "content": [text("done"), image()]}))
    };
    let last = message(json!({"role": "user", "content": [image(), text("Which?")]}));
    let ok = Message::new("assistant", "ok");
    Chat::new(vec![Message::new("user", "Go."), calls, result("a"), result("b"), ok, last])
}

#[test]
fn pictures_of_results() {
    let prompt = qwen().render(&called()).unwrap();
    assert!(prompt.text().contains("<|im_start|>tool\ndone<|image_pad|><|im_end|>"));
    assert_eq!(numbers(&prompt), [0, 1, 2]);
    // a template that writes none there
    let source = "{% for m in messages %}<|im_start|>{{ m.role }} {% if m.role == 'tool' or m.content is \
                  string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}\
                  <image>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";
    let moved = template(source, "<image>").render(&called()).unwrap();
    let note = "done\n[picture: in the next message]";
    assert_eq!(
        moved.text(),
        format!(
            "<|im_start|>user Go.<|im_start|>assistant <|im_start|>tool {note}<|im_start|>tool {note}\
             <|im_start|>user <image><image>The pictures of the results.<|im_start|>assistant ok\
             <|im_start|>user <image>Which?"
        )
    );
    assert_eq!(numbers(&moved), [0, 1, 2]);
    // and one that refuses such a message of the user, too
    let strict = format!(
        "{{% for m in messages %}}{{% if loop.previtem and loop.previtem.role == 'tool' and m.role == \
         'user' %}}{{{{ raise_exception('no') }}}}{{% endif %}}{{% endfor %}}{source}"
    );
    let kept = template(&strict, "<image>").render(&called()).unwrap();
    assert!(kept.text().contains("<|im_start|>tool <image>done"), "{}", kept.text());
    assert_eq!(numbers(&kept), [0, 1, 2]);
}

#[test]
fn joined_turns_keep_their_pictures() {
    let source = "{% for m in messages %}{% if loop.previtem and loop.previtem.role == m.role %}\
                  {{ raise_exception('no') }}{% endif %}<|im_start|>{% if m.content is string %}\
                  {{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}<image>\
                  {% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";
    let mut first = Message::with_images("user", "a", [PNG]);
    first.content = first.content.map(|content| match content {
        Content::Parts(parts) => Content::Parts(parts.into_iter().rev().collect()),
        text => text,
    });
    let chat = Chat::new(vec![first, Message::with_images("user", "b", [PNG])]);
    let prompt = template(source, "<image>").render(&chat).unwrap();
    assert_eq!(prompt.text(), "<|im_start|>a<image><image>b");
    assert_eq!(numbers(&prompt), [0, 1]);
}
