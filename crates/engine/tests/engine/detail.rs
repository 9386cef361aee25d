//! How closely a model looks at a picture: `detail`, and the least and the most tokens of a load.

use std::{fs, path::Path, sync::Arc};

use pelton::{
    Device, Engine, GenerateOptions, KvType, LoadOptions, Model, Picture, Prompt, PromptImage,
    Sampling,
    chat::{Detail, Segment},
};
use tempfile::TempDir;

/// Tiny models, their placeholders, and changes of their settings by which a great picture has more
/// than the 256 tokens of low detail.
const MODELS: [(&str, &str, &str, &str); 3] = [
    ("qwen2.5-vl", "<|image_pad|>", "\"longest_edge\": 768", "\"longest_edge\": 19200"),
    ("internvl", "<IMG_CONTEXT>", "\"max_patches\": 3", "\"max_patches\": 70"),
    ("mistral3", "[IMG]", "\"longest_edge\": 32", "\"longest_edge\": 140"),
];

/// A model of the fixtures with other settings of pictures.
fn changed(name: &str, from: &str, to: &str) -> TempDir {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision");
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(folder.join(name).join(file), copy.path().join(file)).unwrap();
    }
    let file = "preprocessor_config.json";
    let settings = fs::read_to_string(folder.join(name).join(file)).unwrap();
    assert!(settings.contains(from), "{name}");
    fs::write(copy.path().join(file), settings.replace(from, to)).unwrap();
    copy
}

fn load(folder: &TempDir, options: LoadOptions) -> Model {
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    engine.load(folder.path(), &options.kv(KvType::F32).context(512).rows(512)).unwrap()
}

fn picture(width: u32, height: u32) -> Arc<Picture> {
    let rgb = (0..width * height * 3).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    Arc::new(Picture::new(width, height, rgb.collect()).unwrap())
}

/// A prompt with a picture, and some tokens behind it.
fn prompt(placeholder: &str, picture: &Arc<Picture>, detail: Detail) -> Prompt {
    let part = |text: String, image| Segment { text, control_tokens: true, image };
    let segments = vec![
        part("ab".into(), None),
        part(placeholder.into(), Some(0)),
        part("b".repeat(70), None),
    ];
    Prompt::Segments {
        segments,
        images: vec![PromptImage { picture: Arc::clone(picture), detail }],
    }
}

/// The tokens of a prompt, those that were cached, and a greedy answer.
fn answer(model: &Model, prompt: Prompt) -> (usize, usize, Vec<u32>) {
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(4);
    let stream = model.generate(prompt, options.ignore_eos(true)).unwrap();
    let handle = stream.handle().clone();
    let tokens = stream.map(|token| token.unwrap().id).collect();
    (handle.stats().prompt_tokens, handle.stats().cached_tokens, tokens)
}

/// Low detail has few tokens, the other words have those of the file, and one picture with two
/// details shares neither pages nor embeddings.
#[test]
fn detail_bounds_the_tokens_of_a_picture() {
    for (name, placeholder, from, to) in MODELS {
        let folder = changed(name, from, to);
        let model = load(&folder, LoadOptions::default());
        let great = picture(400, 380);
        let ask = |model, detail| answer(model, prompt(placeholder, &great, detail));
        let (high, cached, high_text) = ask(&model, Detail::High);
        let passes = model.status().tower_passes;
        assert!(high > 256 + 70 && cached == 0, "{name}: {high}, {cached} cached");
        for detail in [Detail::Auto, Detail::Original] {
            let (tokens, cached, text) = ask(&model, detail);
            assert_eq!((tokens, &text), (high, &high_text), "{name}");
            assert!(cached > 64, "{name}: {cached}");
        }
        assert_eq!(model.status().tower_passes, passes, "{name}");
        let (low, cached, low_text) = ask(&model, Detail::Low);
        assert!(cached == 0 && low < high, "{name}: {low} of {high}, {cached} cached");
        assert!(model.status().tower_passes > passes, "{name}");
        let fresh = load(&folder, LoadOptions::default());
        assert_eq!(ask(&fresh, Detail::Low), (low, 0, low_text.clone()), "{name}");
        assert_eq!(ask(&model, Detail::High).2, high_text, "{name}");
        assert_eq!(ask(&model, Detail::Low).2, low_text, "{name}");
    }
}

/// The most tokens of a load make pictures smaller, but where a request asks for the original one.
#[test]
fn the_most_tokens_make_pictures_smaller() {
    for (name, placeholder, from, to) in MODELS {
        let folder = changed(name, from, to);
        let model = load(&folder, LoadOptions::default().picture_tokens(100));
        let great = picture(400, 380);
        let (tokens, ..) = answer(&model, prompt(placeholder, &great, Detail::High));
        assert!(tokens < 256, "{name}: {tokens}");
        let original = prompt(placeholder, &great, Detail::Original);
        let error = model.generate(original, GenerateOptions::default()).err().unwrap().to_string();
        assert!(error.contains("tokens, expected at most 100"), "{name}: {error}");
    }
}

/// The fewest tokens of a load make pictures greater, where the family allows that.
#[test]
fn the_fewest_tokens_make_pictures_greater() {
    for (name, placeholder, from, to) in MODELS {
        let folder = changed(name, from, to);
        let small = picture(24, 24);
        let tokens = |options| {
            let model = load(&folder, options);
            answer(&model, prompt(placeholder, &small, Detail::Auto)).0
        };
        let own = tokens(LoadOptions::default());
        let more = tokens(LoadOptions::default().picture_tokens_min(300).picture_tokens(330));
        match name {
            "mistral3" => assert_eq!(own, more, "{name}: pictures are never enlarged"),
            _ => assert!(own < 110 && more > own + 200, "{name}: {own}, {more}"),
        }
    }
    let folder = changed(MODELS[0].0, MODELS[0].2, MODELS[0].3);
    let options = LoadOptions::default().picture_tokens_min(300).picture_tokens(200);
    let engine = Engine::builder().device(Device::Cpu).threads(1).build().unwrap();
    let error = engine.load(folder.path(), &options).err().unwrap().to_string();
    assert!(error.contains("picture_tokens_min is 300, expected at most 200"), "{error}");
}
