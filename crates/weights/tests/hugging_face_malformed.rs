//! Each kind of invalid Hugging Face directory is rejected with a message of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/folders.rs"]
mod folders;

use std::fs;
use std::path::Path;

use folders::{Folder, packed};
use pelton_weights::{Checkpoint, Source};
use serde_json::{Value as Json, json};

#[track_caller]
fn assert_rejected(folder: &Path, file: &str, expected: &str) {
    let error = Checkpoint::open(folder).map(|_| ()).unwrap_err();
    let place = folder.join(file);
    assert_eq!(Path::new(error.file()), place, "{error}");
    assert!(error.problem().to_string().contains(expected), "{error}");
}

/// Asserts the file and a part of the message.
#[track_caller]
fn assert_folder_rejected(folder: &Folder, file: &str, expected: &str) {
    assert_rejected(folder.written().path(), file, expected);
}

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const UP: &str = "model.layers.0.mlp.up_proj.weight";

#[test]
fn a_valid_directory_opens() {
    let folder = Folder::valid().written();
    let model = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(model.source(), Source::HuggingFace);
    assert_eq!(model.file_bytes(), Folder::valid().safetensors().len() as u64);
    assert_eq!(model.tensors().len(), 12);
    let up = model.require("blk.0.ffn_up.weight", &[8, 6]).unwrap();
    let start: usize = (32 + 32 + 8 + 8 + 8 + 64 + 32 + 32 + 64 + 48) * 4;
    assert_eq!(up.bytes, &Folder::valid().data[start..start + 192]);
    assert_eq!(model.metadata().u32("llama.attention.head_count_kv").unwrap(), 1);
}

mod headers {
    use super::*;

    #[test]
    fn lengths() {
        for length in [u64::MAX, 1 << 40, 100_000_001, 5000] {
            let folder = Folder { header_len: Some(length), ..Folder::valid() };
            assert_folder_rejected(&folder, WEIGHTS, "bytes, expected at most");
        }
        let folder = Folder::valid().written();
        for length in [0, 7] {
            fs::write(folder.path().join(WEIGHTS), vec![0; length]).unwrap();
            assert_rejected(folder.path(), WEIGHTS, "is cut off");
        }
    }

    #[test]
    fn text() {
        let with = |header: &str| Folder { header: header.to_owned(), ..Folder::valid() };
        for header in ["", "[]", "{", "{\"a\": 1}", "null", "{\"a\": {\"dtype\": \"F32\"}}"] {
            assert_folder_rejected(&with(header), WEIGHTS, "the safetensors header is invalid");
        }
        let entry = r#""a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}"#;
        let twice = with(&format!("{{{entry}, {entry}}}"));
        assert_folder_rejected(&twice, WEIGHTS, "\"a\" occurs twice");
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert_folder_rejected(&with(&deep), WEIGHTS, "is invalid");
        let deep = format!("{{\"__metadata__\": {}", "{\"a\":".repeat(100_000));
        assert_folder_rejected(&with(&deep), WEIGHTS, "is invalid");
        let long = vec!["1"; 100_000].join(",");
        let long = format!("{{\"a\": {{\"dtype\": \"F32\", \"shape\": [{long}]}}}}");
        assert_folder_rejected(&with(&long), WEIGHTS, "more than 8 dimensions");
    }

    #[test]
    fn offsets() {
        let with =
            |offsets: Json| Folder::with_header(|header| header[UP]["data_offsets"] = offsets);
        let end = Folder::valid().data.len();
        let cases = [
            (json!([8, 0]), "has the bytes 8 to 0, expected 192 bytes"),
            (json!([0, 191]), "has the bytes 0 to 191, expected 192"),
            (json!([end, end + 192]), "the file is incomplete: "),
            (json!([u64::MAX - 192, u64::MAX]), "the file is incomplete: "),
            (json!([0, 192]), "overlap, expected disjoint byte ranges"),
            (json!([-1, 191]), "is invalid"),
            (json!([0.5, 192]), "is invalid"),
            (json!([0, 192, 3]), "is invalid"),
        ];
        for (offsets, expected) in cases {
            assert_folder_rejected(&with(offsets), WEIGHTS, expected);
        }
        let mut cut = Folder::valid();
        cut.data.pop();
        assert_folder_rejected(&cut, WEIGHTS, "the file is incomplete: ");
    }

    #[test]
    fn shapes_and_types() {
        let with =
            |key: &str, value: Json| Folder::with_header(|header| header[UP][key] = value.clone());
        let overflow = json!([u64::MAX, u64::MAX]);
        assert_folder_rejected(&with("shape", overflow), WEIGHTS, "which memory cannot address");
        assert_folder_rejected(&with("shape", json!([6, 7])), WEIGHTS, "expected 168 bytes");
        assert_folder_rejected(&with("dtype", json!("F99")), WEIGHTS, "has type \"F99\"");
        assert_folder_rejected(&with("dtype", json!("F64")), WEIGHTS, "expected 384 bytes");
        assert_folder_rejected(&with("dtype", json!("I32")), "", "has type I32, expected F32");
        let empty = Folder::with_header(|header| {
            header[UP]["shape"] = json!([0, 8]);
            header[UP]["data_offsets"] = json!([0, 0]);
        });
        assert_folder_rejected(&empty, "", "expected at least one element");
        let five = Folder::with_header(|header| header[UP]["shape"] = json!([1, 1, 1, 6, 8]));
        assert_folder_rejected(&five, "", "expected 1 to 4 dimensions");
        let scalar = Folder::with_header(|header| {
            header["model.norm.bias"] =
                json!({"dtype": "F32", "shape": [], "data_offsets": [90_000, 90_004]});
        });
        assert_folder_rejected(&scalar, WEIGHTS, "the file is incomplete: ");
    }
}

mod names {
    use super::*;

    fn renamed(from: &str, to: &str) -> Folder {
        Folder::with_header(|header| {
            let tensor = header[from].take();
            header.as_object_mut().unwrap().remove(from);
            header[to] = tensor;
        })
    }

    #[test]
    fn unknown_tensors() {
        for name in [
            "model.layers.0.mlp.odd_proj.weight",
            "model.layers.00.mlp.up_proj.weight",
            "model.layers.-1.mlp.up_proj.weight",
            "model.layers.99999999999999999999.mlp.up_proj.weight",
            "model.layers.0.mlp.up_proj",
            "model.layers.0.mlp.up_proj.scale",
            "odd",
            "",
        ] {
            let message = format!("tensor {name:?} is not known of architecture \"llama\"");
            assert_folder_rejected(&renamed(UP, name), "", &message);
        }
    }

    #[test]
    fn ends() {
        let embedding = "model.embed_tokens.weight";
        let folder = renamed(embedding, "vision_tower.weight");
        assert_folder_rejected(&folder, "", "\"token_embd.weight\" is missing");
        let folder = renamed("lm_head.weight", "visual.weight");
        assert_folder_rejected(&folder, "", "\"output.weight\" is missing");
    }

    /// Parts of a model that are not used, by name.
    #[test]
    fn unused_tensors_are_skipped() {
        for name in [
            "model.layers.0.self_attn.rotary_emb.inv_freq",
            "model.layers.1.mlp.up_proj.weight",
            "mtp.fc.weight",
            "model.visual.blocks.0.weight",
        ] {
            let folder = renamed(UP, name).written();
            assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors().len(), 11);
        }
    }

    #[test]
    fn two_tensors_of_one_name() {
        let folder = renamed(UP, "language_model.model.embed_tokens.weight");
        assert_folder_rejected(&folder, "", "\"token_embd.weight\" occurs twice");
    }
}

mod configs {
    use super::*;

    #[test]
    fn values() {
        let cases: [(&str, Json, &str); 16] = [
            ("hidden_size", json!(0), "\"hidden_size\" is 0, expected an integer from 1"),
            ("hidden_size", json!(1e300), "expected an integer from 0 to 2^31 - 1"),
            ("hidden_size", json!("8"), "expected an integer"),
            ("num_hidden_layers", json!(1_000_000_000), "expected at most 10000"),
            ("num_attention_heads", json!(0), "expected an integer from 1"),
            ("num_attention_heads", json!(3), "a divisor of hidden_size 8"),
            ("head_dim", json!(0), "\"head_dim\" is 0"),
            ("rms_norm_eps", json!("tiny"), "expected a number"),
            ("rms_norm_eps", json!(1e300), "expected a number in the range of f32"),
            ("rope_theta", json!(-1.0), "\"rope_theta\" is -1, expected a number above 0"),
            ("rope_scaling", json!({"type": "linear"}), "\"factor\" is missing"),
            ("rope_scaling", json!({"type": "linear", "factor": 0}), "\"factor\" is 0"),
            ("rope_scaling", json!([1]), "\"rope_scaling\" is [1], expected an object"),
            ("architectures", json!(["Odd"]), "architecture \"Odd\" is not supported"),
            ("architectures", json!([1]), "expected a list of strings"),
            ("tie_word_embeddings", json!(1), "expected true or false"),
        ];
        for (key, value, expected) in cases {
            let folder = Folder::with_config(|config| config[key] = value.clone());
            assert_folder_rejected(&folder, "config.json", expected);
        }
        // families whose configurations have no key of the common sizes
        for (class, config) in [
            ("T5ForConditionalGeneration", json!({"d_model": 512, "num_heads": 8})),
            ("MambaForCausalLM", json!({"n_layer": 2, "d_model": 768})),
            (
                "MoonshineForConditionalGeneration",
                json!({"hidden_size": 288, "encoder_num_hidden_layers": 6}),
            ),
        ] {
            let folder = Folder::with_config(|all| {
                *all = config;
                all["architectures"] = json!([class]);
            });
            let expected = format!("architecture \"{class}\" is not supported");
            assert_folder_rejected(&folder, "config.json", &expected);
        }
        let folder = Folder::with_config(|config| config["vocab_size"] = Json::Null);
        assert_folder_rejected(&folder, "config.json", "\"vocab_size\" is missing");
    }

    #[test]
    fn lists() {
        let scaling = |long: Json| {
            Folder::with_config(|config| {
                config["rope_scaling"] =
                    json!({"type": "longrope", "long_factor": long, "short_factor": [1, 1]});
            })
        };
        let file = "config.json";
        assert_folder_rejected(&scaling(json!([1])), file, "is a list of 1, expected 2 numbers");
        assert_folder_rejected(&scaling(json!([1, -1])), file, "a list of numbers above 0");
        assert_folder_rejected(&scaling(json!(vec![1; 70_000])), file, "at most 65536 numbers");
        let folder = Folder::with_config(|config| {
            config["sliding_window"] = json!(4);
            config["layer_types"] = json!([]);
        });
        assert_folder_rejected(&folder, file, "expected 1, the number of layers");
    }

    #[test]
    fn text() {
        let folder = Folder::valid().written();
        let path = folder.path().join("config.json");
        for text in ["", "[]", "{\"a\": 1,}", &"[".repeat(1 << 20)] {
            fs::write(&path, text).unwrap();
            assert_rejected(folder.path(), "config.json", "not the expected JSON");
        }
        let file = fs::File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_rejected(folder.path(), "config.json", "the file has 1099511627776 bytes");
        fs::remove_file(&path).unwrap();
        assert_rejected(folder.path(), "config.json", "cannot be read");
        fs::create_dir(&path).unwrap();
        assert_rejected(folder.path(), "config.json", "not a regular file");
    }
}

mod indexes {
    use super::*;

    /// A directory with the embedding in one file and the rest in another, and this index.
    fn sharded(change: impl FnOnce(&mut Json)) -> tempfile::TempDir {
        let folder = Folder::valid().written();
        fs::remove_file(folder.path().join(WEIGHTS)).unwrap();
        let header: Json = serde_json::from_str(&Folder::valid().header).unwrap();
        let mut map = json!({});
        for file in ["a.safetensors", "b.safetensors"] {
            let tensors: Vec<_> = header
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| !name.starts_with("__"))
                .filter(|(name, _)| name.contains("embed") == (file == "a.safetensors"))
                .map(|(name, about)| {
                    map[name] = file.into();
                    (name.clone(), serde_json::from_value(about["shape"].clone()).unwrap())
                })
                .collect();
            let (header, data) = packed(&tensors);
            let part = Folder { header: header.to_string(), data, ..Folder::valid() };
            fs::write(folder.path().join(file), part.safetensors()).unwrap();
        }
        let mut index = json!({"metadata": {}, "weight_map": map});
        change(&mut index);
        fs::write(folder.path().join(INDEX), index.to_string()).unwrap();
        folder
    }

    #[test]
    fn a_valid_index_opens() {
        let folder = sharded(|_| {});
        assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors().len(), 12);
    }

    #[test]
    fn entries() {
        let map =
            |tensor: &str, file: Json| sharded(|index| index["weight_map"][tensor] = file.clone());
        for file in ["../a.safetensors", "/etc/passwd", "b/a.safetensors", "..", "", "c:\\a"] {
            let folder = map(UP, file.into());
            assert_rejected(folder.path(), INDEX, "expected a file name");
        }
        let folder = map(UP, "a.safetensors".into());
        assert_rejected(folder.path(), INDEX, "is not in \"a.safetensors\"");
        let folder = map("odd", "b.safetensors".into());
        assert_rejected(folder.path(), INDEX, "tensor \"odd\" is not in \"b.safetensors\"");
        let folder = map(UP, "c.safetensors".into());
        assert_rejected(folder.path(), "", "1 of 3 shards is missing: download c.safetensors");
        // The index names itself.
        assert_rejected(map(UP, INDEX.into()).path(), INDEX, "the safetensors header");
        assert_rejected(map(UP, json!(7)).path(), INDEX, "not the expected JSON");
        let folder = sharded(|index| index["weight_map"] = json!({}));
        assert_rejected(folder.path(), INDEX, "it names 0 files");
        let folder = sharded(|index| *index = json!({}));
        assert_rejected(folder.path(), INDEX, "missing field `weight_map`");
        let folder = sharded(|_| {});
        let text = "{\"weight_map\": {\"a\": \"a.safetensors\", \"a\": \"a.safetensors\"}}";
        fs::write(folder.path().join(INDEX), text).unwrap();
        assert_rejected(folder.path(), INDEX, "tensor \"a\" occurs twice");
    }

    #[test]
    fn shards() {
        let folder = sharded(|_| {});
        let copy = folder.path().join("b.safetensors");
        fs::copy(folder.path().join("a.safetensors"), &copy).unwrap();
        assert_rejected(folder.path(), "b.safetensors", "occurs twice, expected once");
        let bytes = fs::read(&copy).unwrap();
        fs::write(folder.path().join("a.safetensors"), &bytes[..bytes.len() - 4]).unwrap();
        assert_rejected(folder.path(), "a.safetensors", "the file is incomplete: ");
        fs::remove_file(folder.path().join(INDEX)).unwrap();
        assert_rejected(folder.path(), "", "has no model.safetensors and no");
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle() {
        let folder = sharded(|_| {});
        let path = folder.path().join("a.safetensors");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("a.safetensors", &path).unwrap();
        assert_rejected(folder.path(), "a.safetensors", "cannot be read");
    }
}

mod tokenizers {
    use super::*;

    fn with(change: impl FnOnce(&mut Json)) -> Folder {
        let mut tokenizer = json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
            "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
            "decoder": {"type": "ByteLevel"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        });
        change(&mut tokenizer);
        Folder::with_file("tokenizer.json", tokenizer)
    }

    #[test]
    fn a_valid_tokenizer_opens() {
        let folder = with(|_| {}).written();
        let model = Checkpoint::open(folder.path()).unwrap();
        assert_eq!(model.metadata().string("tokenizer.ggml.pre").unwrap(), "gpt-2");
    }

    #[test]
    fn faults() {
        let file = "tokenizer.json";
        let cases: [(&str, Json, &str); 6] = [
            ("/model/vocab/ab", json!(4), "below vocab_size 4"),
            ("/model/vocab/ab", json!(-1), "not the expected JSON"),
            ("/model/vocab", json!(3), "not the expected JSON"),
            ("/model/merges", json!(["ab"]), "merge \"ab\" is not a pair"),
            ("/model/merges", json!([["a", "b", "c"]]), "a merge is not a pair"),
            ("/added_tokens/0/id", json!("x"), "not the expected JSON"),
        ];
        for (place, value, expected) in cases {
            let folder = with(|json| *json.pointer_mut(place).unwrap() = value.clone());
            assert_folder_rejected(&folder, file, expected);
        }
        let many = Folder { ..with(|_| {}) };
        let mut many = many;
        many.config["vocab_size"] = json!(2_000_000_000);
        assert_folder_rejected(&many, "config.json", "expected at most 4194304");
    }

    /// The tokenizer's own error is for the tokenizer: a model runs without one.
    #[test]
    fn an_unknown_pre_tokenizer_is_named() {
        let folder = with(|json| json["pre_tokenizer"] = json!({"type": "Odd"})).written();
        let model = Checkpoint::open(folder.path()).unwrap();
        let pre = model.metadata().string("tokenizer.ggml.pre").unwrap();
        assert_eq!(pre, "unknown pre-tokenizer of tokenizer.json: Odd");
    }

    #[test]
    fn modules_of_sentence_transformers() {
        let modules = json!([{"type": "x.Pooling", "path": "../.."}]);
        let folder = Folder::with_file("modules.json", modules);
        assert_folder_rejected(&folder, "modules.json", "expected the name of a folder");
    }
}
