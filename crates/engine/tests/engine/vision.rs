//! Prompts with pictures, against transformers (`tests/fixtures/make_vision_prompts.py`), and the
//! same prompts in other passes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton::{
    Device, Engine, GenerateOptions, KvType, LoadOptions, Model, Picture, Prompt, Sampling,
    chat::Segment,
};
use pelton_image::{Job, Limits};
use serde::Deserialize;

/// The greatest difference of a log-probability.
const TOLERANCE: f32 = 1e-3;

/// The directories of the fixture, and the placeholder of each family.
const FAMILIES: [(&str, &str); 1] = [("gemma3", "<start_of_image>")];

/// A prompt, and what transformers makes of it.
#[derive(Deserialize)]
struct Expected {
    parts: Vec<Part>,
    ids: Vec<u32>,
    top: Vec<u32>,
    logprobs: Vec<f32>,
    greedy: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Picture(usize),
    Text(String),
}

struct Family {
    name: &'static str,
    placeholder: &'static str,
    pictures: Vec<Arc<Picture>>,
    prompts: Vec<Expected>,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision").join(name)
}

fn picture(path: &Path) -> Arc<Picture> {
    let bytes = fs::read(path).unwrap();
    let job = Job::new("a picture", Limits::default(), &|| false);
    Arc::new(pelton_image::decode(&bytes, &job).unwrap())
}

impl Family {
    fn all() -> impl Iterator<Item = Self> {
        FAMILIES.into_iter().map(|(name, placeholder)| {
            let folder = path(name);
            let text = fs::read_to_string(folder.join("prompts.json")).unwrap();
            let files = (0..).map(|i| folder.join(format!("{i}.png")));
            let pictures = files.take_while(|file| file.exists()).map(|file| picture(&file));
            let pictures = pictures.collect();
            Self { name, placeholder, pictures, prompts: serde_json::from_str(&text).unwrap() }
        })
    }

    fn model(&self, options: LoadOptions) -> Model {
        let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
        engine.load(path(self.name), &options.kv(KvType::F32).context(512)).unwrap()
    }

    /// A prompt of texts and of numbers of these pictures.
    fn prompt(&self, parts: &[Part], pictures: &[Arc<Picture>]) -> Prompt {
        let mut images = Vec::new();
        let segments = parts.iter().map(|part| match part {
            Part::Text(text) => Segment { text: text.clone(), control_tokens: true, image: None },
            Part::Picture(number) => {
                images.push(Arc::clone(&pictures[*number]));
                let text = self.placeholder.to_owned();
                Segment { text, control_tokens: true, image: Some(images.len() - 1) }
            }
        });
        let segments = segments.collect();
        Prompt::Segments { segments, images }
    }

    fn expected(&self) -> impl Iterator<Item = (Prompt, &Expected)> {
        self.prompts.iter().map(|one| (self.prompt(&one.parts, &self.pictures), one))
    }
}

fn greedy(tokens: usize) -> GenerateOptions {
    let sampling = Sampling::greedy();
    GenerateOptions::default().sampling(sampling).max_tokens(tokens).ignore_eos(true)
}

/// The tokens of a greedy answer, and the log-probabilities of the first.
fn answer(model: &Model, prompt: Prompt) -> (Vec<u32>, Vec<(u32, f32)>) {
    let tokens = model.generate(prompt, greedy(6).logprobs(10)).unwrap();
    let tokens: Vec<_> = tokens.map(Result::unwrap).collect();
    let top = tokens[0].top.iter().map(|one| (one.id, one.logprob)).collect();
    (tokens.iter().map(|token| token.id).collect(), top)
}

#[test]
fn pictures_and_texts_are_those_of_the_reference() {
    for family in Family::all() {
        let model = family.model(LoadOptions::default());
        for (number, (prompt, expected)) in family.expected().enumerate() {
            let what = format!("{}, prompt {number}", family.name);
            let stream = model.generate(prompt.clone(), greedy(1)).unwrap();
            let handle = stream.handle().clone();
            assert_eq!(stream.count(), 1);
            assert_eq!(handle.stats().prompt_tokens, expected.ids.len(), "{what}");
            let (tokens, top) = answer(&model, prompt);
            for (token, logprob) in expected.top.iter().zip(&expected.logprobs) {
                let found = top.iter().find(|(id, _)| id == token);
                let difference = found.map(|(_, found)| (found - logprob).abs());
                let last = expected.logprobs.last().unwrap();
                match difference {
                    Some(difference) => assert!(difference < TOLERANCE, "{what}: {difference}"),
                    // the least of the list may be another token as likely
                    None => assert!(logprob - last < TOLERANCE, "{what}: no token {token}"),
                }
            }
            let sure = expected.greedy.len();
            assert_eq!(tokens[..sure], expected.greedy[..], "{what}");
        }
    }
}
