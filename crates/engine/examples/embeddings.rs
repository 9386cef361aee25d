//! Texts by their similarity to a first one.
//!
//! `cargo run --release -p pelton --example embeddings MODEL.gguf`

use pelton::{EmbedOptions, Engine, LoadOptions, Prompt, Report};

const TEXTS: [&str; 3] = ["The sky is blue.", "The sea is blue.", "He repaired the engine."];

fn main() -> Result<(), Report> {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: embeddings MODEL.gguf, of an embedding model such as bge-small");
        return Ok(());
    };
    let model = Engine::builder().build()?.load(path, &LoadOptions::default())?;
    // the embeddings have the length 1, so that products are cosines
    let all = model.embed(&TEXTS.map(Prompt::from), &EmbedOptions::default())?;
    let (first, others) = (&all[0], &all[1..]);
    println!("{} values each", first.dimensions);
    for (text, other) in TEXTS[1..].iter().zip(others) {
        let cosine: f32 = first.values.iter().zip(&other.values).map(|(a, b)| a * b).sum();
        println!("{cosine:.4} {:?} and {text:?}", TEXTS[0]);
    }
    Ok(())
}
