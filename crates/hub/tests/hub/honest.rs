//! Downloads from a hub that keeps its promises.

use std::{fs, time::Duration};

use pelton_hub::{Cancel, Error, Hub, Phase, Towers};

use crate::{
    noise, pull, reference,
    server::{Answer, COMMIT, Server, git_sha1, sha256},
    settings, tensors, tree,
};

/// The layout is that of the documentation of `huggingface_hub`'s cache.
#[test]
fn a_file_is_in_the_cache_as_python_has_it() {
    let bytes = noise(1, 5_000_001);
    let server = Server::new(&[("m-Q8_0.gguf", bytes.clone()), ("README.md", b"#".to_vec())]);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    let model = pull(&settings, "o/n:q8_0").unwrap();
    assert_eq!(model.name, "o/n:Q8_0");
    assert_eq!(fs::read(&model.path).unwrap(), bytes);
    let blob = sha256(&bytes);
    let expected = [
        format!(".locks/models--o--n/{blob}.lock"),
        format!("models--o--n/blobs/{blob}"),
        "models--o--n/refs/main".to_owned(),
        format!("models--o--n/snapshots/{COMMIT}/m-Q8_0.gguf -> ../../blobs/{blob}"),
    ];
    assert_eq!(tree(&settings.cache), expected);
    assert_eq!(fs::read_to_string(settings.cache.join("models--o--n/refs/main")).unwrap(), COMMIT);

    // a second one asks for no bytes
    server.requests();
    assert_eq!(pull(&settings, "hf.co/o/n:Q8_0").unwrap(), model);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.path.starts_with("/api/")), "{requests:?}");

    // and without a hub it is found
    let mut offline = settings.clone();
    offline.offline = true;
    let hub = Hub::new(offline).unwrap();
    for name in ["o/n", "o/n:Q8_0", "https://huggingface.co/o/n/blob/main/m-Q8_0.gguf"] {
        assert_eq!(hub.find(&reference(name), None).unwrap().path, model.path, "{name}");
    }
    assert_eq!(hub.find(&reference("o/n:Q4_0"), None), None);
    let error = hub.plan(&reference("o/n:Q4_0"), None, &Cancel::default()).unwrap_err();
    assert!(matches!(error, Error::Offline { .. }), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_directory_comes_with_its_small_files() {
    let small = br#"{"model_type": "llama"}"#.to_vec();
    let files = [
        ("config.json", small.clone()),
        ("model-00001-of-00002.safetensors", tensors(1, 20_000)),
        ("model-00002-of-00002.safetensors", tensors(2, 30_000)),
        ("model.safetensors.index.json", b"{}".to_vec()),
        ("1_Pooling/config.json", b"[]".to_vec()),
        ("empty.json", Vec::new()),
        ("onnx/model.onnx", noise(3, 20_000)),
    ];
    let server = Server::new(&files);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    let model = pull(&settings, "o/n").unwrap();
    assert_eq!(model.path, settings.cache.join("models--o--n/snapshots").join(COMMIT));
    for (name, bytes) in &files[..6] {
        assert_eq!(&fs::read(model.path.join(name)).unwrap(), bytes, "{name}");
    }
    assert!(!model.path.join("onnx").exists());
    // small files are not in large-file storage: their blobs are named as Git names them
    assert!(settings.cache.join("models--o--n/blobs").join(git_sha1(&small)).is_file());
    let link = fs::read_link(model.path.join("1_Pooling/config.json")).unwrap();
    assert_eq!(link.to_str().unwrap(), format!("../../../blobs/{}", git_sha1(b"[]")));
    assert_eq!(model.bytes, files[..6].iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
}

/// A vision tower comes with its model, and goes with the last one that has it.
#[test]
fn a_model_that_sees_comes_with_its_tower() {
    let files = [
        ("m-Q4_K_M.gguf", noise(1, 20_000)),
        ("m-Q8_0.gguf", noise(2, 30_000)),
        ("mmproj-BF16.gguf", noise(3, 12_000)),
        ("mmproj-F16.gguf", noise(4, 11_000)),
    ];
    let server = Server::new(&files);
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(home.path(), &server.endpoint);
    settings.towers = Towers::Off;
    let blind = pull(&settings, "o/n:Q4_K_M").unwrap();
    assert_eq!((blind.files.len(), blind.bytes), (1, 20_000));
    settings.towers = Towers::Auto;
    let seer = pull(&settings, "o/n:Q4_K_M").unwrap();
    let tower = seer.path.with_file_name("mmproj-F16.gguf");
    assert_eq!((seer.files.clone(), seer.bytes), (vec![seer.path.clone(), tower.clone()], 31_000));
    assert_eq!(fs::read(&tower).unwrap(), files[3].1);
    assert!(!seer.path.with_file_name("mmproj-BF16.gguf").exists());
    let hub = Hub::new(settings.clone()).unwrap();
    assert_eq!(hub.find(&reference("o/n:Q4_K_M"), None), Some(seer.clone()));
    pull(&settings, "o/n:Q8_0").unwrap();
    assert_eq!(hub.list().iter().map(|model| model.bytes).collect::<Vec<_>>(), [31_000, 41_000]);
    assert_eq!(hub.remove(&reference("o/n:Q8_0")).unwrap().files.len(), 1);
    assert!(tower.exists());
    assert_eq!(hub.remove(&reference("o/n:Q4_K_M")).unwrap().files.len(), 2);
    assert!(!tower.exists());
    settings.towers = Towers::Named("mmproj-BF16.gguf".parse().unwrap());
    let seer = pull(&settings, "o/n:Q8_0").unwrap();
    assert!(seer.path.with_file_name("mmproj-BF16.gguf").exists());
}

#[test]
fn several_connections_fetch_ranges_once() {
    let bytes = noise(1, 40 << 20);
    let server = Server::new(&[("m.gguf", bytes.clone())]);
    let home = tempfile::tempdir().unwrap();
    let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    assert_eq!(fs::read(&model.path).unwrap(), bytes);
    let mut ranges: Vec<(usize, usize)> =
        server.requests().iter().filter_map(|request| request.range()).collect();
    ranges.sort_unstable();
    // the hub and its storage have the same range each
    ranges.dedup();
    assert!(ranges.len() >= 4, "{ranges:?}");
    let mut end = 0;
    for (first, last) in ranges {
        assert_eq!(first, end);
        end = last + 1;
    }
    assert_eq!(end, bytes.len());
}

#[test]
fn progress_counts_bytes_and_tells_a_rate() {
    let server = Server::new(&[("m.gguf", noise(1, 8 << 20))]);
    server.lie(|_, answer| Answer { pause: Duration::from_millis(20), ..answer });
    let home = tempfile::tempdir().unwrap();
    let hub = Hub::new(settings(home.path(), &server.endpoint)).unwrap();
    let plan = hub.plan(&reference("o/n"), None, &Cancel::default()).unwrap();
    assert_eq!((plan.bytes(), plan.missing_bytes()), (8 << 20, 8 << 20));
    let mut seen = Vec::new();
    hub.fetch(&plan, &mut |progress| seen.push(progress.clone()), &Cancel::default()).unwrap();
    assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done));
    let last = seen.iter().rfind(|progress| progress.phase == Phase::Downloading).unwrap();
    assert_eq!((last.done, last.total), (8 << 20, 8 << 20));
    // 4 connections with 64 KiB in 20 ms each: 13 MB/s at most
    let rated = seen.iter().rfind(|progress| progress.left.is_some()).unwrap();
    assert!(rated.per_second > 1e5 && rated.per_second < 14e6, "{rated:?}");
    assert_eq!(hub.plan(&reference("o/n"), None, &Cancel::default()).unwrap().missing_bytes(), 0);
}

/// Revisions other than the main one have references of their own.
#[test]
fn revisions_have_references() {
    let server = Server::new(&[("m.gguf", noise(1, 100))]);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    pull(&settings, "o/n@refs/pr/1").unwrap();
    assert!(server.requests().iter().any(|r| r.path.ends_with("/revision/refs%2Fpr%2F1")));
    assert!(settings.cache.join("models--o--n/refs/refs/pr/1").is_file());
    let hub = Hub::new(settings).unwrap();
    assert!(hub.find(&reference("o/n@refs/pr/1"), None).is_some());
    assert!(hub.find(&reference("o/n"), None).is_none());
    let names: Vec<String> = hub.list().into_iter().map(|model| model.name).collect();
    assert_eq!(names, ["https://huggingface.co/o/n/resolve/refs/pr/1/m.gguf"]);
}

#[test]
fn a_file_of_any_server() {
    let bytes = noise(1, 3_000_000);
    let server = Server::new(&[("some/m.gguf", bytes.clone())]);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), "http://127.0.0.1:1");
    let url = format!("{}/some/m.gguf?x=1", server.storage);
    let mut model = pull(&settings, &url).unwrap();
    assert_eq!(fs::read(&model.path).unwrap(), bytes);
    // such a server has no hash, which is said of the download alone
    assert_eq!(std::mem::take(&mut model.unverified), ["m.gguf"]);
    assert!(model.path.starts_with(&settings.downloads) && model.path.ends_with("m.gguf"));
    let hub = Hub::new(settings).unwrap();
    assert_eq!(hub.find(&reference(&url), None).as_ref(), Some(&model));
    assert_eq!(hub.list(), std::slice::from_ref(&model));
    hub.remove(&reference(&url)).unwrap();
    assert!(!model.path.exists() && hub.list().is_empty());
}
