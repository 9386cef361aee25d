//! Words in the place of a model: short names, and models of Ollama and of the hub's cache.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{hub, pelton, serve::Server, stdout, temporary};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
/// The answer has the number 12.
const QUESTION: &str = "What is 7 plus 5?";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The folders of a user with models of Ollama and of the hub.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = Self(temporary(name));
        let _ = fs::remove_dir_all(&home.0);
        fs::create_dir_all(home.ollama()).unwrap();
        home
    }

    fn ollama(&self) -> PathBuf {
        self.0.join("ollama")
    }

    fn cache(&self) -> PathBuf {
        self.0.join("hub")
    }

    /// A model as Ollama keeps it: a manifest and a blob.
    fn with_ollama(self, manifest: &str, digit: char, model: &Path) -> Self {
        let hash: String = std::iter::repeat_n(digit, 64).collect();
        let blobs = self.ollama().join("blobs");
        fs::create_dir_all(&blobs).unwrap();
        let _ = fs::remove_file(blobs.join(format!("sha256-{hash}")));
        symlink(model, blobs.join(format!("sha256-{hash}"))).unwrap();
        let layer = serde_json::json!({
            "mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{hash}"), "size": 1,
        });
        let path = self.ollama().join("manifests").join(manifest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::json!({ "schemaVersion": 2, "layers": [layer] }).to_string())
            .unwrap();
        self
    }

    /// A file of a repository as Python's `huggingface_hub` keeps it.
    fn with_cached(self, repository: &str, file: &str, model: &Path) -> Self {
        let folder = self.cache().join(format!("models--{}", repository.replace('/', "--")));
        let snapshot = folder.join("snapshots").join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::write(folder.join("refs/main"), COMMIT).unwrap();
        symlink(model, snapshot.join(file)).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = pelton();
        command.args(args).env("OLLAMA_MODELS", self.ollama()).env("HF_HUB_CACHE", self.cache());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Standard error of a command that fails.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn home(name: &str) -> Home {
    let tiny = Path::new(TINY);
    Home::new(name)
        .with_ollama("registry.ollama.ai/library/mistral/latest", 'a', tiny)
        .with_ollama("registry.ollama.ai/library/mine/latest", 'b', tiny)
        .with_ollama("registry.ollama.ai/library/MyModel/Big", 'c', tiny)
        .with_ollama("registry.ollama.ai/somebody/special/v1", 'd', tiny)
        .with_cached("ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b-mxfp4.gguf", tiny)
}

/// The names of `home`, as users write them.
const NAMES: [&str; 7] = [
    "mistral",
    "mistral:latest",
    "mine",
    "mymodel:big",
    "somebody/special:v1",
    "gpt-oss",
    "ggml-org/gpt-oss-20b-GGUF",
];

/// A model that is part of the program has no path.
#[test]
fn the_built_in_model_is_shown() {
    let shown = super::stdout(&super::run(&["show", "built-in"]));
    assert!(shown.contains("this program") && !shown.contains("path"), "{shown}");
    let json = super::stdout(&super::run(&["show", "built-in", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["path"].is_null() && json["files"].as_array().unwrap().is_empty(), "{json}");
}

#[test]
fn every_command_takes_them() {
    let home = home("names-commands");
    for name in NAMES {
        let shown: serde_json::Value =
            serde_json::from_str(&stdout(&home.run(&["show", name, "--json"]))).unwrap();
        assert!(shown["parameters"].as_u64().unwrap() > 6_000_000, "{name}: {shown}");
    }
    let end = ["-n", "40", "--temp", "0"];
    for words in [
        &["run", "mistral", QUESTION][..],
        &["run", "mine", "-p", QUESTION],
        &["run", "-m", "mymodel:big", QUESTION],
        &["run", QUESTION, "-m", "gpt-oss"],
        &["chat", "mistral", QUESTION],
        &["chat", "-m", "mine", "-p", QUESTION],
        &["chat", "gpt-oss", QUESTION],
    ] {
        let output = home.run(&[words, &end].concat());
        assert!(stdout(&output).contains("12"), "{words:?}: {output:?}");
    }
    for words in [
        &["tokenize", "mine", "Hello"][..],
        &["inspect", "mistral"],
        &["embed", "mine", "Hello", "--pooling", "last"],
        &["bench", "mine", "-p", "4", "-n", "4", "-r", "1"],
    ] {
        stdout(&home.run(words));
    }
}

/// One word: the model of this machine if it names one, and else a prompt.
#[test]
fn one_word_is_a_model_if_there_is_one() {
    let home = home("names-words");
    for name in ["mistral", "mine", "gpt-oss"] {
        let mut child = home
            .command(&["run", name, "-n", "40", "--temp", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(QUESTION.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(stdout(&output).contains("12"), "{name}: {output:?}");
    }
    for text in ["Hello", "Tell me a story", "nobody"] {
        let output = home.run(&["run", text, "-n", "4", "--temp", "0"]);
        stdout(&output);
        let said = String::from_utf8(output.stderr).unwrap();
        let note = said.lines().filter(|line| line.contains("is a demonstration")).count();
        assert_eq!(note, 1, "{text}: {said}");
    }
}

#[test]
fn a_server_has_them() {
    let home = home("names-serve");
    let (ollama, cache) = (home.ollama(), home.cache());
    let variables = [("OLLAMA_MODELS", &ollama), ("HF_HUB_CACHE", &cache)];
    let variables = variables.map(|(name, path)| (name, path.to_str().unwrap()));
    let server = Server::start_with(&["mistral", "gpt-oss", "--alias", "own=mine"], &variables);
    let list = server.get("/v1/models").to_string();
    for name in ["mistral", "gpt-oss", "mine"] {
        assert!(list.contains(&format!("\"{name}\"")), "{name}: {list}");
    }
}

/// A short name of the table that this machine does not have is downloaded.
#[test]
fn a_short_name_is_downloaded() {
    let home = Home::new("names-download");
    let files = [("Mistral-7B-Instruct-v0.3-Q8_0.gguf", fs::read(TINY).unwrap())];
    let hub = hub::hub_of("bartowski/Mistral-7B-Instruct-v0.3-GGUF", &files);
    let output = home
        .command(&["run", "mistral", QUESTION, "-n", "40", "--temp", "0"])
        .env("HF_ENDPOINT", hub)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(stdout(&output).contains("12"), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("downloading bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q8_0, "), "{said}");
}

/// Every listed name is loaded by it; what cannot be loaded is listed with `--all`, with the
/// reason.
#[test]
fn a_list_shows_what_can_be_used() {
    let home = home("names-list");
    let cut = home.0.join("cut.gguf");
    fs::write(&cut, &fs::read(TINY).unwrap()[..30_000]).unwrap();
    let home = home.with_ollama("registry.ollama.ai/library/cut/latest", 'e', &cut);
    let other = home.0.join("config.json");
    fs::write(&other, r#"{"architectures": ["NothingForCausalLM"], "model_type": "nothing"}"#)
        .unwrap();
    let weights = home.0.join("model.safetensors");
    fs::write(&weights, b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let home = home.with_cached("o/nothing", "model.safetensors", &weights);
    let snapshot = home.cache().join("models--o--nothing/snapshots").join(COMMIT);
    symlink(&other, snapshot.join("config.json")).unwrap();

    let names = |args: &[&str]| -> Vec<(String, Option<String>)> {
        let list = stdout(&home.run(args));
        let list: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        list.iter().map(|model| (text(&model["name"]).unwrap(), text(&model["fault"]))).collect()
    };
    let listed = names(&["list", "--json"]);
    assert_eq!(listed.len(), 5, "{listed:?}");
    for (name, fault) in &listed {
        assert_eq!(*fault, None);
        stdout(&home.run(&["tokenize", name, "Hello"]));
    }
    let all = names(&["list", "--json", "--all"]);
    let faulty: Vec<_> = all.iter().filter(|(_, fault)| fault.is_some()).collect();
    assert_eq!(faulty.len(), 2, "{all:?}");
    for (name, fault) in faulty {
        assert!(["cut", "o/nothing"].contains(&name.as_str()), "{name}");
        home.refused(&["tokenize", name, "Hello"]);
        assert!(!fault.as_ref().unwrap().is_empty());
    }
    let output = home.run(&["list"]);
    assert!(!stdout(&output).contains("nothing"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("`pelton list --all`"), "{output:?}");
    assert!(stdout(&home.run(&["list", "--all"])).contains("not usable: "));
}

/// An error says what was looked for and where, and the command that gets it.
#[test]
fn a_name_that_is_nowhere() {
    let home = home("names-nowhere");
    let ollama = home.ollama();
    for words in [
        &["chat", "nobody"][..],
        &["run", "nobody", "Hi"],
        &["serve", "nobody"],
        &["run", "-m", "nobody", "Hi"],
    ] {
        let said = home.refused(words);
        assert!(said.starts_with("error: nobody is neither on this machine (hub cache "), "{said}");
        assert!(said.contains(&format!("Ollama {}", ollama.display())), "{said}");
        assert!(said.contains("qwen3, ") && said.contains("`pelton pull OWNER/NAME`"), "{said}");
    }
    let said = home.refused(&["chat", "Hi"]);
    assert!(said.contains("`pelton chat MODEL \"Hi\"` sends a message"), "{said}");
    for (name, pull) in [("qwen3:0.6b", "`pelton pull qwen3:0.6b`"), ("o/n", "`pelton pull o/n`")] {
        for words in [&["run", name, "Hi", "--offline"][..], &["show", name]] {
            let said = home.refused(words);
            assert!(said.contains(&format!("{name} is not on this machine (hub cache ")), "{said}");
            assert!(said.contains(pull), "{said}");
        }
    }
}

/// The words for the version, and the form of a model in the help.
#[test]
fn versions_and_help() {
    let home = Home::new("names-version");
    let version = format!("pelton {}\n", env!("CARGO_PKG_VERSION"));
    for word in ["--version", "-V", "-v", "version"] {
        assert_eq!(stdout(&home.run(&[word])), version, "{word}");
    }
    let help = stdout(&home.run(&["--help"]));
    assert!(
        help.contains("MODEL is a file, a folder or a name")
            && help.contains("pelton chat qwen3:0.6b"),
        "{help}"
    );
}
