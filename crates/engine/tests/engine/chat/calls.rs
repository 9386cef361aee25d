//! Demanded tool calls of the built-in model, in every format.

use std::{io::Write, process::Command};

use pelton::chat::{AnswerStart, Chat, ChatTemplate, Format, Message, ToolChoice};
use pelton::{Constraint, FinishReason, GenerateOptions, Model, Sampling};
use pelton_constraint::Compiler;
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

use super::{PLAIN, model, user};

/// A template in which a format is detected, whose reasoning has ended.
fn template(model: &Model, format: &Format) -> ChatTemplate {
    let clues = format.clues[0].join(" ");
    let reasoning = match format.reasoning {
        Some(reasoning) => format!("{}\n\n{}", reasoning.open, reasoning.close),
        None => String::new(),
    };
    let source = model.tokenizer().unwrap().chat_template().unwrap();
    let source = format!("{source}{reasoning}{{# {clues} #}}");
    let template = model.chat_template_from(&source).unwrap();
    assert_eq!(template.output_format().name, format.name);
    template
}

fn schema() -> Value {
    json!({"type": "object", "required": ["city", "days", "tags"], "additionalProperties": false,
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "unit": {"type": "string", "enum": ["C", "F"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 99},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 5}}}})
}

fn tools() -> Vec<Value> {
    vec![
        json!({"type": "function", "function": {"name": "weather", "parameters": schema()}}),
        json!({"type": "function", "function": {"name": "time"}}),
    ]
}

/// The formats that have calls.
const FORMATS: [&str; 13] = [
    "harmony",
    "gemma4",
    "deepseek-v3.2",
    "deepseek-v3",
    "deepseek-v3.1",
    "qwen3-coder",
    "glm4.7",
    "glm4",
    "mistral",
    "mistral-array",
    "llama4",
    "llama3",
    "hermes",
];

/// Arguments of demanded calls at a high temperature, judged by PyPI `jsonschema`.
#[test]
fn demanded_calls_have_valid_arguments() {
    let model = model();
    let mut chat = Chat::new(vec![Message::new("user", "What is 2 plus 3?")]);
    chat.tools = tools();
    let mut lines = String::new();
    for name in FORMATS {
        let template = template(&model, Format::named(name).unwrap());
        let mut complete = 0;
        for (choice, names) in [
            (ToolChoice::Required, &["weather", "time"][..]),
            (ToolChoice::Named("weather".into()), &["weather"]),
        ] {
            let prompt = template.prompt_with(&chat, &choice, name == "hermes").unwrap();
            let start = |seed| {
                let mut sampling = Sampling::greedy();
                (sampling.temperature, sampling.seed) = (1.5, Some(seed));
                let options = GenerateOptions::default().max_tokens(400).sampling(sampling);
                model.answer(&prompt, options).unwrap()
            };
            let replies: Vec<_> = (0..6).map(start).collect();
            for mut reply in replies {
                reply.by_ref().for_each(|event| drop(event.unwrap()));
                // the model may think in harmony, or call until the limit
                if reply.finish_reason() != Some(FinishReason::End) {
                    continue;
                }
                complete += 1;
                let reply = reply.reply();
                assert_eq!(reply.content, "", "{name}: {reply:?}");
                assert!(!reply.tool_calls.is_empty(), "{name}: {reply:?}");
                for call in reply.tool_calls {
                    assert!(names.contains(&call.name.as_str()), "{name}: {call:?}");
                    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                    if call.name == "weather" {
                        lines += &format!("{}\n", json!({"format": name, "arguments": arguments}));
                    }
                }
            }
        }
        assert!(complete >= 3, "{name}: {complete} of 12 outputs are complete");
    }
    judge(&lines);
}

/// Validates arguments, one a line, by PyPI `jsonschema`.
fn judge(lines: &str) {
    const PROGRAM: &str = "\
import json, sys, jsonschema
schema = json.loads(sys.argv[1])
count = 0
for line in sys.stdin:
    case = json.loads(line)
    jsonschema.validate(case['arguments'], schema, jsonschema.Draft202012Validator)
    count += 1
print(count)
";
    let python = std::env::var("PELTON_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import jsonschema"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return skip(Need::Python, "no python with jsonschema");
    }
    let mut child = Command::new(&python)
        .args(["-c", PROGRAM, &schema().to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{lines}");
    let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(count, lines.lines().count());
    assert!(count > FORMATS.len(), "{lines}");
}

#[test]
fn what_cannot_be_demanded() {
    let model = model();
    let coder = template(&model, Format::named("qwen3-coder").unwrap());
    let mut chat = Chat::new(user("Hi"));
    chat.tools = tools();
    let prompt = coder.prompt_with(&chat, &ToolChoice::Required, true).unwrap();
    let options = GenerateOptions::default().constraint(Constraint::JsonObject);
    let said = model.answer(&prompt, options).unwrap_err().to_string();
    assert!(said.contains("another constraint"), "{said}");

    let parameters = json!({"properties": {"day": {"type": "string", "contains": {}}}});
    chat.tools = vec![json!({"function": {"name": "f", "parameters": parameters}})];
    let prompt = coder.prompt_with(&chat, &ToolChoice::Required, true).unwrap();
    let said = model.answer(&prompt, GenerateOptions::default()).unwrap_err().to_string();
    assert!(said.contains("\"contains\""), "{said}");
}

/// The end of a template that turns reasoning off where it is not wanted, as Qwen 3's.
const SWITCH: &str = "{% if enable_thinking is defined and not enable_thinking %}\
                      <think>\n\n</think>\n\n{% endif %}";

/// Text after reasoning is constrained, whether the prompt began the reasoning or the model does.
/// The thought is a part of the constraint, so that it is known where it ends.
#[test]
fn answers_after_reasoning_are_constrained() {
    let model = model();
    let compiler = Compiler::of_bytes().unwrap();
    let mut chat = Chat::new(user("What is 2 plus 3?"));
    chat.tools = tools();
    let call = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
    let accepts = |suffix: &str, options: GenerateOptions, choice: ToolChoice, text: &str| {
        let source = format!("{PLAIN}{suffix}{{# <tool_call> #}}");
        let template = model.chat_template_from(&source).unwrap();
        let prompt = template.prompt_with(&chat, &choice, false).unwrap();
        let options = prompt.constrain(options).unwrap();
        assert!(options.triggers.is_empty());
        let mut matcher = compiler.compile(&options.constraint.unwrap()).unwrap();
        matcher.accepts(text.as_bytes()).unwrap_or(false)
    };
    let required = |suffix, text: &str| {
        accepts(suffix, GenerateOptions::default(), ToolChoice::Required, text)
    };
    assert!(required(SWITCH, call));
    assert!(required(SWITCH, &format!("<think>\nHm, <tool_call>?\n</think>\n\n{call}")));
    assert!(!required(SWITCH, "Hello"));
    assert!(!required(SWITCH, "<think>Hm.</think>Hello"));
    assert!(required("<think>\n", &format!("Hm.\n</think>\n\n{call}")));
    assert!(!required("<think>\n", call));
    assert!(required("<think>\n</think>\n", call));
    assert!(!required("<think>\n</think>\n", &format!("<think>Hm.</think>{call}")));

    let json = || GenerateOptions::default().constraint(Constraint::JsonObject);
    let object = |text: &str| accepts(SWITCH, json(), ToolChoice::Auto, text);
    // where the model may call a tool, that is the alternative of the answer
    assert!(object(call) && object(&format!("<think>Hm.</think>\n{call}")));
    assert!(!object(&call.replace("time", "other")) && !object(&format!("{{}}{call}")));
    let none = |text: &str| accepts(SWITCH, json(), ToolChoice::None, text);
    assert!(none("{}") && !none(call));
    assert!(object("{\"a\": 1}") && object("<think>{Hm</think>\n{}"));
    assert!(!object("<think>Hm.</think>[]") && !object("[]") && !object("<think>{}"));
}

#[test]
fn templates_without_tools_explain_them() {
    let model = model();
    let template = model.chat_template_from(PLAIN).unwrap().explaining_tools();
    let mut chat = Chat::new(user("Hi"));
    assert!(!template.prompt(&chat).unwrap().text().contains("tools"));
    chat.tools = tools();
    let prompt = template.prompt_with(&chat, &ToolChoice::Required, true).unwrap();
    let text = prompt.text();
    assert!(text.starts_with("<|begin|><|system|>You may call these tools"), "{text}");
    assert!(text.contains("\"name\":\"weather\"") && prompt.calls.is_some(), "{text}");
    let none = template.prompt_with(&chat, &ToolChoice::None, true).unwrap();
    assert!(!none.text().contains("weather"), "{}", none.text());
}

/// An answer begins with a thought only where reasoning is on: asked for, or the template's
/// default.
#[test]
fn constrained_answers_begin_with_a_thought_only_if_it_is_wanted() {
    let model = model();
    let tokenizer = model.tokenizer().unwrap();
    let built_in = tokenizer.chat_template().unwrap().to_owned();
    let hermes = "{# <tool_call> #}";
    let switch = format!("{PLAIN}{SWITCH}{hermes}");
    let old = format!("{PLAIN}{{# </think> #}}{hermes}");
    let (first, after) = (AnswerStart::First, AnswerStart::After("</think>"));
    let optional = AnswerStart::AfterOptional { open: "<think>", close: "</think>" };
    for (source, wanted, expected) in [
        (&built_in, None, first),
        (&built_in, Some(false), first),
        (&built_in, Some(true), after),
        (&switch, None, optional),
        (&switch, Some(true), optional),
        (&switch, Some(false), first),
        (&old, None, optional),
        (&old, Some(false), first),
        (&format!("{PLAIN}{hermes}"), None, first),
        (&format!("{PLAIN}{hermes}"), Some(true), first),
    ] {
        let template = model.chat_template_from(source).unwrap();
        let mut chat = Chat::new(user("Hi"));
        chat.enable_thinking = wanted;
        assert_eq!(template.prompt(&chat).unwrap().start, expected, "{wanted:?}: {source}");
        chat.enable_thinking = None;
        if let Some(wanted) = wanted {
            chat.kwargs.insert("enable_thinking".into(), wanted.into());
            assert_eq!(template.prompt(&chat).unwrap().start, expected, "{wanted:?}: {source}");
        }
    }
}
