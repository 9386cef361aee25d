//! Errors and wrong usage of all commands.

use super::{fixture, refused, temporary};

#[test]
fn errors_are_one_sentence_and_a_hint() {
    let text = refused(&["run", "nothing.gguf", "Hello"], 1);
    assert!(text.starts_with("error: nothing.gguf") && text.contains("\nhint: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(text.matches("No such file").count(), 1, "the cause is said once: {text}");

    let path = temporary("broken.gguf");
    std::fs::write(&path, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
    let text = refused(&["inspect", path.to_str().unwrap()], 1);
    assert!(text.contains("broken.gguf"), "{text}");

    let text = refused(&["logits", "built-in", "--ids", "1", "-c", "100000000", "-o", "x.npy"], 1);
    assert!(text.contains("'context' is 100000000"), "{text}");
    let text = refused(&["run", "Hello", "--top-p", "7"], 2);
    assert!(text.contains("top_p is 7, expected a number from 0 to 1"), "{text}");
    let text = refused(&["run", "Hello", "--penalty-window", "5000"], 2);
    assert!(text.contains("penalty_window is 5000, expected an integer from 0 to 4096"), "{text}");
    let text = refused(&["run", "Hello", "--kv-memory", "1K"], 1);
    assert!(text.contains("expected at most 1024"), "{text}");
    let text = refused(&["run", &fixture("logits/llama.gguf"), "Hello"], 1);
    assert!(text.contains("no vocabulary"), "{text}");
    let text = refused(&["logits", "built-in", "--ids", "99999999", "-o", "/nowhere/x.npy"], 1);
    assert!(text.contains("/nowhere/x.npy"), "{text}");
    let text = refused(&["run", "Hello", "--device", "gpu:99"], 1);
    assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in [
        &["run", "a", "b", "c"][..],
        &["run", "a", "--temperature", "hot"],
        &["run", "a", "--threads", "0"],
        &["run", "a", "--device", "nonsense"],
        &["run", "a", "--kv-memory", "much"],
        &["run", "a", "--kv-memory", "0"],
        &["run", "a", "--kv", "q8_0/"],
        &["run", "a", "--kv", "/q8_0"],
        &["bench"],
        &["logits", "built-in", "--ids", "1,x", "-o", "a.npy"],
        &["frobnicate"],
    ] {
        let text = refused(args, 2);
        assert!(text.contains("Usage") || text.contains("error"), "{text}");
    }
}

/// Errors of options name the next option.
#[test]
fn errors_name_the_next_step() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let text = refused(&["serve", "--port", &port], 1);
    assert!(text.contains("--port 0") && text.matches("in use").count() == 1, "{text}");
    let text = refused(&["serve", "--host", "0.0.0.0", "--port", "0"], 1);
    assert!(text.contains("--allow-public") && text.contains("--api-key-file"), "{text}");
    let text = refused(&["run", "x", "--regex", "a("], 1);
    assert!(text.contains("unclosed group"), "{text}");
    let text = refused(&["embed", "built-in", "x"], 1);
    assert!(text.contains("--pooling last"), "{text}");
}
