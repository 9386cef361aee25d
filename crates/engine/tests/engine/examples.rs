//! The programs of `examples` as their readers run them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The standard output of an example, which cargo builds next to the tests.
fn output(name: &str, arguments: &[&Path]) -> String {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().join("examples");
    let program = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    assert!(
        program.is_file(),
        "{} is not built: cargo build --workspace --examples",
        program.display()
    );
    let output = Command::new(&program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn chat() {
    let text = output("chat", &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("of weights"), "{text}");
    let answer = |question: &str| {
        let at = lines.iter().position(|line| *line == format!("> {question}")).unwrap();
        lines[at + 1]
    };
    assert!(answer("What is 2 plus 3?").contains('5'), "{text}");
    assert!(answer("What is 4 plus 4?").contains('8'), "{text}");
}

/// An error of `main` is a sentence.
#[test]
fn errors_are_sentences() {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().join("examples");
    let output = Command::new(folder.join("chat")).arg("nothing.gguf").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Error: nothing.gguf: cannot be read: ") && !said.contains('{'),
        "{said}"
    );
}

#[test]
fn stream() {
    let text = output("stream", &[]);
    let tokens: Vec<&str> = text.lines().filter(|line| line.starts_with('"')).collect();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with(&format!("{} tokens, ended by", tokens.len())), "{text}");
    for line in tokens {
        let number = line.rsplit('"').next().unwrap().trim().trim_end_matches(" *");
        assert!(number.parse::<f32>().unwrap() <= 0.0, "{line}");
    }
}

#[test]
fn batch() {
    let text = output("batch", &[]);
    for (line, prompt) in text.lines().zip(["The sky is", "Once upon", "One, two,", "The old man"])
    {
        assert!(line.starts_with(prompt) && line.len() > prompt.len() + 8, "{text}");
    }
    assert_eq!(text.lines().count(), 5);
}

#[test]
fn json_schema() {
    assert_eq!(output("json_schema", &[]), "Tom is 7\n");
}

#[test]
fn tools() {
    let text = output("tools", &[]);
    let mut lines = text.lines();
    let call = lines.next().unwrap();
    assert!(call.starts_with("get_weather({") && call.contains("18 degrees"), "{text}");
    assert!(!lines.next().unwrap().is_empty(), "{text}");
}

#[test]
fn embeddings() {
    let model = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/models/bert/model.gguf");
    let text = output("embeddings", &[&model]);
    let cosines: Vec<f32> =
        text.lines().skip(1).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(cosines.len(), 2);
    assert!(cosines.iter().all(|cosine| (-1.0..=1.0).contains(cosine)), "{text}");
}
