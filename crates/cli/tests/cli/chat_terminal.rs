//! `pelton chat` on a terminal.

use std::fs;

use serde_json::Value;

use super::{interrupt::long_model, pelton, pty::Terminal, temporary};

const SUM: &str = "What is 2 plus 3?";

/// A chat of greedy answers with the built-in model or another.
fn chat(flags: &[&str]) -> Terminal {
    let mut command = pelton();
    command.args(["chat", "--no-history", "--device", "cpu", "--threads", "1"]).args(flags);
    let terminal = Terminal::start(command);
    terminal.wait("> ", 1);
    terminal
}

fn greedy(flags: &[&str]) -> Terminal {
    chat(&[&["--temperature", "0"], flags].concat())
}

/// The numbers of reused tokens in the lines after the answers.
fn reused(screen: &str) -> Vec<u32> {
    let number = |line: &str| line.split(" reused").next()?.rsplit(' ').next()?.parse().ok();
    screen.lines().filter(|line| line.contains(" reused")).filter_map(number).collect()
}

#[test]
fn turns_undo_and_the_end() {
    let system = "You are a friendly helper. ".repeat(14);
    let saved = temporary("chat-turns.json");
    let mut terminal = greedy(&["--system", &system]);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("reused]", 1);
    terminal.send("What is 4 plus 4?\r");
    terminal.wait("reused]", 2);
    let text = terminal.text();
    let counts = reused(&text);
    assert!(counts[0] == 0 && counts[1] >= 64, "{text}");
    assert!(text.contains('5') && text.contains('8'), "{text}");

    terminal.send("/undo\r");
    terminal.wait("forgotten: What is 4 plus 4?", 1);
    terminal.send("/retry\r");
    terminal.wait("reused]", 3);
    terminal.send(&format!("/save {}\r", saved.display()));
    terminal.wait("2 messages are saved", 1);
    let json: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let roles: Vec<_> = json["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
    assert_eq!(json["messages"][1]["content"], SUM);

    // Tab completes, and the statistics count all answers
    terminal.send("/sta\t\r");
    terminal.wait("3 answers", 1);
    // /edit offers the message: its last characters are replaced
    terminal.send("/edit\r");
    terminal.wait(&format!("> {SUM}"), 2);
    terminal.send("\x7f\x7f4?\r");
    terminal.wait("What is 2 plus 4?", 1);
    terminal.wait("reused]", 4);
    terminal.send("/nothing\r");
    terminal.wait("there is no command /nothing", 1);
    terminal.send("\x04");
    assert!(terminal.end().success());
}

/// Options of `run` hold in the chat that it starts, or are refused.
#[test]
fn run_hands_its_options_to_a_chat() {
    let mut command = pelton();
    command.args(["run", "built-in", "--device", "cpu", "--threads", "1", "--temperature", "0"]);
    command.args(["--regex", "(abc){2}", "--stop", "ca", "--system", "Be brief."]);
    command.env("XDG_STATE_HOME", temporary("run-chat-options-state"));
    let mut terminal = Terminal::start(command);
    terminal.wait("> ", 1);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("reused]", 1);
    assert!(terminal.text().contains("ab"), "{}", terminal.text());
    assert!(!terminal.text().contains("abca"), "{}", terminal.text());
    terminal.send("/system\r");
    terminal.wait("Be brief.", 1);
    terminal.send("\x04");
    assert!(terminal.end().success());

    for flag in ["--raw", "--echo", "--verbose", "--json"] {
        let mut command = pelton();
        command.args(["run", "built-in", "--device", "cpu", flag]);
        let terminal = Terminal::start(command);
        terminal.wait(&format!("found {flag} without a prompt"), 1);
        assert!(!terminal.end().success());
    }
}

#[test]
fn ctrl_c_stops_an_answer_and_not_the_program() {
    let model = long_model("chat-interrupt.gguf");
    // at this temperature an end token is as likely as any other
    let flags = [
        "--temperature",
        "1000",
        "--top-k",
        "0",
        "--min-p",
        "0",
        "--top-p",
        "1",
        "--context",
        "32768",
    ];
    let mut terminal = chat(&[&[model.to_str().unwrap()], &flags[..]].concat());
    terminal.send("Tell me a story.\r");
    terminal.wait_until("answer", |screen| {
        screen.split("story.").nth(1).is_some_and(|answer| answer.trim().len() > 20)
    });
    terminal.send("\x03");
    terminal.wait("stopped]", 1);

    // in the editor it clears the line
    terminal.send("half a line\x03");
    terminal.wait("/quit ends", 1);
    terminal.send("/params temperature 0\r");
    terminal.send(&format!("/reset\r{SUM}\r"));
    terminal.wait("reused]", 1);
    let text = terminal.text();
    assert!(text.rsplit(SUM).next().unwrap().contains('5'), "{text}");
    terminal.send("/quit\r");
    assert!(terminal.end().success());
}

#[test]
fn a_narrower_terminal_wraps_the_line() {
    let mut terminal = greedy(&[]);
    terminal.send(SUM);
    terminal.wait(SUM, 1);
    terminal.resize(12);
    terminal.wait_until("wrapped line", |_| {
        terminal.rows().ends_with(&["> What is 2 ".to_owned(), "plus 3?".to_owned()])
    });
    terminal.resize(super::pty::COLUMNS);
    terminal.send("\r");
    terminal.wait("reused]", 1);
    // Alt-Enter and a backslash continue a message, which a block of quotation marks does too
    terminal.send("What is\x1b\r2 plus\\\r3?\r");
    terminal.wait("reused]", 2);
    terminal.send("\"\"\"\rWhat is 2\rplus 3?\r\"\"\"\r");
    terminal.wait("reused]", 3);
    let saved = temporary("chat-lines.json");
    terminal.send(&format!("/save {}\r", saved.display()));
    terminal.wait("6 messages are saved", 1);
    let json: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(json["messages"][2]["content"], "What is\n2 plus\n3?");
    assert_eq!(json["messages"][4]["content"], "What is 2\nplus 3?");
    terminal.send("\x04");
    assert!(terminal.end().success());
}

#[test]
fn reasoning_is_dimmed_and_markdown_rendered() {
    // the template opens reasoning, which the model closes before its answer
    let template = |name: &str, prefix: &str| {
        let path = temporary(name);
        let turns = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\
                     {% endfor %}<|assistant|>{# <tool_call> #}";
        fs::write(&path, format!("{turns}{prefix}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut terminal = greedy(&["--template", &template("chat-think.jinja", "<think>")]);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("reused]", 1);
    let raw = terminal.raw();
    assert!(terminal.text().contains("of reasoning"), "{raw:?}");
    let shown = raw.rsplit("\x1b[2m").nth(1).unwrap();
    let (thought, answer) = shown.split_once("\x1b[0m").unwrap();
    assert!(!thought.trim().is_empty() && answer.contains('5'), "{raw:?}");
    terminal.send("\x04");
    assert!(terminal.end().success());
}

#[test]
fn calls_are_asked_about() {
    use super::chat_tools::{flags, result, server};

    // the answer has an escape sequence, which the terminal is not given
    let server = server("chat-consent.sh", &result("Sunny\u{1b}[2J, 21", false));
    let saved = temporary("chat-consent.json");
    let mut all = flags("chat-consent");
    all.extend(["--mcp".to_owned(), server]);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut terminal = chat(&all);
    terminal.send("/tools\r");
    terminal.wait("get_weather          The weather", 1);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("The model wants to call get_weather with {\"city\":\"Paris\"}", 1);
    terminal.wait("always>", 1);
    terminal.send("maybe\r");
    terminal.wait("always>", 2);
    terminal.send("yes\r");
    terminal.wait("get_weather gives: Sunny", 1);
    // a line after the call and one after the answer
    terminal.wait("reused", 2);
    let raw = terminal.raw();
    assert!(!raw.contains("Sunny\u{1b}"), "{raw:?}");
    terminal.send("/retry\r");
    terminal.wait("always>", 3);
    terminal.send("no\r");
    terminal.wait("The user declined the call.", 1);
    terminal.wait("reused", 4);
    terminal.send("/retry\r");
    terminal.wait("always>", 4);
    // Ctrl-C ends the answer and not the chat
    terminal.send("\x03");
    terminal.wait("[stopped]", 1);
    terminal.send(&format!("/save {}\r", saved.display()));
    terminal.wait("3 messages are saved", 1);
    let json: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(json["messages"][2]["content"], "The user stopped the call.");
    terminal.send("\x04");
    assert!(terminal.end().success());
}

#[test]
fn ctrl_c_stops_a_call() {
    use super::chat_tools::{flags, server};

    let server = server("chat-slow.sh", "sleep 100");
    let mut all = flags("chat-slow");
    all.extend(["--allow-calls", "--mcp"].map(str::to_owned));
    all.push(server);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut terminal = chat(&all);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("[get_weather", 1);
    terminal.wait("reused", 1);
    // the line is printed before the call
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.send("\x03");
    terminal.wait("[stopped]", 1);
    terminal.send("/quit\r");
    assert!(terminal.end().success());
}

/// A model without a prompt on a terminal.
#[test]
fn run_starts_a_chat() {
    let mut command = pelton();
    command.args(["run", "built-in", "--device", "cpu", "--threads", "1", "--temperature", "0"]);
    command.env("XDG_STATE_HOME", temporary("run-chat-state"));
    let mut terminal = Terminal::start(command);
    terminal.wait("> ", 1);
    terminal.send(&format!("{SUM}\r"));
    terminal.wait("reused]", 1);
    assert!(terminal.text().contains('5'), "{}", terminal.text());
    terminal.send("\x04");
    assert!(terminal.end().success());
}

/// Words of an answer are not broken at the edge, and nothing of it is lost.
#[test]
fn answers_are_wrapped_between_words() {
    const STORY: &str = "Tell me a story.";
    let flags = ["--temperature", "0", "--device", "cpu", "--threads", "1"];
    let plain = super::run(&[&["chat", "built-in", STORY], &flags[..]].concat());
    let plain = super::stdout(&plain);
    let words: Vec<&str> = plain.split_whitespace().collect();
    assert!(plain.len() > 80, "{plain}");
    let mut terminal = greedy(&[]);
    terminal.resize(40);
    terminal.send(&format!("{STORY}\r"));
    terminal.wait("reused]", 1);
    let rows = terminal.rows();
    let first = rows.iter().position(|row| row.contains(STORY)).unwrap() + 1;
    let last = rows.iter().position(|row| row.starts_with('[')).unwrap();
    let shown: Vec<&str> = rows[first..last].iter().flat_map(|r| r.split_whitespace()).collect();
    assert_eq!(shown, words, "{rows:#?}");
    terminal.send("/bye\r");
    assert!(terminal.end().success());
}

#[test]
fn loaded_messages_are_shown() {
    let file = temporary("chat-loaded.json");
    let messages = r#"[{"role": "user", "content": "How are you?"},
        {"role": "assistant", "content": "Quite well."}]"#;
    fs::write(&file, messages).unwrap();
    let flags = ["--load", file.to_str().unwrap(), "--chat-template", "chatml"];
    let mut terminal = greedy(&flags);
    terminal.wait("> How are you?", 1);
    terminal.wait("Quite well.", 1);
    terminal.wait("2 messages are loaded", 1);
    terminal.send("/think on\r");
    terminal.wait("no option of reasoning", 1);
    terminal.send("/model other\r");
    terminal.wait("a chat has one model", 1);
    terminal.send("/exit\r");
    assert!(terminal.end().success());
}

/// A command that reads its text from a pipe awaits none on a terminal.
#[test]
fn no_text_is_read_from_a_terminal() {
    for args in
        [&["embed", "built-in", "--pooling", "last"][..], &["tokenize", "built-in"], &["run"]]
    {
        let mut command = pelton();
        command.args(args);
        let terminal = Terminal::start(command);
        terminal.wait("found no text, expected an argument", 1);
        assert_eq!(terminal.end().code(), Some(1), "{args:?}");
    }
}
