//! Errors and wrong usage of all commands.

use super::{fixture, refused, temporary};

#[test]
fn errors_are_one_sentence_and_a_hint() {
    let text = refused(&["run", "nothing.gguf", "Hello"], 1);
    assert!(text.starts_with("error: nothing.gguf") && text.contains("\nhint: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");

    let path = temporary("broken.gguf");
    std::fs::write(&path, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
    let text = refused(&["inspect", path.to_str().unwrap()], 1);
    assert!(text.contains("broken.gguf"), "{text}");

    let text = refused(&["run", "Hello", "--context", "100000000"], 1);
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
        &["run"][..],
        &["run", "a", "b", "c"],
        &["run", "a", "--temperature", "hot"],
        &["run", "a", "--threads", "0"],
        &["run", "a", "--device", "nonsense"],
        &["run", "a", "--kv-memory", "much"],
        &["run", "a", "--kv-memory", "0"],
        &["bench"],
        &["logits", "built-in", "--ids", "1,x", "-o", "a.npy"],
        &["frobnicate"],
    ] {
        let text = refused(args, 2);
        assert!(text.contains("Usage") || text.contains("error"), "{text}");
    }
}
