//! Models in the folders of this machine.

use std::{fs, path::Path};

use pelton_hub::{Error, Hub, Model, Place, projector_of_blob};

use crate::{
    noise, pull, reference,
    server::{Server, sha256},
    settings,
};

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A manifest as Ollama writes it: version 2, schema 2 of Docker's image manifest.
fn manifest(weights: &[u8]) -> Vec<u8> {
    let layer = |kind: &str, bytes: &[u8]| {
        serde_json::json!({
            "mediaType": format!("application/vnd.ollama.image.{kind}"),
            "digest": format!("sha256:{}", sha256(bytes)),
            "size": bytes.len(),
        })
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": { "mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:0", "size": 1 },
        "layers": [layer("model", weights), layer("template", b"{{ .Prompt }}")],
    });
    manifest.to_string().into_bytes()
}

/// A home folder with models of LM Studio and Ollama.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    write(&at(".lmstudio/models/lm/studio-GGUF/studio-Q4_K_M.gguf"), b"lm");
    write(&at(".lmstudio/models/lm/studio-GGUF/studio-Q8_0.gguf"), b"lm studio");
    write(&at(".lmstudio/models/lm/part-GGUF/part-Q8_0-00001-of-00002.gguf"), b"half");
    for (name, bytes) in [
        ("registry.ollama.ai/library/qwen3/0.6b", &b"a qwen"[..]),
        ("registry.ollama.ai/library/mine/latest", b"mine"),
        ("hf.co/ow/ner-GGUF/Q4_K_M", b"of the hub"),
    ] {
        write(&at(".ollama/models/manifests").join(name), &manifest(bytes));
        let blob = format!(".ollama/models/blobs/sha256-{}", sha256(bytes));
        write(&at(&blob), bytes);
    }
    write(&at(".ollama/models/manifests/registry.ollama.ai/library/gone/1b"), &manifest(b"gone"));
    let hostile = br#"{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../x"}]}"#;
    write(&at(".ollama/models/manifests/registry.ollama.ai/library/evil/1b"), hostile);
    home
}

#[test]
fn models_of_other_programs_are_found_and_left() {
    let home = home();
    let hub = Hub::new(settings(home.path(), "http://127.0.0.1:1")).unwrap();
    let models = hub.list();
    let names: Vec<&str> = models.iter().map(|model| &*model.name).collect();
    let expected = [
        "lm/studio-GGUF:Q4_K_M",
        "lm/studio-GGUF:Q8_0",
        "mine",
        "ow/ner-GGUF:Q4_K_M",
        "qwen3:0.6b",
    ];
    assert_eq!(names, expected);
    for model in &models {
        let found = hub.find(&reference(&model.name), None).unwrap();
        assert_eq!((&found.path, found.bytes), (&model.path, model.bytes), "{}", model.name);
        let error = hub.remove(&reference(&model.name)).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        assert!(model.path.exists());
    }
    assert_eq!(
        fs::read(hub.find(&reference("qwen3:0.6b"), None).unwrap().path).unwrap(),
        b"a qwen"
    );
    for name in ["lm/part-GGUF", "gone:1b", "evil:1b", "qwen3:4b", "o/n"] {
        assert_eq!(hub.find(&reference(name), None), None, "{name}");
    }
}

#[test]
fn removal_frees_what_nothing_else_uses() {
    let (small, large) = (noise(1, 20_000), noise(2, 50_000));
    let files =
        [("m-Q4_0.gguf", small.clone()), ("m-Q8_0.gguf", large), ("again-Q5_0.gguf", small)];
    let server = Server::new(&files);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    for tag in ["Q4_0", "Q8_0", "Q5_0"] {
        pull(&settings, &format!("o/n:{tag}")).unwrap();
    }
    let hub = Hub::new(settings.clone()).unwrap();
    let names = || hub.list().into_iter().map(|model: Model| model.name).collect::<Vec<_>>();
    assert_eq!(names(), ["o/n:Q4_0", "o/n:Q5_0", "o/n:Q8_0"]);
    assert!(hub.list().iter().all(|model| model.place == Place::Cache));
    // two names of the same bytes
    assert_eq!(hub.remove(&reference("o/n:Q4_0")).unwrap().bytes, 0);
    assert_eq!(hub.remove(&reference("o/n:Q5_0")).unwrap().bytes, 20_000);
    assert_eq!(names(), ["o/n:Q8_0"]);
    assert!(hub.remove(&reference("o/n:Q5_0")).is_err());
    assert!(hub.remove(&reference("o/n")).unwrap().bytes >= 50_000);
    assert_eq!(names(), [""; 0]);
    assert!(!settings.cache.join("models--o--n").exists());
}

/// Ollama's older models that see have two layers with weights.
#[test]
fn towers_of_ollama_are_found_by_the_manifest() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(".ollama/models").join(path);
    let blob = |bytes: &[u8]| at("blobs").join(format!("sha256-{}", sha256(bytes)));
    let layer = |kind: &str, bytes: &[u8]| {
        let digest = format!("sha256:{}", sha256(bytes));
        serde_json::json!({ "mediaType": format!("application/vnd.ollama.image.{kind}"), "digest": digest })
    };
    let manifest = |layers: &[serde_json::Value]| {
        let manifest = serde_json::json!({ "schemaVersion": 2, "layers": layers });
        manifest.to_string().into_bytes()
    };
    let library = "manifests/registry.ollama.ai/library";
    let (text, tower) = (&b"the text"[..], &b"the tower"[..]);
    write(
        &at(library).join("seer/1b"),
        &manifest(&[layer("model", text), layer("projector", tower)]),
    );
    write(&at(library).join("blind/1b"), &manifest(&[layer("model", b"blind")]));
    write(&blob(text), text);
    write(&blob(b"blind"), b"blind");
    let hub = Hub::new(settings(home.path(), "http://127.0.0.1:1")).unwrap();
    // a model without a part of it is no model
    assert_eq!(hub.find(&reference("seer:1b"), None), None);
    write(&blob(tower), tower);
    let seer = hub.find(&reference("seer:1b"), None).unwrap();
    assert_eq!((seer.path.clone(), seer.bytes), (blob(text), 17));
    assert_eq!(seer.files, [blob(text), blob(tower)]);
    assert_eq!(projector_of_blob(&seer.path), Some(blob(tower)));
    assert_eq!(projector_of_blob(&blob(b"blind")), None);
    assert_eq!(projector_of_blob(&at("manifests/sha256-0")), None);
}
