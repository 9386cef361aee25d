//! Official clients in Python and Node, each with a file of its own.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pelton::KvType;
use pelton_server::ModelConfig;
use pelton_testing::{Need, skip};

use crate::harness::{TestServer, shared, start};

pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

pub(crate) fn python() -> OsString {
    std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into())
}

pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The Python of an environment that a client has for itself; `None`, with a skip, if its package
/// is missing.
fn environment(name: &str, package: &str) -> Option<PathBuf> {
    if !full() {
        return None;
    }
    let python = tests().join("../../../target/clients").join(name).join("bin/python");
    if !succeeds(Command::new(&python).args(["-c", &format!("import {package}")])) {
        skip(Need::Python, format_args!("{} has no package {package}", python.display()));
        return None;
    }
    Some(python)
}

/// The test of a library for agents, in an environment of its own.
fn library(name: &str, package: &str) {
    let Some(python) = environment(name, package) else { return };
    let mut command = Command::new(python);
    command.arg(tests().join("clients/tools_client.py")).arg(name);
    run(command, shared(), &[]);
}

/// A server of the built-in model that says it had a context for the prompts of agents.
fn wide() -> TestServer {
    let folder = tests().join("../../../models/tiny");
    let mut bytes = std::fs::read(folder.join("pelton-tiny.gguf")).unwrap();
    let key = b"llama.context_length";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    bytes[at..at + 4].copy_from_slice(&65536_u32.to_le_bytes());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built-in.gguf");
    std::fs::write(&file, bytes).unwrap();
    start(|config| {
        config.models = vec![ModelConfig::file(&file)];
        config.load = config.load.clone().context(65536).max_concurrent(1);
        config.threads = pelton::default_threads();
    })
}

/// Runs a coding agent, whose program is in a folder: it sends the result of a call that the server
/// has answered.
fn agent(name: &str, folder: &str) {
    if !full() {
        return;
    }
    let program = tests().join(folder).join("node_modules/.bin").join(name);
    if !succeeds(Command::new(&program).arg("--version")) {
        skip(Need::Capability, format_args!("{} does not run", program.display()));
        return;
    }
    let mut command = Command::new(python());
    command.arg(tests().join("clients/agents.py")).arg(name).arg(program);
    run(command, &wide(), &[]);
}

/// Runs a program with the address of a server as its last argument but those of `more`.
fn run(mut command: Command, server: &TestServer, more: &[&str]) {
    let output = command
        .arg(format!("http://{}", server.address))
        .args(more)
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .env("NO_PROXY", "*")
        .env("LANGSMITH_TRACING", "false")
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("all checks passed"), "{text}");
}

/// Runs the file of a client in Python, which needs a package.
fn client(package: &str, file: &str, server: &TestServer) {
    let python = python();
    if !succeeds(Command::new(&python).args(["-c", &format!("import {package}")])) {
        skip(Need::Python, format_args!("{} has no package {package}", python.display()));
        return;
    }
    let mut command = Command::new(&python);
    command.arg(tests().join("clients").join(file));
    run(command, server, &[]);
}

/// Runs the file of a client in Node, if its packages are installed.
pub(crate) fn node(file: &str, package: &str, server: &TestServer, more: &[&str]) {
    let folder = tests().join("node");
    if !folder.join("node_modules").join(package).exists() {
        skip(Need::Capability, format_args!("{package} is not installed in {}", folder.display()));
        return;
    }
    let mut command = Command::new("node");
    command.arg(folder.join(file));
    run(command, server, more);
}

/// Whether `./check --full` runs, which installs the packages of more clients.
pub(crate) fn full() -> bool {
    std::env::var_os("PELTON_FULL").is_some()
}

#[test]
fn openai() {
    client("openai", "openai_client.py", shared());
}

#[test]
fn anthropic() {
    client("anthropic", "anthropic_client.py", shared());
}

#[test]
fn ollama() {
    client("ollama", "ollama_client.py", shared());
}

#[test]
fn langchain() {
    if full() {
        client("langchain_openai", "langchain_openai_client.py", shared());
    }
}

#[test]
fn tools_of_langchain() {
    library("langchain", "langchain_anthropic");
}

#[test]
fn litellm() {
    library("litellm", "litellm");
}

#[test]
fn pydantic_ai() {
    library("pydantic_ai", "pydantic_ai");
}

/// All modes of instructor for the libraries of OpenAI and Anthropic.
#[test]
fn instructor() {
    let Some(python) = environment("instructor", "instructor") else { return };
    let mut command = Command::new(python);
    command.arg(tests().join("clients/instructor_client.py"));
    run(command, shared(), &[]);
}

/// LlamaIndex's class for servers of OpenAI's API.
#[test]
fn llama_index() {
    let Some(python) = environment("llama_index", "llama_index.llms.openai_like") else { return };
    let mut command = Command::new(python);
    command.arg(tests().join("clients/llama_index_client.py"));
    run(command, shared(), &[]);
}

/// Vercel's AI SDK, and the libraries of Anthropic and Ollama.
#[test]
fn ai_sdk_in_node() {
    if full() {
        node("ai_sdk.mjs", "ai", shared(), &[]);
    }
}

#[test]
fn claude_code() {
    agent("claude", "node");
}

#[test]
fn codex() {
    agent("codex", "node");
}

#[test]
fn opencode() {
    agent("opencode", "../../../target/clients/opencode");
}

/// aider's edit of a file over OpenAI's API, and a question over Ollama's. It calls no tools.
#[test]
fn aider() {
    let Some(python) = environment("aider", "aider") else { return };
    let mut command = Command::new(python);
    command.arg(tests().join("clients/aider_client.py"));
    run(command, &wide(), &[]);
}

/// Open WebUI's chats with a tool that it runs itself, over the APIs of OpenAI and Ollama.
#[test]
fn open_webui() {
    let Some(python) = environment("open_webui", "open_webui, fastapi") else { return };
    let mut command = Command::new(&python);
    command.arg(tests().join("clients/open_webui_client.py"));
    command.arg(python.with_file_name("open-webui"));
    run(command, &wide(), &[]);
}

/// Requests that are generated from the OpenAPI document.
#[test]
fn schemathesis() {
    if full() {
        client("schemathesis", "schemathesis_client.py", shared());
    }
}

/// Log-likelihoods of lm-evaluation-harness.
#[test]
fn lm_eval() {
    if full() {
        let server = start(|config| {
            let model = tests().join("../../../tests/fixtures/models/qwen3");
            config.models = vec![ModelConfig::file(model)];
            config.load = config.load.clone().context(128).kv(KvType::F32);
        });
        client("lm_eval", "lm_eval_client.py", &server);
    }
}

#[test]
fn openai_in_node() {
    if full() {
        node("openai_client.mjs", "openai", shared(), &[]);
    }
}

/// The container files, the systemd unit and the Kubernetes manifest, read by their linters.
#[test]
fn deployment_files() {
    if !full() {
        return;
    }
    let deploy = tests().join("../../../deploy");
    let program = |name: &str| Path::new(&python()).with_file_name(name);
    let unit = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pelton.service");
    let text = std::fs::read_to_string(deploy.join("pelton.service")).unwrap();
    // the program must exist
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    std::fs::write(&unit, text.replace("/usr/bin/pelton", own)).unwrap();
    for (linter, argument, file) in [
        (program("hadolint"), "--no-color", deploy.join("Containerfile")),
        (program("hadolint"), "--no-color", deploy.join("Containerfile.gpu")),
        (program("kubernetes-validate"), "--strict", deploy.join("kubernetes.yaml")),
        (program("kubernetes-validate"), "--strict", deploy.join("fleet.yaml")),
        (PathBuf::from("systemd-analyze"), "verify", unit),
    ] {
        match Command::new(&linter).arg(argument).arg(&file).output() {
            Ok(output) => assert!(output.status.success(), "{}: {output:?}", linter.display()),
            Err(_) => skip(Need::Capability, format_args!("there is no {}", linter.display())),
        }
    }
}

/// The route of a gateway to the replicas, by the schema of the Gateway API.
#[test]
fn route_of_a_gateway() {
    if !full() {
        return;
    }
    let folder = tests().join("node");
    if !folder.join("node_modules/@kubernetes-models/gateway-api").exists() {
        skip(Need::Capability, format_args!("no gateway-api is installed in {}", folder.display()));
        return;
    }
    let file = tests().join("../../../deploy/inference-pool.yaml");
    let output = Command::new("node").arg(folder.join("route.mjs")).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}
