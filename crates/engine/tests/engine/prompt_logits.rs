//! Logits of prompts next to other requests, compared with a sequence that is run by hand.

use std::sync::mpsc;

use pelton::{Engine, Error, GenerateOptions, LoadOptions, LogitRows, Model, ModelSource, Prompt};
use pelton_cpu::Cpu;

/// More rows than a pass has logits of, in chunks that do not end where the text does.
const TOKENS: usize = 150;

fn load(concurrent: usize) -> Model {
    let options = LoadOptions::default().max_concurrent(concurrent);
    Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options).unwrap()
}

fn logits(model: &Model, prompt: &[u32], rows: LogitRows) -> Result<Vec<f32>, Error> {
    let (sender, receiver) = mpsc::channel();
    model.submit_logits(prompt, rows, move |logits| sender.send(logits).unwrap())?;
    receiver.recv().unwrap()
}

#[test]
fn those_of_a_session() {
    let text = "Once upon a time there was a fox. ".repeat(40);
    let model = load(4);
    let mut ids = model.tokenizer().unwrap().encode_prompt(&text).unwrap();
    ids.truncate(TOKENS);
    assert_eq!(ids.len(), TOKENS);
    // another request decodes at the same time
    let options = GenerateOptions::default().max_tokens(60).ignore_eos(true);
    let other = model.generate("The cat", options).unwrap();
    let each = logits(&model, &ids, LogitRows::Each).unwrap();
    let last = logits(&model, &ids, LogitRows::Last).unwrap();
    assert_eq!(other.count(), 60);
    let vocab = each.len() / TOKENS;
    assert_eq!(each.len(), vocab * TOKENS);
    assert_eq!(last, each[(TOKENS - 1) * vocab..]);
    // the prefix is cached now, and only its last token is run
    assert_eq!(logits(&model, &ids, LogitRows::Last).unwrap(), last);
    let mut session = load(1).into_session().unwrap();
    let mut expected = Vec::new();
    session.run_all(&ids, |row| expected.extend_from_slice(row)).unwrap();
    assert_eq!(each, expected);
}

#[test]
fn what_is_refused() {
    let model = load(1);
    assert!(matches!(logits(&model, &[], LogitRows::Last), Err(Error::EmptyPrompt)));
    let unknown = logits(&model, &[u32::MAX], LogitRows::Each);
    assert!(matches!(unknown, Err(Error::UnknownToken { token: u32::MAX, .. })));
    let long = vec![1; model.context() + 1];
    assert!(matches!(logits(&model, &long, LogitRows::Last), Err(Error::TextTooLong { .. })));
    let text = Prompt::from("The cat");
    model.submit_logits(text, LogitRows::Last, |_| {}).unwrap().cancel();
}
