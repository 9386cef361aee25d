//! `pelton chat` in a pipe.

use std::{
    fs,
    io::Write,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use super::{pelton, refused, run, stdout, temporary};

const SUM: &str = "What is 2 plus 3?";

/// A chat of greedy answers with the built-in model, whose standard input is a text.
fn chat(input: &str, flags: &[&str]) -> Output {
    chat_with(input, &[&["--temperature", "0"], flags].concat())
}

fn chat_with(input: &str, flags: &[&str]) -> Output {
    let mut child = pelton()
        .args(["chat", "--device", "cpu", "--threads", "1"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Standard error after two lines, of the built-in model and of what was loaded.
fn said(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let (note, text) = text.split_once('\n').unwrap();
    assert!(note.starts_with("the built-in model is a demonstration"), "{note}");
    let (first, rest) = text.split_once('\n').unwrap();
    let parts = [" of weights and ", " of KV for a context of ", "; on cpu, 1 thread"];
    assert!(parts.iter().all(|part| first.contains(part)), "{first}");
    rest.to_owned()
}

/// The text that the built-in model writes after a prompt.
fn continuation(prompt: &str) -> String {
    let flags = ["--device", "cpu", "--threads", "1", "--temperature", "0", "--json"];
    let json = super::json(&[&["run", prompt], &flags[..]].concat());
    json["text"].as_str().unwrap().to_owned()
}

#[test]
fn each_line_is_answered_as_its_rendered_prompt_is_continued() {
    let other = "What is the capital of France?";
    let output = chat(&format!("{SUM}\n{other}\n"), &["--system", "Be kind."]);
    let first = format!("<|system|>Be kind.<|end|><|user|>{SUM}<|end|><|assistant|>");
    let answer = continuation(&first);
    let second =
        continuation(&format!("{first}{answer}<|end|><|user|>{other}<|end|><|assistant|>"));
    assert_eq!(stdout(&output), format!("{answer}\n{second}\n"));
    assert_eq!(said(&output), "");
}

#[test]
fn commands_in_a_pipe() {
    let saved = temporary("chat-pipe.json");
    let file = saved.display();
    let input = format!(
        "{SUM}\n/retry\n/undo\n/system Be kind.\n/system\n/edit x\n{SUM}\n/edit What is 4 plus 4?\n\
         /save {file}\n/reset\n/load {file}\n/params top-k 7\n/params\n/stats\n/quit\n{SUM}\n"
    );
    let output = chat(&input, &[]);
    // /edit without a message, once
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = said(&output);
    assert_eq!(errors, "error: there is no message of yours to edit\n");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2], "Be kind.");
    assert!(lines[3].contains('5') && lines[4].contains('8'), "{text}");
    assert!(lines[5..].iter().any(|line| line.starts_with("  top-k ") && line.ends_with(" 7")));
    assert!(text.contains("4 answers"), "{text}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let expected = json!({"messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What is 4 plus 4?"},
        {"role": "assistant", "content": lines[4]},
    ]});
    assert_eq!(json, expected);
    // the file is one that `pelton template` reads
    let rendered = stdout(&run(&["template", "built-in", "--messages", saved.to_str().unwrap()]));
    assert!(rendered.contains(&format!("<|assistant|>{}<|end|>", lines[4])), "{rendered}");
}

/// An answer that was cut goes on as if it had not been.
#[test]
fn an_answer_is_continued() {
    let saved = temporary("chat-continued.json");
    let input = format!("{SUM}\n/params tokens 40\n/continue\n/save {}\n", saved.display());
    let whole = stdout(&chat(&format!("{SUM}\n"), &[]));
    let output = chat(&input, &["-n", "2"]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["messages"][1]["content"], whole.trim_end(), "{json}");
    let text = stdout(&output);
    assert!(text.lines().count() == 2 && text.replace('\n', "").len() >= whole.len() - 1, "{text}");
    let output = chat("/continue\n", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no answer to continue"), "{said}");
}

#[test]
fn reasoning_and_styles_are_for_terminals() {
    let template = temporary("chat-pipe.jinja");
    let turns = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\
                 {% endfor %}<|assistant|>{# <tool_call> #}";
    let think = |think: &str| {
        fs::write(&template, format!("{turns}{think}")).unwrap();
        stdout(&chat(&format!("{SUM}\n"), &["--template", template.to_str().unwrap()]))
    };
    let whole = continuation(&format!("<|user|>{SUM}<|end|><|assistant|><think>"));
    let (thought, answer) = whole.split_once("</think>\n\n").unwrap();
    assert!(!thought.trim().is_empty(), "{whole}");
    assert_eq!(think("<think>"), format!("{answer}\n"));
    assert!(think("").contains('5'));
}

#[test]
fn seeds_repeat_answers_and_retries_differ() {
    let flags = ["--seed", "7", "--temperature", "1.5", "--top-k", "0", "-n", "30"];
    let input = "Tell me a story.\n/retry\n";
    let first = stdout(&chat_with(input, &flags));
    assert_eq!(first, stdout(&chat_with(input, &flags)));
    let answers: Vec<&str> = first.lines().collect();
    assert!(answers.len() >= 2 && answers[0] != answers[answers.len() - 1], "{first}");
}

#[test]
fn what_is_refused() {
    for (flags, words) in [
        (&["--template", "/nothing.jinja"][..], "/nothing.jinja"),
        (&["--load", "/nothing.json"], "/nothing.json"),
        (&["/nothing.gguf"], "/nothing.gguf"),
    ] {
        let said = refused(&[&["chat"], flags].concat(), 1);
        assert!(said.contains(words), "{said}");
    }
    let said = refused(&["chat", "--kwargs", "1"], 2);
    assert!(said.contains("--chat-template-kwargs") && said.contains("a JSON object"), "{said}");
    let said = refused(&["chat", "--top-p", "2"], 2);
    assert!(said.contains("top_p is 2, expected a number from 0 to 1"), "{said}");
    // a message that is too long alone has no earlier one to be undone
    let long = "word ".repeat(2000);
    let output = chat(&format!("{long}\n{SUM}\n"), &[]);
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(errors.contains("the prompt has") && !errors.contains("/undo"), "{errors}");
    let after = chat(&format!("{SUM}\n{long}\n"), &[]);
    assert!(String::from_utf8(after.stderr).unwrap().contains("/undo"));
    assert!(String::from_utf8(output.stdout).unwrap().contains('5'));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_effort_changes_during_a_chat() {
    let answer = |input: &str, flags: &[&str]| {
        let output = chat(input, flags);
        // a line of the built-in model, one of what was loaded, and notes about the effort
        let notes = String::from_utf8(output.stderr.clone()).unwrap();
        let known = ["is a demonstration", " of weights and ", "effort"];
        let is_known = |line: &str| known.iter().any(|part| line.contains(part));
        assert!(notes.lines().all(is_known), "{notes}");
        stdout(&output)
    };
    let full = answer(&format!("{SUM}\n"), &[]);
    let input = format!("/effort\n{SUM}\n/effort 0.05\n/effort\n/retry\n/effort 1\n/retry\n");
    let changed = answer(&input, &["--effort", "1"]);
    let (first, rest) = changed.strip_prefix("1\n").unwrap().split_at(full.len());
    assert_eq!(first, full);
    let rest = rest.strip_prefix("0.05\n").unwrap();
    assert!(rest.ends_with(&full) && rest.len() > full.len() && !rest.starts_with(&full), "{rest}");
    for (input, words) in
        [("/effort 0.5\n", "started without --effort"), ("/effort 2\n", "at most 1")]
    {
        let output = chat(input, &[]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}

/// One question, its constraint and its end.
#[test]
fn a_question_is_answered_once() {
    let flags = ["--temperature", "0", "--device", "cpu", "--threads", "1"];
    let ask = |args: &[&str]| stdout(&run(&[&["chat", "built-in"], args, &flags[..]].concat()));
    let answer = ask(&[SUM]);
    assert_eq!(answer, stdout(&chat(&format!("{SUM}\n"), &[])));
    assert_eq!(ask(&["-p", SUM]), answer);
    assert_eq!(ask(&[SUM, "--regex", "(abc){2}"]), "abcabc\n");
    let end = answer.split_whitespace().nth(1).unwrap();
    let cut = ask(&[SUM, "--stop", end]);
    assert!(!cut.contains(end) && answer.starts_with(cut.trim_end()), "{cut:?} {answer:?}");
}

/// A chat with --overflow drop goes on where it would be refused.
#[test]
fn the_oldest_messages_are_dropped() {
    let turns = format!("{SUM}\n").repeat(12);
    let flags = ["-c", "128", "-n", "16"];
    let output = chat(&turns, &flags);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--overflow drop"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    let output = chat(&turns, &[&flags[..], &["--overflow", "drop"]].concat());
    assert_eq!(stdout(&output).lines().count(), 12, "{output:?}");
    assert_eq!(said(&output), "");
}

/// Options of reasoning that the template does not have are refused, and those that it has are set.
#[test]
fn reasoning_that_a_template_lacks_is_refused() {
    for (flags, words) in [
        (["--think", "true"], "no option of reasoning"),
        (["--reasoning-effort", "low"], "no levels of reasoning"),
    ] {
        let start = ["chat", "built-in", SUM, "--chat-template", "chatml"];
        let said = super::refused(&[&start[..], &flags[..]].concat(), 1);
        assert!(said.contains(words), "{said}");
    }
    let template = super::temporary("chat-thinking.jinja");
    let source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\
                  {% endfor %}<|assistant|>{% if enable_thinking %}<think>{% endif %}";
    std::fs::write(&template, source).unwrap();
    let flags = ["--chat-template", template.to_str().unwrap()];
    let output = chat("/think\n/think on\n/think\n/think maybe\n", &flags);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "off\non\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected on or off"), "{output:?}");
}
