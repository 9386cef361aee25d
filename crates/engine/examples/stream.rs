//! The tokens of a text one by one, with their log-probabilities.
//!
//! `cargo run --release -p pelton --example stream`

use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource, Report, Sampling};

fn main() -> Result<(), Report> {
    let engine = Engine::builder().build()?;
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    let options = GenerateOptions::default()
        .max_tokens(24)
        .sampling(Sampling::default().temperature(0.8).seed(7))
        .logprobs(1);
    let mut stream = model.generate("Once upon a time", options)?;
    for token in &mut stream {
        let token = token?;
        let is_likeliest = token.top.first().is_some_and(|top| top.id == token.id);
        let mark = if is_likeliest { "" } else { " *" };
        let (text, logprob) = (format!("{:?}", token.text), token.logprob.unwrap_or_default());
        println!("{text:12} {logprob:7.3}{mark}");
    }
    let tokens = stream.stats().generated_tokens;
    match stream.finish_reason() {
        Some(reason) => println!("{tokens} tokens, ended by {reason:?}"),
        None => println!("{tokens} tokens, without an end"),
    }
    Ok(())
}
