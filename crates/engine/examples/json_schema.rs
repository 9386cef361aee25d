//! An answer in JSON, by the schema of a type that serde reads.
//!
//! `cargo run --release -p pelton --example json_schema`

use pelton::chat::{Chat, Message};
use pelton::{Constraint, Engine, GenerateOptions, LoadOptions, ModelSource, Report, Sampling};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Person {
    name: String,
    age: u32,
}

fn main() -> Result<(), Report> {
    let engine = Engine::builder().build()?;
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 150}
        },
        "required": ["name", "age"],
        "additionalProperties": false
    });
    let options = GenerateOptions::default()
        .sampling(Sampling::greedy())
        .constraint(Constraint::JsonSchema(schema));
    let chat = Chat::new(vec![Message::new("user", "Tom is 7 years old. Who is he?")]);
    let answer = model.chat_with(&chat, options)?.wait()?.content;
    let person: Person = serde_json::from_str(&answer)?;
    println!("{} is {}", person.name, person.age);
    Ok(())
}
