//! Log lines on standard error.

use super::{pelton, stdout};

/// Standard error of a command that succeeds without a warning, under a value of `RUST_LOG`.
fn log(list: Option<&str>) -> String {
    let mut command = pelton();
    command.args(["bench", "built-in", "-p", "2", "-n", "0", "-r", "1", "--device", "cpu"]);
    if let Some(list) = list {
        command.env("RUST_LOG", list);
    }
    let output = command.output().unwrap();
    stdout(&output);
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_load_is_logged_where_rust_log_is_set() {
    let text = log(Some("pelton=debug"));
    let line = text.lines().find(|line| line.contains("the model is loaded"));
    assert!(line.is_some_and(|line| line.contains("pelton::model")), "{text}");
    assert!(!text.contains('\x1b'), "colours only on a terminal: {text}");
}

#[test]
fn nothing_is_logged_otherwise() {
    for list in [None, Some(""), Some("pelton=error"), Some("other=trace")] {
        assert_eq!(log(list), "", "{list:?}");
    }
}

#[test]
fn a_list_that_cannot_be_parsed_is_a_warning() {
    let text = log(Some("pelton=loud"));
    assert!(text.starts_with("warning: RUST_LOG is 'pelton=loud', expected"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
