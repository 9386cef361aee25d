//! Text that others wrote: models, files and servers of tools. A terminal gets none of
//! their control characters.

use std::fs;

use super::{pelton, pty::Terminal, refused, run, temporary};

/// A sequence that writes into the clipboard of a terminal, and one of C1.
const CLIPBOARD: &str = "\u{1b}]52;c;YQ==\u{7}\u{9b}31m";

/// A GGUF file whose only key is its architecture.
fn architecture(name: &str, text: &str) -> String {
    let key = "general.architecture";
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    for part in [key, text] {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
        if part == key {
            // the number of strings in GGUF
            bytes.extend(8_u32.to_le_bytes());
        }
    }
    let path = temporary(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Whether a text has a character that changes what a terminal shows, but for ends of lines.
fn is_clean(text: &str) -> bool {
    !text
        .contains(|c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c))
}

/// A key of a file makes no line of an error, and no control character.
#[test]
fn errors_about_files_are_lines_of_pelton() {
    let forged = format!("x{CLIPBOARD}\u{202e}\nerror: all is well\r");
    let file = architecture("forged.gguf", &forged);
    for args in [
        &["show", &file][..],
        &["run", &file, "Hi"],
        &["plan", &file],
        &["inspect", &file],
        &["embed", &file, "Hi"],
        &["chat", &file],
        &["serve", &file, "--port", "0"],
    ] {
        let output = run(args);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        for text in &said {
            assert!(is_clean(text), "{args:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("error: all")), "{args:?}: {text}");
        }
        assert!(said.concat().contains("x\\u{1b}]52;c;YQ==\\u{7}\\u{9b}31m"), "{args:?}: {said:?}");
    }
    // a name of a file that a shell put into the command line
    for args in [&["show", "no\u{1b}[2Jfile.gguf"][..], &["run", "--no\u{1b}[2Jfile"]] {
        let output = run(args);
        assert!(is_clean(&String::from_utf8(output.stderr).unwrap()), "{args:?}");
    }
}

/// The words of a server of tools are in errors, and change no terminal.
#[test]
fn errors_of_servers_are_one_line() {
    let script = temporary("mcp-forged.sh");
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no\u001b[2J\u009b1m\nerror: forged"}}"#;
    fs::write(&script, format!("read line\nprintf '%s\\n' '{answer}'\ncat > /dev/null\n")).unwrap();
    let server = format!("sh {}", script.display());
    let said = refused(&["chat", "--device", "cpu", "--mcp", &server], 1);
    assert!(is_clean(&said) && said.contains("no\\u{1b}[2J\\u{9b}1m\\nerror: forged"), "{said:?}");
}

/// `pelton run` prints a model's text to a terminal without control characters, and to a pipe as it
/// is.
#[test]
fn a_model_changes_no_terminal() {
    let args = ["run", "built-in", "--device", "cpu", "--threads", "1", "--raw", "-p", "Hi"];
    let regex = "a\\x1b\\]52;c;YQ==\\x07\\x9b31m\\u202eb\r\nc";
    let text = "a\u{1b}]52;c;YQ==\u{7}\u{9b}31m\u{202e}b\r\nc";
    let with = |more: &[&str]| {
        let mut command = pelton();
        command.args(args).args(["--regex", regex]).args(more);
        command
    };
    let output = with(&[]).output().unwrap();
    let found = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(found, format!("{text}\n"), "{output:?}");
    for more in [&[][..], &["--samples", "2"]] {
        let terminal = Terminal::start(with(more));
        // the terminal of the tests shows no U+FFFD
        terminal.wait("a]52;c;YQ==31mb", 1);
        terminal.wait("tokens", 1);
        let raw = terminal.raw();
        assert!(raw.contains("a\u{fffd}]52;c;YQ==\u{fffd}\u{fffd}31m\u{fffd}b"), "{raw:?}");
        assert!(!raw.contains("\u{1b}]52") && !raw.contains('\u{9b}'), "{raw:?}");
        assert!(!raw.contains('\u{202e}') && !raw.contains("b\u{fffd}"), "{raw:?}");
        assert!(terminal.end().success());
    }
    // in a chat too
    let mut command = pelton();
    command.args(["chat", "--no-history", "--device", "cpu", "--threads", "1", "--regex", regex]);
    let mut terminal = Terminal::start(command);
    terminal.wait("> ", 1);
    terminal.send("Hi\r");
    terminal.wait("]52;c;YQ==31mb", 1);
    assert!(!terminal.raw().contains("\u{1b}]52") && !terminal.raw().contains('\u{202e}'));
    terminal.send("/quit\r");
    assert!(terminal.end().success());
}
