//! Prompts with pictures, against transformers (`tests/fixtures/make_vision_prompts.py`), and the
//! same prompts in other passes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton::{
    Checkpoint, Device, Engine, GenerateOptions, KvMemory, KvType, LoadOptions, Model, Picture,
    Prompt, Quantize, Sampling,
    chat::Segment,
    weights::{Conversion, DType, GgufWriter},
};
use pelton_image::{Job, Limits};
use serde::Deserialize;

/// The greatest difference of a log-probability.
const TOLERANCE: f32 = 1e-3;

/// The directories of the fixture, and the placeholder of each family.
const FAMILIES: [(&str, &str); 16] = [
    ("gemma3", "<start_of_image>"),
    ("gemma3-72", "<start_of_image>"),
    ("gemma4", "<|image|>"),
    ("gemma4-88", "<|image|>"),
    ("gemma4-unified", "<|image|>"),
    ("gemma4-whole", "<|image|>"),
    ("idefics3", "<image>"),
    ("internvl", "<IMG_CONTEXT>"),
    ("mistral3", "[IMG]"),
    ("pixtral", "[IMG]"),
    ("pixtral-80", "[IMG]"),
    ("qwen2-vl", "<|image_pad|>"),
    ("qwen2.5-vl", "<|image_pad|>"),
    ("qwen3-vl", "<|image_pad|>"),
    ("qwen3-vl-moe", "<|image_pad|>"),
    ("qwen3.5", "<|image_pad|>"),
];

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
                images.push(Arc::clone(&pictures[*number]).into());
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

/// Compares the prompts of a family with transformers.
fn compare(family: &Family, model: &Model) {
    compare_within(family, model, TOLERANCE);
}

/// The same with another greatest difference. The answers are compared where it is the usual one.
fn compare_within(family: &Family, model: &Model, tolerance: f32) {
    for (number, (prompt, expected)) in family.expected().enumerate() {
        let what = format!("{}, prompt {number}", family.name);
        let stream = model.generate(prompt.clone(), greedy(1)).unwrap();
        let handle = stream.handle().clone();
        assert_eq!(stream.count(), 1);
        assert_eq!(handle.stats().prompt_tokens, expected.ids.len(), "{what}");
        let (tokens, top) = answer(model, prompt);
        for (token, logprob) in expected.top.iter().zip(&expected.logprobs) {
            let found = top.iter().find(|(id, _)| id == token);
            let last = expected.logprobs.last().unwrap();
            match found.map(|(_, found)| (found - logprob).abs()) {
                Some(difference) => assert!(difference < tolerance, "{what}: {difference}"),
                // the least of the list may be another token as likely
                None => assert!(logprob - last < tolerance, "{what}: no token {token}"),
            }
        }
        let sure = if tolerance == TOLERANCE { expected.greedy.len() } else { 0 };
        assert_eq!(tokens[..sure], expected.greedy[..sure], "{what}");
    }
}

#[test]
fn pictures_and_texts_are_those_of_the_reference() {
    for family in Family::all() {
        compare(&family, &family.model(LoadOptions::default()));
    }
}

/// The model of a family as two GGUF files, of which the second is found next to the first. `to` is
/// the type of the tower.
fn pair(family: &Family, to: Option<Quantize>) -> (tempfile::TempDir, Model) {
    let folder = tempfile::tempdir().unwrap();
    let from = path(family.name);
    let tower = Checkpoint::open_tower_file(&from).unwrap().unwrap();
    for (name, of) in [("a.gguf", Checkpoint::open(&from).unwrap()), ("mmproj-a.gguf", tower)] {
        let conversion = match to.filter(|_| name == "mmproj-a.gguf") {
            Some(to) => Conversion::quantize(&of, to, None),
            None => Conversion::convert(&of, None),
        };
        let file = fs::File::create(folder.path().join(name)).unwrap();
        conversion.unwrap().write(file, |_, _| {}).unwrap();
    }
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    let options = LoadOptions::default().kv(KvType::F32).context(512);
    let model = engine.load(folder.path().join("a.gguf"), &options).unwrap();
    (folder, model)
}

#[test]
fn converted_files_are_the_directory() {
    for family in Family::all() {
        compare(&family, &pair(&family, None).1);
    }
}

/// Matrices of 32 columns become Q8_0, all others F16. Random weights amplify the differences.
#[test]
fn quantized_towers_are_near_the_directory() {
    for family in Family::all() {
        compare_within(&family, &pair(&family, Some(Quantize::Q8_0)).1, 0.4);
    }
}

/// A directory whose tower cannot be read, and a text with a tower among its tensors.
#[test]
fn a_tower_alone_is_no_model() {
    let engine = Engine::builder().device(Device::Cpu).threads(1).build().unwrap();
    let file = path("gemma3").join("mmproj.gguf");
    let error = engine.load(&*file, &LoadOptions::default()).err().unwrap().to_string();
    assert!(
        error.contains("mmproj.gguf: the file is a vision tower, expected the model"),
        "{error}"
    );
}

#[test]
fn towers_that_cannot_be_read_are_errors() {
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    let refused = |path: &Path| {
        let blind = LoadOptions::default().pictures(false);
        assert!(engine.load(path, &blind).is_ok());
        engine.load(path, &LoadOptions::default()).err().unwrap().to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(path("gemma3")).unwrap().map(Result::unwrap) {
        let name = file.file_name();
        if name != "mmproj.gguf" {
            fs::copy(file.path(), folder.path().join(name)).unwrap();
        }
    }
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    let broken = [
        ("\"hidden_act\": \"gelu", "\"hidden_act\": \"relu", "hidden_act"),
        ("\"image_size\": 32", "\"image_size\": 2147483000", "scale_factor"),
        ("\"patch_size\": 4", "\"patch_size\": 5", "v.patch_embd.weight"),
        ("2,\n    \"num_channels\"", "3,\n    \"num_channels\"", "head_count"),
    ];
    for (from, to, named) in broken {
        assert!(text.contains(from), "{from}");
        fs::write(&config, text.replace(from, to)).unwrap();
        let said = refused(folder.path());
        assert!(
            said.starts_with("the vision tower cannot be read") && said.contains(named),
            "{said}"
        );
    }

    let text = Checkpoint::open(path("gemma3")).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in text.metadata().iter() {
        writer.set(key, value.clone()).unwrap();
    }
    for tensor in text.tensors() {
        writer.declare(tensor.name, tensor.dtype, tensor.shape).unwrap();
    }
    writer.declare("v.blk.0.attn_q.weight", DType::F32, &[1]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    text.tensors().for_each(|tensor| body.write(tensor.bytes).unwrap());
    body.write(&[0; 4]).unwrap();
    let file = folder.path().join("whole.gguf");
    fs::write(&file, body.finish().unwrap()).unwrap();
    assert!(refused(&file).contains("in the file of the text, as Ollama writes it"));
}

/// Towers and texts on a GPU, or on a driver in software.
#[cfg(feature = "gpu")]
#[test]
fn a_gpu_has_the_numbers_of_the_reference() {
    use pelton::gpu::{Gpu, adapters};
    use pelton_testing::{Need, skip};

    let Some(adapter) = adapters().into_iter().next() else {
        return skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
    };
    let gpu = Gpu::open_checked(&adapter).unwrap();
    let engine = Engine::with_backend(gpu);
    for family in Family::all() {
        let options = LoadOptions::default().kv(KvType::F32).context(512);
        compare(&family, &engine.load(path(family.name), &options).unwrap());
    }
}

/// A prompt whose picture begins at about this position, with 80 tokens behind it.
fn long(family: &Family, before: usize, pictures: &[Arc<Picture>]) -> Prompt {
    let text = |letter: &str, count| Part::Text(letter.repeat(count));
    let parts = [text("a", before), Part::Picture(0), text("b", 80)];
    family.prompt(&parts, pictures)
}

fn cached(model: &Model, prompt: Prompt) -> usize {
    let stream = model.generate(prompt, greedy(1)).unwrap();
    let handle = stream.handle().clone();
    assert_eq!(stream.count(), 1);
    handle.stats().cached_tokens
}

#[test]
fn chunks_batches_and_cached_prefixes_change_nothing() {
    for family in Family::all() {
        let alone = family.model(LoadOptions::default());
        let few = family.model(LoadOptions::default().rows(64));
        let many = family.model(LoadOptions::default().max_concurrent(4));
        // the picture begins before the border of a page, at it and after it
        for before in [0, 58, 63, 64] {
            let what = format!("{}, a picture from {before} on", family.name);
            let prompt = long(&family, before, &family.pictures);
            let expected = answer(&alone, prompt.clone());
            assert_eq!(answer(&alone, prompt.clone()), expected, "{what}, again");
            assert_eq!(answer(&few, prompt.clone()), expected, "{what}, in chunks");
            let others: Vec<_> = (0..2)
                .map(|i| long(&family, before + 7 * i, &family.pictures))
                .map(|other| many.generate(other, greedy(9)).unwrap())
                .collect();
            assert_eq!(answer(&many, prompt), expected, "{what}, beside others");
            others.into_iter().for_each(|other| assert_eq!(other.count(), 9));
        }
    }
}

#[test]
fn pages_are_shared_by_equal_pictures_alone() {
    for family in Family::all() {
        let model = family.model(LoadOptions::default());
        let prompt = |pictures: &[Arc<Picture>]| long(&family, 5, pictures);
        assert_eq!(cached(&model, prompt(&family.pictures)), 0, "{}", family.name);
        let passes = model.status().tower_passes;
        assert!(passes > 0);
        let hit = cached(&model, prompt(&family.pictures));
        assert!(hit >= 64, "{}: {hit} cached", family.name);
        // a cached picture is not seen again, nor is one that stands twice in a prompt
        assert_eq!(model.status().tower_passes, passes, "{}", family.name);
        let own = &family.pictures[0];
        let mut rgb = own.rgb().to_vec();
        // all of a patch, since a resize may round one pixel away
        for x in 0..own.width() as usize / 4 {
            rgb[3 * x] ^= 0xff;
        }
        let other = Arc::new(Picture::new(own.width(), own.height(), rgb).unwrap());
        assert_eq!(cached(&model, prompt(&[other])), 0, "{}", family.name);
        assert_eq!(model.status().tower_passes, 2 * passes, "{}", family.name);
        let parts = [Part::Picture(0), Part::Text("a".into()), Part::Picture(0)];
        cached(&model, family.prompt(&parts, &family.pictures));
        assert_eq!(model.status().tower_passes, 2 * passes, "{}", family.name);
    }
}

#[test]
fn prompts_with_pictures_survive_preemption() {
    let mut preemptions = 0;
    // rows that see each other, and coordinates of two axes
    let names = ["gemma3", "qwen2-vl"];
    for family in Family::all().filter(|family| names.contains(&family.name)) {
        let alone = family.model(LoadOptions::default());
        let options = LoadOptions::default().max_concurrent(3);
        let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
        // three start, and two of them at most can end
        let memory = KvMemory::Bytes(alone.summary().kv_bytes * 3 / 2);
        let tight = options.kv(KvType::F32).context(512).kv_memory(memory);
        let tight = engine.load(path(family.name), &tight).unwrap();
        let prompt = |i: usize| long(&family, 20 + i, &family.pictures);
        let expected: Vec<Vec<u32>> = (0..3).map(|i| ids(&alone, prompt(i), 380)).collect();
        let streams: Vec<_> =
            (0..3).map(|i| tight.generate(prompt(i), greedy(380)).unwrap()).collect();
        for (stream, expected) in streams.into_iter().zip(&expected) {
            let found: Vec<u32> = stream.map(|token| token.unwrap().id).collect();
            assert_eq!(found, *expected, "{}", family.name);
        }
        preemptions += tight.status().preemptions;
    }
    assert!(preemptions > 0);
}

fn ids(model: &Model, prompt: Prompt, tokens: usize) -> Vec<u32> {
    model.generate(prompt, greedy(tokens)).unwrap().map(|token| token.unwrap().id).collect()
}

#[test]
fn pictures_that_do_not_fit_are_refused() {
    let family = Family::all().next().unwrap();
    let model = family.model(LoadOptions::default().picture_tokens(3));
    let parts = [Part::Picture(0), Part::Text("a".into())];
    let refused =
        |model: &Model, prompt| model.generate(prompt, greedy(1)).err().unwrap().to_string();
    let prompt = || family.prompt(&parts, &family.pictures);
    assert_eq!(
        refused(&model, prompt()),
        "picture 1 becomes 4 tokens, expected at most 3: choose a smaller picture, or load the model \
         with a greater picture_tokens"
    );
    let model = family.model(LoadOptions::default().pictures(false));
    assert!(refused(&model, prompt()).contains("mmproj"), "{}", refused(&model, prompt()));
    let model = family.model(LoadOptions::default());
    let many: Vec<Part> = (0..200).map(|_| Part::Picture(0)).collect();
    let said = refused(&model, family.prompt(&many, &family.pictures));
    assert!(said.contains("800 tokens") && said.contains("512"), "{said}");
    let Prompt::Segments { segments, .. } = prompt() else { panic!("a prompt of segments") };
    let without = Prompt::Segments { segments, images: Vec::new() };
    assert_eq!(refused(&model, without), "the prompt has 0 pictures, expected at least 1");
}

/// A picture whose rows see each other is never cut: where a pass cannot have it, it is refused.
#[test]
fn a_picture_longer_than_a_pass_is_refused() {
    let family = Family::all().find(|family| family.name == "gemma4-whole").unwrap();
    let rgb = |count: usize| (0..count).map(|i| (i * 7) as u8).collect();
    let wide = Arc::new(Picture::new(400, 280, rgb(400 * 280 * 3)).unwrap());
    let prompt = || long(&family, 3, &[Arc::clone(&wide)]);
    let few = family.model(LoadOptions::default().rows(64));
    let error = few.generate(prompt(), greedy(1)).err().unwrap().to_string();
    assert!(error.contains("becomes 70 tokens, expected at most 64"), "{error}");
    // the model goes on
    assert_eq!(few.generate("abc", greedy(3)).unwrap().count(), 3);
    let more = family.model(LoadOptions::default().rows(128));
    assert_eq!(answer(&more, prompt()), answer(&family.model(LoadOptions::default()), prompt()));
}

/// Recurrent states are kept at the borders of pages, with pictures before them as with texts.
#[test]
fn hybrid_models_find_prefixes_of_chats_with_pictures() {
    let family = Family::all().find(|family| family.name == "qwen3.5").unwrap();
    let model = family.model(LoadOptions::default());
    let turn = |parts: &[Part]| family.prompt(parts, &family.pictures);
    let text = |letter: &str, count| Part::Text(letter.repeat(count));
    let first = [text("a", 20), Part::Picture(0), text("b", 80)];
    assert_eq!(cached(&model, turn(&first)), 0);
    let second = [text("a", 20), Part::Picture(0), text("b", 80), Part::Picture(1), text("c", 70)];
    let expected = answer(&family.model(LoadOptions::default()), turn(&second));
    assert!(cached(&model, turn(&second)) >= 64);
    assert_eq!(answer(&model, turn(&second)), expected);
    assert!(cached(&model, turn(&second)) >= 128);
}

/// Rows of pictures have no tokens whose probabilities could be told.
#[test]
fn probabilities_of_prompts_with_pictures_are_refused() {
    let family = Family::all().next().unwrap();
    let model = family.model(LoadOptions::default());
    let prompt = long(&family, 3, &family.pictures);
    let error = model.logprobs(prompt.clone(), GenerateOptions::default()).err().unwrap();
    let said = error.to_string();
    assert!(said.contains("prompt_logprobs of a prompt with pictures"), "{said}");
    let tokens = model.tokenize(&prompt).unwrap();
    let stream = model.generate(prompt, greedy(1)).unwrap();
    let handle = stream.handle().clone();
    assert_eq!((stream.count(), handle.stats().prompt_tokens), (1, tokens.len()));
}
