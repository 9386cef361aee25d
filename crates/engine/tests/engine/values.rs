//! Embeddings and scores of tiny encoders and rerankers, compared with those of transformers.
//!
//! `tests/fixtures/models/README.md` describes the files.

use std::path::PathBuf;

use pelton::{
    EmbedOptions, Embedding, Engine, Error, KvType, LoadOptions, Model, Pooling, Prompt,
    RerankOptions,
};
use pelton_cpu::Cpu;
use pelton_testing::npy;

use crate::request::{Request, Run};

/// Differences of rounding: sums in f32 in another order.
const TOLERANCE: f32 = 5e-4;

/// The encoders, and the row of `pooled.npy` that their own pooling is.
const ENCODERS: [(&str, Pooling); 6] = [
    ("bert", Pooling::Mean),
    ("xlm-roberta", Pooling::Cls),
    ("nomic-bert", Pooling::Mean),
    ("modernbert", Pooling::Cls),
    ("qwen3-embedding", Pooling::Last),
    ("embedding-gemma", Pooling::Mean),
];

const RERANKERS: [&str; 5] = [
    "bert-reranker",
    "xlm-roberta-reranker",
    "modernbert-reranker",
    "modernbert-reranker-cls",
    "qwen3-reranker",
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

fn texts(name: &str) -> Vec<Prompt> {
    let ints = |file| npy::integers(folder(name).join(file));
    let ids = ints("ids.npy");
    let mut rest = ids.as_slice();
    let mut next = |len: u32| {
        let (text, after) = rest.split_at(len as usize);
        rest = after;
        Prompt::Tokens(text.to_vec())
    };
    ints("lengths.npy").into_iter().map(&mut next).collect()
}

fn load(name: &str, change: impl FnOnce(LoadOptions) -> LoadOptions) -> Model {
    load_path(folder(name).join("model.gguf"), change)
}

fn load_path(path: PathBuf, change: impl FnOnce(LoadOptions) -> LoadOptions) -> Model {
    let options = change(LoadOptions::default().kv(KvType::F32));
    Engine::with_backend(Cpu::new(2)).load(path, &options).unwrap()
}

fn raw() -> EmbedOptions {
    EmbedOptions::default().normalize(false)
}

fn check(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let worst = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < TOLERANCE, "{what}: {worst}");
}

fn values(embeddings: &[Embedding]) -> Vec<f32> {
    embeddings.iter().flat_map(|embedding| &embedding.values).copied().collect()
}

#[test]
fn embeddings_equal_those_of_transformers() {
    for (name, pooling) in ENCODERS {
        for path in [folder(name).join("model.gguf"), folder(name)] {
            let model = load_path(path, |options| options);
            assert_eq!(model.pooling().unwrap(), pooling, "{name}");
            let got = model.embed(&texts(name), &EmbedOptions::default()).unwrap();
            check(name, &values(&got), &npy::floats(folder(name).join("embedding.npy")));
            assert_eq!(got.iter().map(|e| e.tokens).collect::<Vec<_>>(), [88, 17, 5]);
        }
    }
}

/// One at a time, many at once, and in reverse: not a bit differs.
#[test]
fn batches_change_nothing() {
    for (name, _) in ENCODERS {
        let mut texts = texts(name);
        let together = load(name, |options| options.rows(512)).embed(&texts, &raw()).unwrap();
        let one = load(name, |options| options.max_concurrent(1));
        for (text, expected) in texts.iter().zip(&together) {
            let alone = one.embed(std::slice::from_ref(text), &raw()).unwrap();
            assert_eq!(alone[0], *expected, "{name}");
        }
        texts.reverse();
        let mut reversed = one.embed(&texts, &raw()).unwrap();
        reversed.reverse();
        assert_eq!(reversed, together, "{name}");
    }
}

/// The poolings that are not the file's: all but those followed by dense layers.
#[test]
fn every_pooling() {
    for (name, _) in ENCODERS.into_iter().filter(|(name, _)| *name != "embedding-gemma") {
        let (shape, pooled) = npy::shaped_floats(folder(name).join("pooled.npy"));
        let one = shape[1] * shape[2];
        for (i, pooling) in [Pooling::Mean, Pooling::Cls, Pooling::Last].into_iter().enumerate() {
            let model = load(name, |options| options.pooling(pooling));
            let got = model.embed(&texts(name), &raw()).unwrap();
            check(&format!("{name} {pooling}"), &values(&got), &pooled[i * one..(i + 1) * one]);
        }
        let model = load(name, |options| options.pooling(Pooling::None));
        let got = model.embed(&texts(name), &raw()).unwrap();
        check(
            &format!("{name} none"),
            &values(&got),
            &npy::floats(folder(name).join("hidden.npy")),
        );
    }
}

#[test]
fn scores_equal_those_of_transformers() {
    for (name, path) in RERANKERS
        .into_iter()
        .flat_map(|name| [(name, folder(name).join("model.gguf")), (name, folder(name))])
    {
        // llama.cpp's converter leaves the pooler of BERT out
        if name == "bert-reranker" && path.ends_with("model.gguf") {
            continue;
        }
        let model = load_path(path, |options| options);
        let (shape, expected) = npy::shaped_floats(folder(name).join("scores.npy"));
        let raw = RerankOptions::default().raw(shape[1] == 1);
        let got: Vec<f32> =
            model.score(&texts(name), &raw).unwrap().iter().map(|score| score.score).collect();
        // the first of two labels is yes
        let expected: Vec<f32> = expected.into_iter().step_by(shape[1]).collect();
        check(name, &got, &expected);
    }
}

/// The document of a BERT reranker has the token type 1: the tokens of its text give the score that
/// transformers computes with these types.
#[test]
fn the_document_of_a_pair_has_a_type_of_its_own() {
    // the second text of the fixture: ids, and types from a third of them on
    let model = load_path(folder("bert-reranker"), |options| options);
    let expected = npy::floats(folder("bert-reranker").join("pair.npy"));
    let (query, documents) = ("abc", ["cab bac", "b"]);
    let raw = RerankOptions::default().raw(true);
    let got = model.rerank(query, &documents, &raw).unwrap();
    check("pairs", &got.iter().map(|score| score.score).collect::<Vec<_>>(), &expected);
}

#[test]
fn a_language_model_embeds_by_its_last_token() {
    let path = folder("qwen3").join("model.gguf");
    let load = |options: LoadOptions| Engine::with_backend(Cpu::new(2)).load(&path, &options);
    let model = load(LoadOptions::default()).unwrap();
    let text = [Prompt::Tokens(vec![5, 6, 7])];
    assert!(matches!(model.embed(&text, &raw()), Err(Error::Output { .. })));
    let model = load(LoadOptions::default().pooling(Pooling::Last)).unwrap();
    let embedding = model.embed(&text, &EmbedOptions::default()).unwrap().remove(0);
    assert_eq!(embedding.dimensions, model.plan().shape.hidden);
    assert!(model.run(Request::from_tokens(vec![5])).is_err());
}

#[test]
fn a_text_longer_than_the_context_is_refused() {
    let model = load("bert", |options| options.context(40));
    let error = model.embed(&texts("bert"), &raw()).unwrap_err();
    assert!(matches!(error, Error::TextTooLong { text: 0, tokens: 88, limit: 40, .. }), "{error}");
}
