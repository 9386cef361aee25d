//! The environment of templates: expected values from Python 3.12 and Jinja2 3.1.6.

use pelton_chat::{Chat, Clock, Limits, Message, Template, ToolCall};
use serde_json::{Value, json};

/// Renders an expression with a message and variables.
fn value(expression: &str) -> String {
    let source = format!("{{{{ {expression} }}}}");
    let template = Template::with(&source, Clock::Fixed(1_721_995_200), Limits::default()).unwrap();
    let mut chat = Chat::new(vec![Message::new("user", "Hi")]);
    let Value::Object(variables) = json!({
        "s": "  Ab, cd\u{1f} ", "l": [3, 1, 2], "d": {"b": 1, "a": "é<'\"\\\n"}, "f": 1e20, "n": null,
    }) else {
        unreachable!()
    };
    chat.kwargs = variables;
    chat.adapt = false;
    match template.render(&chat) {
        Ok(prompt) => prompt.text(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn expressions() {
    for (expression, expected) in [
        ("none", "None"),
        ("true", "True"),
        ("1.0", "1.0"),
        ("f", "1e+20"),
        ("f | string + '!'", "1e+20!"),
        ("undefined_name", ""),
        ("undefined_name | length", "0"),
        ("none is iterable", "False"),
        ("s is iterable", "True"),
        ("d | tojson", "{\"b\": 1, \"a\": \"é<'\\\"\\\\\\n\"}"),
        ("d | tojson(ensure_ascii=True)", "{\"b\": 1, \"a\": \"\\u00e9<'\\\"\\\\\\n\"}"),
        ("d | tojson(sort_keys=True)", "{\"a\": \"é<'\\\"\\\\\\n\", \"b\": 1}"),
        ("l | tojson(separators=(',', ':'))", "[3,1,2]"),
        ("l | tojson(indent=2)", "[\n  3,\n  1,\n  2\n]"),
        ("{'a': {}, 'b': []} | tojson(indent=1)", "{\n \"a\": {},\n \"b\": []\n}"),
        ("[1.0, 1e-5, 1e16, none, true] | tojson", "[1.0, 1e-05, 1e+16, null, true]"),
        ("'\u{7f}' | tojson(true)", "\"\\u007f\""),
        ("'😀' | tojson(true)", "\"\\ud83d\\ude00\""),
        ("s.strip()", "Ab, cd"),
        ("s.lstrip() | length", "8"),
        ("'xxaxx'.strip('x')", "a"),
        ("'a,b,c'.rsplit(',', 1)", "['a,b', 'c']"),
        ("' a  b '.rsplit(none, 1)", "[' a', 'b']"),
        ("' a  b '.split()", "['a', 'b']"),
        ("' a  b c '.split(none, 1)", "['a', 'b c ']"),
        ("'a,b,c'.split(',', 1)", "['a', 'b,c']"),
        ("'a=b=c'.partition('=')[2]", "b=c"),
        ("'a=b=c'.rpartition('=')[0]", "a=b"),
        ("'abc'.removeprefix('a').removesuffix('c')", "b"),
        ("'abc'.index('c')", "2"),
        ("'-7'.zfill(4)", "-007"),
        ("'ab'.center(5)", "  ab "),
        ("'a'.center(4, '*')", "*a**"),
        ("l.index(1)", "1"),
        ("d.get('x', 'y')", "y"),
        ("d.items() | list | length", "2"),
        ("dict(a=1).b is defined", "False"),
        ("[][::-1]", "[]"),
        ("''[::-1]", ""),
        ("()[::-1]", "()"),
        ("l[::-1]", "[2, 1, 3]"),
        ("l[::2]", "[3, 2]"),
        ("l[5::-1]", "[2, 1, 3]"),
        ("l[0:5:-1]", "[]"),
        ("l[-1:-9:-2]", "[2, 3]"),
        ("l[-9:9:2]", "[3, 2]"),
        ("l[9:0:-1]", "[2, 1]"),
        ("l[1:2:1]", "[1]"),
        ("'abcdef'[4:1:-2]", "ec"),
        ("'aé😀'[::-1]", "😀éa"),
        ("(1, 2, 3)[::-2]", "(3, 1)"),
        ("(l)[::-1][0]", "2"),
        ("l[::-9223372036854775808]", "[2]"),
        ("l[-9223372036854775808::-1]", "[]"),
        ("undefined_name[::-1]", "[]"),
        ("l[::1] | length", "3"),
        ("dict.fromkeys(['a', 'b'], 0) | tojson", "{\"a\": 0, \"b\": 0}"),
        ("dict([('a', 1)], b=2) | tojson", "{\"a\": 1, \"b\": 2}"),
        ("strftime_now('%d %b %Y %H:%M')", "26 Jul 2024 12:00"),
        ("strftime_now('%B %-d, %Y')", "July 26, 2024"),
        ("'a\nb\n\nc' | indent", "a\n    b\n\n    c"),
        ("'a\nb' | indent(2, true)", "  a\n  b"),
        ("'%s-%03d' | format('x', 7)", "x-007"),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn blocks() {
    let template = Template::new(
        "  {% for i in range(9) %}\n  {%- if i == 1 %}{% continue %}{% endif %}\n  {% if i == 3 %}\n\
         {% break %}\n{% endif %}\n{% generation %}{{ i }}{% endgeneration %}\n{% endfor %}\n\
         {% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}\n",
    )
    .unwrap();
    let prompt = template.render(&Chat::new(vec![Message::new("user", "x")])).unwrap();
    assert_eq!(prompt.text(), "022");
}

const TURNS: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}\
                     {% if add_generation_prompt %}<assistant>{% endif %}";

#[test]
fn the_last_message_is_continued() {
    let template = Template::new(TURNS).unwrap();
    let messages = vec![Message::new("user", "Count"), Message::new("assistant", "1, 2, ")];
    let mut chat = Chat::new(messages);
    chat.continue_final_message = true;
    assert!(template.render(&chat).unwrap_err().to_string().contains("exclude each other"));
    chat.add_generation_prompt = false;
    assert_eq!(template.render(&chat).unwrap().text(), "<user>Count</><assistant>1, 2,");
    let hidden = Template::new("{{ messages[0].content }}").unwrap();
    assert!(hidden.render(&chat).unwrap_err().to_string().contains("does not write the last"));
}

#[test]
fn options_are_variables() {
    let source = "{{ enable_thinking }} {{ thinking }} {{ reasoning_effort }} {{ bos_token }} \
                  {{ add_generation_prompt }} {{ tools is none }}";
    let template = Template::new(source).unwrap().token("bos_token", "<s>");
    let mut chat = Chat::new(vec![Message::new("user", "x")]);
    assert_eq!(template.render(&chat).unwrap().text(), "   <s> True True");
    chat.enable_thinking = Some(false);
    chat.reasoning_effort = Some("low".into());
    assert_eq!(template.render(&chat).unwrap().text(), "False False low <s> True True");
    chat.kwargs.insert("bos_token".into(), "[B]".into());
    chat.kwargs.insert("add_generation_prompt".into(), false.into());
    chat.kwargs.insert("thinking".into(), 7.into());
    assert_eq!(template.render(&chat).unwrap().text(), "False 7 low [B] False True");
}

#[test]
fn messages_are_adapted() {
    let call = |arguments| {
        let mut message = Message::new("assistant", "");
        message.tool_calls = vec![ToolCall::new("abcdefghi", "f", arguments)];
        vec![Message::new("user", "x"), message]
    };
    let objects = "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in \
                   c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}";
    let strings = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + \
                   c.function.arguments }}{% endfor %}{% endfor %}";
    for arguments in [json!({"a": 1}), json!("{\"a\": 1}")] {
        let chat = Chat::new(call(arguments));
        assert_eq!(Template::new(objects).unwrap().render(&chat).unwrap().text(), "a=1");
        assert_eq!(Template::new(strings).unwrap().render(&chat).unwrap().text(), "f{\"a\":1}");
    }
    let empty = Template::new(strings).unwrap().render(&Chat::new(call(json!("")))).unwrap();
    assert_eq!(empty.text(), "f{}");
    // arguments that are no object are a text, in an object where a template reads only those
    for broken in ["[1]", "{\"a\": "] {
        let chat = Chat::new(call(json!(broken)));
        let text = |source| Template::new(source).unwrap().render(&chat).unwrap().text();
        assert_eq!(text(objects), format!("arguments={broken}"));
        assert_eq!(text(strings), format!("f{broken}"));
    }

    let parts = json!([{"role": "developer", "content": [{"type": "text", "text": "A"},
        {"type": "text", "text": "B"}]}, {"role": "user", "content": null}]);
    let chat = Chat::new(serde_json::from_value(parts).unwrap());
    let strict = "{% for m in messages %}{% if m.role == 'developer' %}{{ raise_exception('no') }}\
                  {% endif %}{{ m.role }}:{{ (m.content or '') + '.' }}{% endfor %}";
    assert_eq!(Template::new(strict).unwrap().render(&chat).unwrap().text(), "system:A\nB.user:.");

    let no_system = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}\
                     {% endif %}{{ m.role }}:{{ m.content }};{% endfor %}";
    let chat = Chat::new(vec![
        Message::new("system", "S"),
        Message::new("user", "U"),
        Message::new("assistant", "A"),
    ]);
    assert_eq!(
        Template::new(no_system).unwrap().render(&chat).unwrap().text(),
        "user:S\nU;assistant:A;"
    );
}

#[test]
fn messages_are_checked() {
    for (json, expected) in [
        (json!({"content": "x"}), "a message has no role"),
        (json!("x"), "a message is not an object"),
        (
            json!({"role": "user", "content": 1}),
            "the content of a message is not a string or a list",
        ),
        (json!({"role": "user", "tool_calls": {}}), "tool_calls of a message is not a list"),
        (json!({"role": "user", "tool_calls": [{}]}), "a tool call has no function name"),
    ] {
        let error = serde_json::from_value::<Message>(json).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
