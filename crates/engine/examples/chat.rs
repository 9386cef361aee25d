//! A conversation of two turns, printed as it comes.
//!
//! `cargo run --release -p pelton --example chat [MODEL.gguf]`

use std::io::{Write, stdout};

use pelton::chat::{Event, Message};
use pelton::{Engine, LoadOptions, ModelSource, Report};

fn main() -> Result<(), Report> {
    // a GPU if there is one, or else the CPU
    let engine = Engine::builder().build()?;
    let source = std::env::args().nth(1).map_or(ModelSource::BuiltIn, ModelSource::from);
    let model = engine.load(source, &LoadOptions::default())?;
    println!("{}", model.summary());

    let mut messages = Vec::new();
    for question in ["What is 2 plus 3?", "What is 4 plus 4?"] {
        println!("> {question}");
        messages.push(Message::new("user", question));
        let mut answer = model.chat(&messages)?;
        for event in &mut answer {
            if let Event::Content(text) = event? {
                print!("{text}");
                // a failed write is not worth an error here
                let _ = stdout().flush();
            }
        }
        println!();
        messages.push(answer.message());
    }
    Ok(())
}
