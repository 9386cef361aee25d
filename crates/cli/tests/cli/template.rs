//! `pelton template`.

use super::{refused, run, stdout, temporary};

const TURNS: &str = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                     {% if tools %}{{ tools | tojson }}\n{% endif %}\
                     {% if add_generation_prompt %}assistant:{% endif %}";

#[test]
fn a_chat_is_rendered() {
    let file = |name: &str, text: &str| {
        let path = temporary(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let template = file("turns.jinja", TURNS);
    let messages = file("messages.json", r#"[{"role": "user", "content": "Hi <s> there"}]"#);
    let tools = file("tools.json", r#"[{"z": 1, "name": "f"}]"#);
    let command = ["template", "built-in", "--messages", &messages, "--template", &template];
    let with = |more: &[&str]| stdout(&run(&[&command[..], more].concat()));

    let text = with(&["--kwargs", r#"{"bos_token": "[B]"}"#]);
    assert_eq!(text, "[B]user: Hi <s> there\nassistant:\n");
    let kwargs = r#"{"bos_token": "", "add_generation_prompt": false}"#;
    let text = with(&["--kwargs", kwargs, "--tools", &tools]);
    assert_eq!(text, "user: Hi <s> there\n[{\"z\": 1, \"name\": \"f\"}]\n\n");

    // The message's <s> is not the token.
    let ids = with(&["--ids", "--kwargs", kwargs]);
    let bos = stdout(&run(&["tokenize", "built-in", "", "--ids", "--special"]));
    assert!(ids.split_whitespace().count() > 5);
    assert!(ids.split_whitespace().all(|id| id != bos.trim()), "{bos} in {ids}");
    let ids = with(&["--ids"]);
    assert_eq!(ids.split_whitespace().next(), Some(bos.trim()));

    let bad = file("bad.json", r#"[{"content": "x"}]"#);
    let said = refused(&["template", "built-in", "--messages", &bad, "--template", &template], 1);
    assert!(said.contains("a message has no role"), "{said}");
}

/// A model alone shows its template, a message its prompt.
#[test]
fn a_template_and_a_message() {
    let file = temporary("one-message.json");
    std::fs::write(&file, r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
    let source = stdout(&run(&["template", "built-in"]));
    assert!(source.contains("{%") && source.contains("messages"), "{source}");
    let prompt = stdout(&run(&["template", "built-in", "Hi"]));
    let messages = ["template", "built-in", "--messages", file.to_str().unwrap()];
    assert_eq!(prompt, stdout(&run(&messages)));
    let said = refused(&["template", "built-in", "--ids"], 1);
    assert!(said.contains("--messages FILE"), "{said}");
}

/// The named templates write what the families' model cards show.
#[test]
fn named_templates() {
    let file = super::temporary("template-named.json");
    let messages = r#"[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}]"#;
    std::fs::write(&file, messages).unwrap();
    let tokens = r#"{"bos_token": "<bos>", "eos_token": "</s>"}"#;
    for (name, expected) in [
        (
            "chatml",
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n\
             Hello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "llama3",
            "<bos><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|><|start_header_id|>user\
             <|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant\
             <|end_header_id|>\n\n",
        ),
        (
            "gemma",
            "<bos><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n\
             <start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("mistral", "<bos>[INST] Be kind.\n\nHi [/INST] Hello!</s>[INST] Bye [/INST]"),
        (
            "phi",
            "<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n<|user|>\nBye\
             <|end|>\n<|assistant|>\n",
        ),
    ] {
        let messages = file.to_str().unwrap();
        let words = ["template", "built-in", "--messages", messages, "--kwargs", tokens];
        let text = stdout(&run(&[&words[..], &["--chat-template", name]].concat()));
        assert_eq!(text, format!("{expected}\n"), "{name}");
    }
}
