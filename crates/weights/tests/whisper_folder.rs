//! Directories of Whisper, compared with transformers, OpenAI's implementation and other files of
//! the same weights.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/bin.rs"]
mod bin;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bin::{BinTensor, RawBin};
use pelton_weights::{Checkpoint, Conversion, DType, Error, Quantize, Source, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/whisper")
}

fn strings(model: &Checkpoint, key: &str) -> Vec<String> {
    let strings = model.metadata().string_array(key).unwrap();
    strings.map(|text| text.unwrap().to_owned()).collect()
}

/// A copy of the fixture.
fn copied() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixtures().join("folder")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

/// A copy of the fixture with a changed JSON file.
fn with_json(name: &str, change: impl FnOnce(&mut Json)) -> TempDir {
    let folder = copied();
    let path = folder.path().join(name);
    let mut json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
    folder
}

fn rejected(folder: &TempDir) -> String {
    let error: Error = Checkpoint::open(folder.path()).unwrap_err();
    let message = error.to_string();
    message.split_once(": ").unwrap().1.to_owned()
}

/// All keys but the name, and all tensors in the order of their names.
fn assert_equal(a: &Checkpoint, b: &Checkpoint) {
    const OWN: [&str; 3] = ["general.name", "general.file_type", "general.quantization_version"];
    let keys = |model: &Checkpoint| -> BTreeMap<String, _> {
        let all = model.metadata().iter().filter(|(key, _)| !OWN.contains(key));
        all.map(|(key, value)| (key.to_owned(), value.clone())).collect()
    };
    let (keys_a, keys_b) = (keys(a), keys(b));
    assert_eq!(keys_a.keys().collect::<Vec<_>>(), keys_b.keys().collect::<Vec<_>>());
    for (key, value) in &keys_a {
        assert!(*value == keys_b[key], "{key}");
    }
    assert_eq!(a.tensors().len(), b.tensors().len());
    for tensor in a.tensors() {
        let other = b.tensor(tensor.name).unwrap();
        assert_eq!((tensor.dtype, tensor.shape), (other.dtype, other.shape), "{}", tensor.name);
        assert!(tensor.bytes == other.bytes, "{}", tensor.name);
    }
}

fn written(model: &Checkpoint, conversion: &Conversion<'_>) -> Checkpoint {
    let bytes = conversion.write(Vec::new(), |_, _| {}).unwrap();
    Checkpoint::from_bytes(model.name(), bytes).unwrap()
}

/// Sizes, tensors and heads of a model that transformers saved and OpenAI's implementation runs.
#[test]
fn a_folder_of_transformers() {
    let model = Checkpoint::open(fixtures().join("folder")).unwrap();
    assert_eq!(model.source(), Source::HuggingFace);
    let metadata = model.metadata();
    for (key, expected) in [
        ("encoder.mels_count", 80),
        ("encoder.context_length", 50),
        ("encoder.embedding_length", 32),
        ("encoder.block_count", 1),
        ("encoder.attention.head_count", 2),
        ("decoder.context_length", 64),
        ("decoder.embedding_length", 32),
        ("decoder.block_count", 2),
        ("decoder.attention.head_count", 2),
    ] {
        assert_eq!(metadata.u32(&format!("whisper.{key}")).unwrap(), expected, "{key}");
    }
    let heads = metadata.opt_i32_array("whisper.alignment_heads").unwrap();
    assert_eq!(heads.unwrap(), [0, 1, 1, 0]);

    let all = fs::read(fixtures().join("folder.json")).unwrap();
    let all: BTreeMap<String, (Vec<usize>, f32, f32, f64)> = serde_json::from_slice(&all).unwrap();
    assert_eq!(model.tensors().len(), all.len());
    for (name, (mut shape, first, last, sum)) in all {
        let tensor = model.tensor(&name).unwrap();
        shape.reverse();
        assert_eq!(tensor.shape, shape, "{name}");
        let values = tensor.decode();
        assert_eq!((values.first(), values.last()), (Some(&first), Some(&last)), "{name}");
        let own: f64 = values.iter().map(|value| f64::from(*value)).sum();
        assert!((own - sum).abs() < 1e-9 * values.len() as f64, "{name}: {own} and {sum}");
        let is_vector = shape.len() == 1 || name.ends_with("positional_embedding");
        assert_eq!(tensor.dtype, if is_vector { DType::F32 } else { DType::F16 }, "{name}");
    }
}

/// Texts and ids of the vocabulary, those of `lang_to_id` included.
#[test]
fn the_vocabulary_of_a_folder() {
    let model = Checkpoint::open(fixtures().join("folder")).unwrap();
    let tokens = strings(&model, "tokenizer.ggml.tokens");
    assert_eq!(tokens.len(), 2_120);
    let generation = fs::read(fixtures().join("folder/generation_config.json")).unwrap();
    let generation: Json = serde_json::from_slice(&generation).unwrap();
    let languages = generation["lang_to_id"].as_object().unwrap();
    assert_eq!(languages.len(), 99);
    for (text, id) in languages {
        assert_eq!(tokens[id.as_u64().unwrap() as usize], *text);
    }
    for (id, text) in [(0, "!"), (512, "<|endoftext|>"), (619, "<|0.00|>"), (2_119, "<|30.00|>")] {
        assert_eq!(tokens[id], text);
    }
    // A merge for each token of several bytes.
    assert_eq!(strings(&model, "tokenizer.ggml.merges").len(), 512 - 256);
}

/// The three forms of a vocabulary are one: with all tokens in one file, in three files, and with
/// those tokens alone that files had before timestamps were added.
#[test]
fn forms_of_the_vocabulary() {
    let whole = Checkpoint::open(fixtures().join("folder")).unwrap();
    let folder = copied();
    let path = folder.path().join("tokenizer.json");
    let json: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    fs::remove_file(path).unwrap();
    let mut added = serde_json::Map::new();
    for token in json["added_tokens"].as_array().unwrap() {
        let text = token["content"].as_str().unwrap();
        let text = if text == "<|nospeech|>" { "<|nocaptions|>" } else { text };
        added.insert(text.to_owned(), token["id"].clone());
    }
    let merges = json["model"]["merges"].as_array().unwrap();
    let line =
        |pair: &Json| format!("{} {}\n", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
    let merges: String = merges.iter().map(line).collect();
    fs::write(folder.path().join("vocab.json"), json["model"]["vocab"].to_string()).unwrap();
    fs::write(folder.path().join("merges.txt"), format!("#version: 0.2\n{merges}")).unwrap();
    let path = folder.path().join("added_tokens.json");
    fs::write(&path, Json::Object(added.clone()).to_string()).unwrap();
    assert_equal(&whole, &Checkpoint::open(folder.path()).unwrap());

    added.retain(|_, id| id.as_u64().unwrap() < 619);
    fs::write(&path, Json::Object(added).to_string()).unwrap();
    assert_equal(&whole, &Checkpoint::open(folder.path()).unwrap());
}

/// A fine-tune may lack `generation_config.json`, its word times and the key of a default.
#[test]
fn files_that_may_be_missing() {
    let folder = copied();
    fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    let model = Checkpoint::open(folder.path()).unwrap();
    assert!(model.metadata().get("whisper.alignment_heads").is_none());

    let folder = with_json("config.json", |json| {
        json.as_object_mut().unwrap().remove("num_mel_bins");
        json["encoder_layerdrop"] = json!(0.1);
        json["architectures"] = Json::Null;
    });
    assert_equal(
        &Checkpoint::open(fixtures().join("folder")).unwrap(),
        &Checkpoint::open(folder.path()).unwrap(),
    );
}

#[test]
fn contradictions_of_a_folder() {
    let config =
        |key: &str, value: Json| rejected(&with_json("config.json", |json| json[key] = value));
    assert_eq!(config("num_mel_bins", json!(100)), "\"num_mel_bins\" is 100, expected 80 or 128");
    assert_eq!(
        config("decoder_attention_heads", json!(3)),
        "\"decoder_attention_heads\" is 3, expected a divisor of d_model 32"
    );
    assert_eq!(
        config("activation_function", json!("relu")),
        "\"activation_function\" is relu, expected gelu"
    );
    assert_eq!(
        config("scale_embedding", json!(true)),
        "\"scale_embedding\" is true, expected false, as no other value is computed"
    );
    assert_eq!(
        config("encoder_ffn_dim", json!(64)),
        "tensor \"model.encoder.layers.0.fc1.weight\" has shape [128, 32], expected [64, 32]"
    );
    let folder = with_json("config.json", |json| json["decoder_layers"] = json!(1));
    fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    assert_eq!(
        rejected(&folder),
        "tensor \"model.decoder.layers.1.encoder_attn.k_proj.weight\" is not known of \
         architecture \"whisper\""
    );
    assert_eq!(
        config("encoder_layers", json!(2)),
        "tensor \"model.encoder.layers.1.self_attn_layer_norm.weight\" is missing, expected one \
         of shape [32]"
    );
    assert_eq!(
        config("vocab_size", json!(2_119)),
        "\"vocab\" is id 2119 of token \"\\\"<|30.00|>\\\"\", expected below vocab_size 2119"
    );
    let generation = |key: &str, value: Json| {
        rejected(&with_json("generation_config.json", |json| json[key] = value))
    };
    assert_eq!(
        generation("no_timestamps_token_id", json!(50_363)),
        "\"no_timestamps_token_id\" is 50363, expected 618, the id of \"<|notimestamps|>\""
    );
    assert_eq!(
        generation("lang_to_id", json!({"<|en|>": 515})),
        "\"lang_to_id.<|en|>\" is 515, expected 514, the id of \"<|en|>\""
    );
    assert_eq!(
        generation("alignment_heads", json!([[2, 0]])),
        "\"alignment_heads\" is [2,0], expected pairs of one of 2 layers and one of 2 heads"
    );
    let folder = copied();
    fs::write(folder.path().join("preprocessor_config.json"), r#"{"hop_length": 320}"#).unwrap();
    assert_eq!(rejected(&folder), "\"hop_length\" is 320, expected 160");
    let folder = with_json("tokenizer.json", |json| {
        let added = json["added_tokens"].as_array_mut().unwrap();
        added.iter_mut().find(|token| token["content"] == "<|0.02|>").unwrap()["content"] =
            json!("<|0.03|>");
    });
    assert_eq!(
        rejected(&folder),
        "the vocabulary has token \"<|0.03|>\" with the id 620 of \"<|0.02|>\", expected Whisper's"
    );
    let folder =
        with_json("tokenizer.json", |json| json["pre_tokenizer"]["use_regex"] = json!(false));
    assert!(rejected(&folder).starts_with("\"pre_tokenizer\" is "));
    let folder = copied();
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert!(rejected(&folder).starts_with("the vocabulary has no file: "));
}

/// The name of a tensor in transformers: the table of its own script for OpenAI's files.
fn transformers_name(name: &str) -> String {
    let mut name = name.replace("positional_embedding", "embed_positions.weight");
    for (openai, theirs) in [
        ("blocks", "layers"),
        ("mlp.0", "fc1"),
        ("mlp.2", "fc2"),
        ("mlp_ln", "final_layer_norm"),
        ("cross_attn.query", "encoder_attn.q_proj"),
        ("cross_attn.key", "encoder_attn.k_proj"),
        ("cross_attn.value", "encoder_attn.v_proj"),
        ("cross_attn.out", "encoder_attn.out_proj"),
        ("cross_attn_ln", "encoder_attn_layer_norm"),
        (".attn.query", ".self_attn.q_proj"),
        (".attn.key", ".self_attn.k_proj"),
        (".attn.value", ".self_attn.v_proj"),
        (".attn.out", ".self_attn.out_proj"),
        (".attn_ln", ".self_attn_layer_norm"),
        ("ln_post", "layer_norm"),
        ("decoder.ln", "decoder.layer_norm"),
        ("token_embedding", "embed_tokens"),
    ] {
        name = name.replace(openai, theirs);
    }
    format!("model.{name}")
}

fn view(tensor: &BinTensor) -> TensorView<'_> {
    let mut shape: Vec<usize> = tensor.dims.iter().map(|dim| *dim as usize).collect();
    shape.retain(|dim| *dim != 1);
    shape.reverse();
    let dtype = if tensor.type_id == 0 { Dtype::F32 } else { Dtype::F16 };
    TensorView::new(dtype, shape, &tensor.data).unwrap()
}

/// A directory of the weights and the vocabulary of a ggml file, in several shards.
fn folder_of(file: &RawBin, model: &Checkpoint) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [vocab, audio, width, heads, layers, text, ..] = file.fields;
    let config = json!({
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper",
        "vocab_size": vocab, "num_mel_bins": 80, "d_model": width, "encoder_layers": layers,
        "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * width,
        "decoder_ffn_dim": 4 * width, "max_source_positions": audio,
        "max_target_positions": text,
    });
    fs::write(at("config.json"), config.to_string()).unwrap();
    let mut places = BTreeMap::new();
    for (number, part) in file.tensors.chunks(20).enumerate() {
        let shard = format!("model-{number}.safetensors");
        let all: Vec<_> = part.iter().map(|t| (transformers_name(&t.name), view(t))).collect();
        places.extend(all.iter().map(|(name, _)| (name.clone(), shard.clone())));
        fs::write(at(&shard), safetensors::serialize(all, None).unwrap()).unwrap();
    }
    let index = json!({"metadata": {}, "weight_map": places});
    fs::write(at("model.safetensors.index.json"), index.to_string()).unwrap();
    // The files of a fine-tune have the end of a text in vocab.json, and no other special token.
    let tokens = strings(model, "tokenizer.ggml.tokens");
    let ids: serde_json::Map<_, _> =
        tokens.iter().take(50_258).zip(0..).map(|(text, id)| (text.clone(), json!(id))).collect();
    fs::write(at("vocab.json"), Json::Object(ids).to_string()).unwrap();
    fs::write(at("merges.txt"), strings(model, "tokenizer.ggml.merges").join("\n")).unwrap();
    folder
}

/// A ggml file, a directory and the GGUF files of both are one checkpoint.
#[test]
fn all_files_of_a_model_are_equal() {
    let file = RawBin::of_vocab(51_865);
    let bin = Checkpoint::from_bytes("a.bin", file.bytes()).unwrap();
    let folder = folder_of(&file, &bin);
    let directory = Checkpoint::open(folder.path()).unwrap();
    assert_equal(&bin, &directory);
    for model in [&bin, &directory] {
        assert_equal(&bin, &written(model, &Conversion::convert(model, None).unwrap()));
    }
}

/// Types in a quantized file: matrices are blocks, with smaller ones or floats where they do not
/// fit.
#[test]
fn quantized_files() {
    let model = Checkpoint::open(fixtures().join("folder")).unwrap();
    let types = |to| {
        let file = written(&model, &Conversion::quantize(&model, to, None).unwrap());
        move |name: &str| file.tensor(name).unwrap().dtype
    };
    for (to, matrix, embedding) in [
        (Quantize::Q8_0, DType::Q8_0, DType::Q8_0),
        (Quantize::Q4_0, DType::Q4_0, DType::Q8_0),
        // Blocks of 256 do not divide rows of 32.
        (Quantize::Q4_K_M, DType::Q5_0, DType::Q8_0),
        (Quantize::F32, DType::F32, DType::F32),
    ] {
        let of = types(to);
        assert_eq!(of("decoder.blocks.1.cross_attn.key.weight"), matrix);
        assert_eq!(of("encoder.blocks.0.mlp.2.weight").block_len() > 1, to != Quantize::F32);
        assert_eq!(of("decoder.token_embedding.weight"), embedding);
        assert_eq!(of("encoder.conv1.weight"), DType::F16);
        assert_eq!(of("encoder.conv2.weight"), DType::F16);
        for name in
            ["encoder.positional_embedding", "decoder.positional_embedding", "decoder.ln.bias"]
        {
            assert_eq!(of(name), DType::F32, "{name}");
        }
    }
    let mut conversion = Conversion::convert(&model, Some(DType::BF16)).unwrap();
    assert!(conversion.set_type("encoder.conv1.weight", DType::F32).is_err());
    let of = |tensor: Tensor<'_>| tensor.name == "encoder.conv1.weight";
    let (_, dtype) = conversion.tensors().find(|(tensor, _)| of(*tensor)).unwrap();
    assert_eq!(dtype, DType::F16);
}

/// A GGUF file may lack the encoder's positions: they are transformers' sinusoids, which its model
/// has in F16.
#[test]
fn positions_of_an_own_file() {
    let model = Checkpoint::open(fixtures().join("folder")).unwrap();
    let stored = model.tensor("encoder.positional_embedding").unwrap();
    let mut writer = pelton_weights::GgufWriter::new();
    for (key, value) in model.metadata().iter().filter(|(key, _)| key.starts_with("whisper.")) {
        writer.set(key, value.clone()).unwrap();
    }
    writer.set("general.architecture", "whisper").unwrap();
    let bytes = writer.begin(Vec::new()).unwrap().finish().unwrap();
    let made = Checkpoint::from_bytes("own.gguf", bytes).unwrap();
    let made = made.tensor("encoder.positional_embedding").unwrap();
    assert_eq!((made.shape, made.dtype), (stored.shape, DType::F32));
    for (made, stored) in made.decode().into_iter().zip(stored.decode()) {
        assert!((made - stored).abs() <= 2.5e-4, "{made} and {stored}");
    }
}
