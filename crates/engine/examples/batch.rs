//! Several texts at the same time, which share each pass over the weights.
//!
//! `cargo run --release -p pelton --example batch`

use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource, Report, Sampling};

const PROMPTS: [&str; 4] = ["The sky is", "Once upon a time", "One, two,", "The old man"];

fn main() -> Result<(), Report> {
    let engine = Engine::builder().build()?;
    let load = LoadOptions::default().max_concurrent(PROMPTS.len());
    let model = engine.load(ModelSource::BuiltIn, &load)?;
    let options = GenerateOptions::default().max_tokens(16).sampling(Sampling::greedy());

    // all are submitted before the first is read
    let streams = PROMPTS
        .into_iter()
        .map(|prompt| model.generate(prompt, options.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    for (prompt, mut stream) in PROMPTS.into_iter().zip(streams) {
        println!("{prompt}{}", stream.text()?.replace('\n', " "));
    }
    println!("{} tokens in all", model.status().generated_tokens);
    Ok(())
}
