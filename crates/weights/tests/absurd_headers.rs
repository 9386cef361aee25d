//! Headers that have the right form and absurd contents: extreme counts, sizes near 2^64, overlaps,
//! no elements.
//!
//! `PELTON_FUZZ_RUNS` sets the number of files of each kind, 2,000 otherwise, and
//! `PELTON_FUZZ_SEED` the first seed. Each is opened within the bounds of `pelton_watchdog`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

#[path = "common/exercise.rs"]
mod exercise;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use pelton_watchdog::{Budget, Counting, within};
use pelton_weights::{Checkpoint, Lora};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// One run at a time: memory is counted over all threads.
static ALONE: Mutex<()> = Mutex::new(());

/// Random numbers of a seed.
struct Random(pelton_testing::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(pelton_testing::Random::new(seed))
    }

    /// A number below another one.
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n as usize) as u64
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the inputs of consecutive seeds.
fn each(what: &str, run: impl Fn(&mut Random)) {
    let _alone = ALONE.lock().unwrap();
    let first = number("PELTON_FUZZ_SEED", 1);
    for seed in first..first + number("PELTON_FUZZ_RUNS", 2000) {
        let mut random = Random::new(seed);
        within(Budget::usual(), &format!("{what} of seed {seed}"), || run(&mut random));
    }
}

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

/// A number from the borders of what a reader may compute with.
fn absurd(random: &mut Random) -> u64 {
    let small = random.below(70);
    let power = 1u64 << random.below(64);
    let near = random.below(5);
    one_of(
        random,
        &[
            small,
            small,
            small,
            0,
            1,
            power,
            power.wrapping_sub(near),
            u64::MAX - near,
            (u32::MAX as u64).wrapping_add(near),
            i64::MAX as u64 - near,
            1 << 31,
        ],
    )
}

fn text(random: &mut Random, all: &[&str]) -> Vec<u8> {
    let text = one_of(random, all);
    let length = if random.below(40) == 0 { absurd(random) } else { text.len() as u64 };
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}

const KEYS: [&str; 14] = [
    "general.architecture",
    "general.alignment",
    "general.type",
    "split.count",
    "split.no",
    "split.tensors.count",
    "llama.block_count",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "tokenizer.ggml.tokens",
    "adapter.type",
    "adapter.lora.alpha",
    "",
    "x",
];
const TEXTS: [&str; 6] = ["llama", "adapter", "lora", "", "whisper", "\u{1b}[31m"];
const TENSORS: [&str; 6] = [
    "token_embd.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_q.weight.lora_a",
    "blk.0.attn_q.weight.lora_b",
    "",
    "x",
];

fn value(random: &mut Random, depth: usize) -> (u32, Vec<u8>) {
    let kind = random.below(14) as u32;
    (kind, value_of(random, kind, depth))
}

fn value_of(random: &mut Random, kind: u32, depth: usize) -> Vec<u8> {
    let number = absurd(random).to_le_bytes();
    match kind {
        0 | 1 | 7 => number[..1].to_vec(),
        2 | 3 => number[..2].to_vec(),
        4..=6 => number[..4].to_vec(),
        8 => text(random, &TEXTS),
        9 if depth < 4 => {
            let inner = random.below(13) as u32;
            let count = absurd(random);
            let mut all = [&inner.to_le_bytes()[..], &count.to_le_bytes()].concat();
            for _ in 0..count.min(20) {
                all.extend(value_of(random, inner, depth + 1));
            }
            all
        }
        _ => number.to_vec(),
    }
}

/// The bytes of a GGUF file.
fn gguf(random: &mut Random) -> Vec<u8> {
    let (keys, tensors) = (random.below(6), random.below(6));
    let stated = |random: &mut Random, count| {
        if random.below(30) == 0 { absurd(random) } else { count }
    };
    let mut file = b"GGUF".to_vec();
    file.extend(one_of(random, &[2u32, 3, 3, 3]).to_le_bytes());
    file.extend(stated(random, tensors).to_le_bytes());
    file.extend(stated(random, keys).to_le_bytes());
    for _ in 0..keys {
        file.extend(text(random, &KEYS));
        let (kind, bytes) = value(random, 0);
        file.extend(kind.to_le_bytes());
        file.extend(bytes);
    }
    for _ in 0..tensors {
        file.extend(text(random, &TENSORS));
        let dims = one_of(random, &[1u32, 2, 2, 3, 4, 0, 5]);
        file.extend(dims.to_le_bytes());
        for _ in 0..dims {
            file.extend(absurd(random).to_le_bytes());
        }
        file.extend((random.below(42) as u32).to_le_bytes());
        let offset = absurd(random);
        file.extend(one_of(random, &[0, 32, 64, offset, offset & !31]).to_le_bytes());
    }
    file.resize(file.len() + random.below(4096) as usize, 1);
    file
}

/// The bytes of a safetensors file with tensors of these names.
fn safetensors(random: &mut Random, names: &[&str]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let types = ["F32", "F16", "BF16", "F64", "I8", "U8", "BOOL", "F8_E4M3", "F4"];
    let mut end = 0;
    for name in names {
        let whole = random.below(3) > 0;
        let [mut rows, mut columns] = [random.below(9) + 1, random.below(9) + 1];
        if !whole {
            (rows, columns) = (absurd(random), absurd(random));
        }
        let bytes = rows.wrapping_mul(columns).wrapping_mul(4);
        let start = if random.below(9) == 0 { absurd(random) } else { end };
        end = start.wrapping_add(bytes);
        let shape = match random.below(12) {
            0 => json!([]),
            1 => json!([rows, columns, 0]),
            2 => json!([1, 1, 1, 1, 1, 1, 1, 1, rows]),
            _ => json!([rows, columns]),
        };
        let dtype = if whole { "F32" } else { one_of(random, &types) };
        let place = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        header.insert((*name).to_owned(), place);
    }
    let header = Value::Object(header).to_string();
    let length = if random.below(30) == 0 { absurd(random) } else { header.len() as u64 };
    let data = vec![0; end.min(8192) as usize];
    [&length.to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// The bytes of a ggml file of Whisper.
fn ggml(random: &mut Random) -> Vec<u8> {
    let mut file = 0x6767_6d6c_u32.to_le_bytes().to_vec();
    for usual in [100, 8, 8, 1, 1, 8, 8, 1, 1, 80, 1] {
        let number = if random.below(6) == 0 { absurd(random) as u32 } else { usual };
        file.extend(number.to_le_bytes());
    }
    let (mels, positions) = (absurd(random) as u32, absurd(random) as u32);
    let [mels, positions] = one_of(random, &[[80, 201], [mels, positions], [mels, 201]]);
    file.extend(mels.to_le_bytes());
    file.extend(positions.to_le_bytes());
    file.resize(file.len() + one_of(random, &[80 * 201 * 4, 0, 100]), 0);
    let tokens = one_of(random, &[100, absurd(&mut Random::new(mels.into())) as u32]);
    file.extend(tokens.to_le_bytes());
    for _ in 0..tokens.min(100) {
        let length = if random.below(500) == 0 { absurd(random) as u32 } else { 1 };
        file.extend(length.to_le_bytes());
        file.push(b'a');
    }
    for _ in 0..random.below(4) {
        let (dims, name) = (one_of(random, &[1u32, 2, 3, 0, 9]), "encoder.conv1.bias");
        file.extend(dims.to_le_bytes());
        file.extend((name.len() as u32).to_le_bytes());
        file.extend((random.below(12) as u32).to_le_bytes());
        for _ in 0..dims {
            file.extend((absurd(random) as u32).to_le_bytes());
        }
        file.extend(name.as_bytes());
        file.resize(file.len() + random.below(200) as usize, 0);
    }
    file
}

fn settings(random: &mut Random) -> Value {
    let number = |random: &mut Random| match random.below(6) {
        0 => json!(absurd(random)),
        1 => json!(f64::MAX),
        2 => json!(-1),
        3 => json!("8"),
        _ => json!(8),
    };
    let mut settings = json!({"peft_type": "LORA"});
    settings["r"] = number(random);
    settings["lora_alpha"] = number(random);
    let patterns = ["q_proj", "(a*)*b", "(\\w{99}){99}", "(", "[^x]+\\.q_proj", ".*", ""];
    for _ in 0..random.below(4) {
        settings["alpha_pattern"][one_of(random, &patterns)] = number(random);
    }
    let keys = ["use_rslora", "use_dora", "bias", "rank_pattern", "target_modules", "later"];
    if random.below(3) == 0 {
        settings[one_of(random, &keys)] =
            one_of(random, &[&json!(true), &json!({}), &json!(null), &json!("all")]).clone();
    }
    settings
}

#[test]
fn files_of_gguf() {
    let opened = Mutex::new(0);
    each("a GGUF file", |random| {
        let file = gguf(random);
        *opened.lock().unwrap() += usize::from(exercise::exercise(file));
    });
    assert!(*opened.lock().unwrap() > 20, "all are refused for the same reasons: {opened:?}");
}

#[test]
fn files_of_ggml() {
    each("a ggml file", |random| {
        exercise::exercise(ggml(random));
    });
}

/// A directory: the header of a safetensors file, over a sound configuration.
#[test]
fn directories() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama3");
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        let _ = fs::copy(from.join(name), folder.path().join(name));
    }
    let names = [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.weight_scale_inv",
        "model.layers.0.self_attn.q_proj.qweight",
        "model.layers.1.mlp.down_proj.weight",
    ];
    each("a directory", |random| {
        let count = random.below(names.len() as u64 + 1) as usize;
        fs::write(folder.path().join("model.safetensors"), safetensors(random, &names[..count]))
            .unwrap();
        let _ = Checkpoint::open(folder.path());
    });
}

/// Adapters of both kinds over models of both kinds.
#[test]
fn adapters() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama3");
    let bases = [&model, &model.join("model.gguf")].map(|path| Checkpoint::open(path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("adapter.gguf");
    let module = "base_model.model.model.layers.0.self_attn.q_proj";
    let names = [format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight")];
    let names = names.each_ref().map(String::as_str);
    each("an adapter", |random| {
        let base = &bases[random.below(2) as usize];
        if random.below(2) == 0 {
            fs::write(&file, gguf(random)).unwrap();
            let _ = Lora::open(&file, base);
        } else {
            let config = settings(random).to_string();
            fs::write(folder.path().join("adapter_config.json"), config).unwrap();
            let factors = safetensors(random, &names);
            fs::write(folder.path().join("adapter_model.safetensors"), factors).unwrap();
            let _ = Lora::open(folder.path(), base);
        }
    });
}

/// A sound file that ends at every border of 4 KiB, and at places between.
#[test]
fn cut_files() {
    let _alone = ALONE.lock().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama3");
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.gguf", "model.safetensors"] {
        let whole = fs::read(model.join(name)).unwrap();
        for file in fs::read_dir(&model).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|end| end == "json") {
                fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
            }
        }
        let path = folder.path().join(name);
        let opened = if name == "model.gguf" { path.as_path() } else { folder.path() };
        for length in (0..whole.len()).step_by(4096).chain((1..whole.len()).step_by(997)) {
            fs::write(&path, &whole[..length]).unwrap();
            let refusal = within(Budget::usual(), &format!("{length} bytes of {name}"), || {
                Checkpoint::open(opened).unwrap_err().to_string()
            });
            assert!(refusal.contains(name), "{length}: {refusal}");
        }
    }
}

/// Devices, pipes and the like are refused, not waited for.
#[cfg(unix)]
#[test]
fn devices_pipes_and_folders() {
    let _alone = ALONE.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.gguf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let linked = folder.path().join("linked.gguf");
    std::os::unix::fs::symlink("/dev/zero", &linked).unwrap();
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama3");
    let base = Checkpoint::open(base.join("model.gguf")).unwrap();
    for path in [&pipe, &linked, Path::new("/dev/zero"), Path::new("/dev/null")] {
        let refusals = within(Budget::usual(), &path.display().to_string(), || {
            [
                Checkpoint::open(path).unwrap_err(),
                Lora::open(path, &base).unwrap_err(),
                pelton_weights::Importance::open(path).unwrap_err(),
            ]
        });
        for refusal in refusals {
            assert!(refusal.to_string().contains("not a regular file"), "{refusal}");
        }
    }
    // sparse files of absurd sizes
    let sparse = folder.path().join("sparse.gguf");
    for bytes in [1 << 40, 1 << 43] {
        if fs::File::create(&sparse).unwrap().set_len(bytes).is_ok() {
            within(Budget::usual(), "a sparse file", || {
                assert!(Checkpoint::open(&sparse).is_err());
                assert!(pelton_weights::Importance::open(&sparse).is_err());
            });
        }
    }
    let mut config = fs::read(base_config()).unwrap();
    config.truncate(50);
    fs::write(folder.path().join("config.json"), config).unwrap();
    assert!(Checkpoint::open(folder.path()).is_err());
}

#[cfg(unix)]
fn base_config() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama3/config.json")
}
