//! The built-in model that sees: its greedy answers are those of transformers
//! (`models/vision/verify.py`), whose weights were rounded to those of the files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pelton::{
    Device, Engine, GenerateOptions, LoadOptions, Model, ModelSource, Sampling,
    chat::{Chat, Message},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Answers {
    pictures: Vec<Sample>,
    pairs: Vec<Pair>,
    chats: Vec<TwoTurns>,
    texts: Vec<Text>,
}

#[derive(Deserialize)]
struct Sample {
    file: String,
    asked: String,
    answer: String,
    described: String,
}

/// Two pictures before a question.
#[derive(Deserialize)]
struct Pair {
    files: [String; 2],
    asked: String,
    answer: String,
}

/// A picture with each of two questions.
#[derive(Deserialize)]
struct TwoTurns {
    files: [String; 2],
    asked: [String; 2],
    answers: [String; 2],
}

/// A message without a picture.
#[derive(Deserialize)]
struct Text {
    asked: String,
    answer: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/vision")
}

fn answers() -> Answers {
    let text = fs::read_to_string(folder().join("samples/answers.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn picture(file: &str) -> Vec<u8> {
    fs::read(folder().join("samples").join(file)).unwrap()
}

fn load(source: impl Into<ModelSource>, options: &LoadOptions) -> Model {
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    engine.load(source, options).unwrap()
}

fn model() -> Model {
    load(ModelSource::BuiltInVision, &LoadOptions::default())
}

fn asked(text: &str, files: &[&str]) -> Message {
    Message::with_images("user", text, files.iter().map(|file| picture(file)))
}

fn answer(model: &Model, messages: Vec<Message>) -> String {
    let prompt = model.chat_template().unwrap().prompt(&Chat::new(messages)).unwrap();
    let greedy = GenerateOptions::default().max_tokens(48).sampling(Sampling::greedy());
    let mut reply = model.answer(&prompt, greedy).unwrap();
    for event in &mut reply {
        event.unwrap();
    }
    reply.message().text().unwrap_or_default()
}

/// Fails with all answers that differ from the expected.
fn assert_same(found: impl IntoIterator<Item = (String, String, String)>) {
    let differing: Vec<_> =
        found.into_iter().filter(|(_, found, expected)| found != expected).collect();
    assert!(differing.is_empty(), "{}: {differing:#?}", differing.len());
}

#[test]
fn answers_about_pictures_are_those_of_the_reference() {
    let (model, answers) = (model(), answers());
    assert!(answers.pictures.len() >= 96);
    assert_same(answers.pictures.iter().flat_map(|sample| {
        let questions =
            [(&*sample.asked, &sample.answer), ("Describe the picture.", &sample.described)];
        questions.map(|(text, expected)| {
            let found = answer(&model, vec![asked(text, &[&sample.file])]);
            (format!("{}: {text}", sample.file), found, expected.clone())
        })
    }));
}

/// The pages of the first turn are found again, with the rows of its picture.
#[test]
fn later_turns_and_two_pictures_are_those_of_the_reference() {
    let (model, answers) = (model(), answers());
    assert!(answers.pairs.len() >= 8 && answers.chats.len() >= 8 && answers.texts.len() >= 8);
    assert_same(answers.pairs.iter().map(|pair| {
        let [first, second] = &pair.files;
        let found = answer(&model, vec![asked(&pair.asked, &[first, second])]);
        (format!("{first}, {second}: {}", pair.asked), found, pair.answer.clone())
    }));
    assert_same(answers.chats.iter().map(|chat| {
        let first = asked(&chat.asked[0], &[&chat.files[0]]);
        let answered = answer(&model, vec![first.clone()]);
        assert_eq!(answered, chat.answers[0]);
        let second = asked(&chat.asked[1], &[&chat.files[1]]);
        let found = answer(&model, vec![first, Message::new("assistant", answered), second]);
        (format!("{}: {}", chat.files[1], chat.asked[1]), found, chat.answers[1].clone())
    }));
    assert_same(answers.texts.iter().map(|text| {
        let found = answer(&model, vec![Message::new("user", &*text.asked)]);
        (text.asked.clone(), found, text.answer.clone())
    }));
}

/// The tower is found next to the file, and left out if the options say so.
#[test]
fn the_files_are_the_built_in_model() {
    let (file, sample) = (folder().join("pelton-vision.gguf"), &answers().pictures[12]);
    let question = || vec![asked("Describe the picture.", &[&sample.file])];
    let model = load(&file, &LoadOptions::default());
    assert_eq!(answer(&model, question()), sample.described);
    for source in [ModelSource::from(&file), ModelSource::BuiltInVision] {
        let blind = load(source, &LoadOptions::default().pictures(false));
        let error = blind.chat_template().unwrap().prompt(&Chat::new(question()));
        assert!(error.is_err());
    }
}
