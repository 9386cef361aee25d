//! Tools in `pelton chat`: definitions of a file, MCP servers, and servers that misbehave.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{pelton, refused, temporary};

const QUESTION: &str = "What is 2 plus 3?";

/// A template with the tokens of the built-in model in which tools can be called.
fn template(name: &str) -> String {
    let path = temporary(name);
    let source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}<|end|>\
                  {% endfor %}<|assistant|><think></think>{# <tool_call> #}";
    fs::write(&path, source).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The flags of a chat whose first answer calls a tool.
pub(crate) fn flags(name: &str) -> Vec<String> {
    let template = template(&format!("{name}.jinja"));
    ["--template", &template, "--tool-choice", "required", "--temperature", "0", "-n", "100"]
        .map(str::to_owned)
        .into()
}

fn chat(input: &str, flags: &[String], more: &[&str]) -> Output {
    let mut child = pelton()
        .args(["chat", "--device", "cpu", "--threads", "1"])
        .args(flags)
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The definition of a tool whose calls have one argument.
fn weather() -> Value {
    json!({"name": "get_weather", "description": "The weather\nof a city", "inputSchema": {
        "type": "object", "required": ["city"], "additionalProperties": false,
        "properties": {"city": {"type": "string", "enum": ["Paris"]}}}})
}

/// A command of the shell that prints JSON.
#[cfg(unix)]
fn print(json: &Value) -> String {
    // `echo` would interpret backslashes
    format!("printf '%s\\n' '{json}'")
}

/// A server in the language of the shell: the handshake, the list of one tool, and `call` in the
/// place of the answer to a call.
#[cfg(unix)]
pub(crate) fn server(name: &str, call: &str) -> String {
    let path = temporary(name);
    let answer = |id: u32, result: Value| {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        format!("read line\n{}\n", print(&answer))
    };
    let hello = answer(1, json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}));
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    let tools = answer(2, json!({"tools": [weather()]}));
    let script = format!(
        "echo starting\n{hello}read initialized\n{}\n{}\n{tools}\
         read pong\nread call\n{call}\ncat > /dev/null\n",
        print(&ping),
        print(&notice),
    );
    fs::write(&path, script).unwrap();
    format!("sh '{}'", path.display())
}

/// The answer of a server to its first call.
#[cfg(unix)]
pub(crate) fn result(text: &str, is_error: bool) -> String {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    print(&json!({"jsonrpc": "2.0", "id": 3, "result": result}))
}

/// The messages that `/save` wrote.
fn messages(file: &std::path::Path) -> Vec<Value> {
    let json: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    json["messages"].as_array().unwrap().clone()
}

#[test]
fn the_user_writes_results_of_tools_of_a_file() {
    let tool = weather();
    let function = json!({"name": tool["name"], "description": tool["description"],
        "parameters": tool["inputSchema"]});
    let file = temporary("chat-tools.json");
    fs::write(&file, json!([{"type": "function", "function": function}]).to_string()).unwrap();
    let saved = temporary("chat-tools-saved.json");
    let flags = [flags("chat-tools-file"), vec!["--tools".into(), file.to_str().unwrap().into()]];
    let input = format!("/tools\n{QUESTION}\nIt rains.\n/save {}\n", saved.display());
    let output = chat(&input, &flags.concat(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("  get_weather          The weather\n"), "{text}");
    assert!(text.contains("\n[get_weather {\"city\":\"Paris\"}]\n"), "{text}");
    let messages = messages(&saved);
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"], "{messages:?}");
    let call = &messages[1]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "get_weather");
    assert_eq!(messages[2]["tool_call_id"], call["id"]);
    assert_eq!(messages[2]["content"], "It rains.");

    let ended = chat(&format!("{QUESTION}\n"), &flags.concat(), &[]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("before the result of get_weather"), "{said}");
}

#[cfg(unix)]
#[test]
fn calls_of_servers_need_consent() {
    let saved = temporary("chat-mcp-saved.json");
    let input = format!("{QUESTION}\n/save {}\n", saved.display());
    for (allow, call, content) in [
        (true, result("Sunny, 21", false), "Sunny, 21"),
        (true, result("no such city", true), "Error: no such city"),
        (false, result("Sunny, 21", false), "The user declined the call."),
        (
            true,
            print(&json!({"id": 3, "error": {"code": 1, "message": "busy"}})),
            "refuses tools/call: busy",
        ),
        (true, "exit 3".to_owned(), "has ended"),
        (true, "echo tired >&2; exit 3".to_owned(), "has ended: tired"),
    ] {
        let server = server("chat-mcp.sh", &call);
        let mut flags = [flags("chat-mcp"), vec!["--mcp".into(), server]].concat();
        flags.extend(allow.then(|| "--allow-calls".to_owned()));
        let output = chat(&input, &flags, &[]);
        assert!(output.status.success(), "{output:?}");
        let messages = messages(&saved);
        let found = messages[2]["content"].as_str().unwrap();
        assert!(found.contains(content), "{found:?} has no {content:?}");
        assert_eq!(messages[3]["role"], "assistant");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("--allow-calls"), !allow, "{said}");
    }
}

#[cfg(unix)]
#[test]
fn hostile_servers() {
    let script = |name: &str, body: &str| {
        let path = temporary(&format!("hostile-{name}.sh"));
        fs::write(&path, format!("{body}\nsleep 60\n")).unwrap();
        format!("sh '{}'", path.display())
    };
    let hello = |revision: &str| {
        let result = json!({"protocolVersion": revision, "capabilities": {}});
        print(&json!({"jsonrpc": "2.0", "id": 1, "result": result}))
    };
    let list = |name: &str, result: Value| {
        let answer = print(&json!({"jsonrpc": "2.0", "id": 2, "result": result}));
        script(name, &format!("read l\n{}\nread l\nread l\n{answer}", hello("2025-06-18")))
    };
    let silent = script("silent", "");
    let long = script("long", "head -c 30000000 /dev/zero | tr '\\0' a");
    let endless = script("endless", "while true; do echo '{}'; done");
    let old = script("old", &format!("read l\n{}", hello("1")));
    let many: Vec<Value> = (0..300).map(|i| json!({"name": format!("t{i}")})).collect();
    let start = Instant::now();
    for (command, words) in [
        (silent.as_str(), "does not answer initialize within 0.5 s"),
        ("/nothing/server", "could not be started"),
        ("sh -c 'echo unknown option >&2; exit 2'", "unknown option"),
        ("sh -c 'yes'", "not JSON"),
        (&long, "more than"),
        (&endless, "within 0.5 s"),
        (&old, "revision"),
        ("'", "without a second one"),
        (&list("none", json!({"tools": 1})), "without a list"),
        (&list("name", json!({"tools": [{"name": "a b"}]})), "a b"),
        (&list("many", json!({"tools": many})), "more than 256 tools"),
        (&list("same", json!({"tools": [{"name": "f"}, {"name": "f"}]})), "two tools"),
        (&list("schema", json!({"tools": [{"name": "f", "inputSchema": 1}]})), "schema"),
    ] {
        // a long line takes its time on a busy machine
        let time = if command == long { "20" } else { "0.5" };
        let flags = ["chat", "--mcp-timeout", time, "--mcp", command];
        let said = refused(&flags, 1);
        assert!(said.contains(words), "{command}: {said}");
        assert!(said.lines().count() <= 2 && said.len() < 1000, "{command}: {said}");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn what_tools_are_refused() {
    let file = temporary("chat-tools-bad.json");
    fs::write(&file, "[{}]").unwrap();
    let bad = file.to_str().unwrap();
    let good = temporary("chat-tools-good.json");
    fs::write(&good, "[{\"name\": \"f\"}]").unwrap();
    let good = good.to_str().unwrap();
    for (flags, words) in [
        (&["--tools", "/nothing.json"][..], "/nothing.json"),
        (&["--tools", bad], "function.name"),
        (&["--tool-choice", "required"], "--tools or --mcp"),
        (&["--tools", good, "--tool-choice", "g"], "\"g\""),
        (&["--tools", good, "--tools-choice", "g"], "--tools-choice"),
        (&["--mcp-timeout", "0"], "--mcp-timeout"),
    ] {
        let code = if flags.contains(&"--tools-choice") { 2 } else { 1 };
        let said = refused(&[&["chat"], flags].concat(), code);
        assert!(said.contains(words), "{said}");
    }
}

/// A server of PyPI `mcp`, the reference implementation of the protocol.
#[test]
fn a_server_of_the_python_package() {
    const SERVER: &str = "\
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

server = MCPServer('test')
Digit = Annotated[int, Field(ge=0, le=9)]


@server.tool()
def add(a: Digit, b: Digit) -> str:
    '''Add two numbers.'''
    return f'the sum is {a + b}'


server.run()
";
    let python = std::env::var("PELTON_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import mcp.server.mcpserver"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return pelton_testing::skip(pelton_testing::Need::Python, "no python with mcp");
    }
    let path = temporary("mcp_server.py");
    fs::write(&path, SERVER).unwrap();
    let saved = temporary("chat-python-saved.json");
    let command = format!("'{python}' '{}'", path.display());
    let flags =
        [flags("chat-python"), ["--mcp", &command, "--allow-calls"].map(str::to_owned).into()];
    let input = format!("/tools\n{QUESTION}\n/save {}\n", saved.display());
    let output = chat(&input, &flags.concat(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Add two numbers."), "{text}");
    let messages = messages(&saved);
    let function = &messages[1]["tool_calls"][0]["function"];
    let arguments = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
    assert_eq!(messages[2]["content"], format!("the sum is {sum}"), "{messages:?}");
}
