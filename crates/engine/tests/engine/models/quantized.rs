//! A directory that is quantized while it is loaded, compared with llama.cpp's mixtures.
//!
//! `logits-*.npy` are the logits of `transformers` with weights that ggml's own encoders rounded
//! (`tests/fixtures/quantize_llama_cpp.cpp`).

use std::{fs, path::PathBuf, sync::mpsc};

use pelton::{Checkpoint, Engine, KvType, LoadOptions, weights::Quantize};
use pelton_cpu::Cpu;

use super::{Loaded, cpu, floats, folder, integers};

const MODEL: &str = "llama-wide";

/// The root of the mean squared difference.
fn error(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b) * f64::from(a - b));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

fn mixtures() -> Vec<(Quantize, Vec<f32>)> {
    let mixture = |name: &str| {
        let path = folder().join(MODEL).join(format!("logits-{name}.npy"));
        (Quantize::from_name(name).unwrap(), floats(&path))
    };
    ["q8_0", "q4_0", "q4_k_m"].map(mixture).into()
}

#[test]
fn mixtures_of_llama_cpp() {
    let path = folder().join(MODEL);
    let (ids, exact) = (integers(path.join("ids.npy")), floats(path.join("logits.npy")));
    for (to, theirs) in mixtures() {
        let checkpoint = Checkpoint::open(&path).unwrap().quantized(to, |_, _| {}).unwrap();
        let checkpoint = checkpoint.into();
        let of_theirs = error(&theirs, &exact);
        for subject in cpu() {
            let mut loaded = Loaded::new(&checkpoint, subject.backend.as_ref(), ids.len());
            let ours = loaded.prompt(&ids);
            let (of_ours, apart) = (error(&ours, &exact), error(&ours, &theirs));
            let what = format!("{to:?}, {}: {of_ours}, llama.cpp {of_theirs}", subject.name);
            println!("{what}, apart {apart}");
            if subject.rounds {
                // activations of 8 bits have an error of their own
                assert!(of_ours < 1.5 * of_theirs + 0.02, "{what}");
                continue;
            }
            assert!(of_ours < 1.1 * of_theirs, "{what}");
            // the encoders of Q8_0 and Q4_0 are llama.cpp's bit for bit, those of K-quants are not
            match to {
                Quantize::Q8_0 => assert!(apart < 1e-3, "{what}, apart {apart}"),
                Quantize::Q4_0 => assert!(apart < 0.3 * of_theirs, "{what}, apart {apart}"),
                _ => assert!(apart < 1.2 * of_theirs, "{what}, apart {apart}"),
            }
        }
    }
}

/// The option of a load has the same effect, and its progress is told.
#[test]
fn the_option_of_a_load() {
    let path = folder().join(MODEL);
    let (ids, exact) = (integers(path.join("ids.npy")), floats(path.join("logits.npy")));
    let (context, row) = (ids.len(), exact.len() / ids.len());
    for (to, theirs) in mixtures() {
        let options = LoadOptions::default().context(context).kv(KvType::F32).quantize(to);
        let (sender, steps) = mpsc::channel();
        let options = options.progress(move |progress| {
            sender.send((progress.done, progress.total)).unwrap();
        });
        let model = Engine::with_backend(Cpu::new(2)).load(&path, &options).unwrap();
        drop(options);
        let steps: Vec<_> = steps.into_iter().collect();
        // each tensor while it is converted, then bytes while they are loaded
        assert!(steps.len() > 20, "{steps:?}");
        assert!(steps.iter().all(|(done, all)| done <= all), "{steps:?}");
        let logits = model.into_session().unwrap().run(&ids).unwrap().to_vec();
        let last = exact.len() - row;
        let (of_ours, of_theirs) =
            (error(&logits, &exact[last..]), error(&theirs[last..], &exact[last..]));
        assert!(of_ours > 0.0, "{to:?} has changed nothing");
        assert!(of_ours < 2.0 * of_theirs + 0.02, "{to:?}: {of_ours}, llama.cpp {of_theirs}");
    }
}

/// A value that no block can represent is refused by the name of its tensor.
#[test]
fn values_that_blocks_lack() {
    const TENSOR: &str = "model.layers.0.mlp.up_proj.weight";
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("values-that-blocks-lack");
    fs::create_dir_all(&target).unwrap();
    let from = folder().join(MODEL);
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(from.join(name), target.join(name)).unwrap();
    }
    let path = target.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let at = header + json[TENSOR]["data_offsets"][0].as_u64().unwrap() as usize;
    for value in [0x7E00u16, 0x7C00, 0xFC00] {
        bytes[at + 40..at + 42].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let engine = Engine::with_backend(Cpu::new(1));
        for (to, _) in mixtures() {
            let options = LoadOptions::default().quantize(to);
            let error = engine.load(&target, &options).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("blk.0.ffn_up.weight"), "{value:x}, {to:?}: {error}");
        }
    }
}
