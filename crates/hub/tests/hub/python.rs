//! Python's `huggingface_hub` and Pelton use each other's cache.

use std::{fs, path::Path, process::Command};

use pelton_hub::Hub;

use crate::{
    pull, reference,
    server::{COMMIT, Server},
    settings, tensors,
};

/// Runs a script with `huggingface_hub`; `None` if this machine does not have it.
fn python(script: &str, server: &Server, cache: &Path) -> Option<String> {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import huggingface_hub"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        pelton_testing::skip(pelton_testing::Need::Python, "no Python with huggingface_hub");
        return None;
    }
    let output = Command::new(&python)
        .args(["-c", script])
        .env("HF_ENDPOINT", &server.endpoint)
        .env("HF_HUB_CACHE", cache)
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .env("HF_HUB_DISABLE_XET", "1")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn server() -> Server {
    Server::new(&[
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", tensors(1, 200_000)),
        ("tokenizer.json", b"[]".to_vec()),
    ])
}

#[test]
fn python_reads_the_cache_of_pelton_offline() {
    let server = server();
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    let model = pull(&settings, "o/n").unwrap();
    server.requests();
    let script = "import huggingface_hub as h\n\
                  print(h.snapshot_download('o/n', local_files_only=True))\n\
                  print(h.hf_hub_download('o/n', 'model.safetensors', local_files_only=True))\n\
                  info = h.scan_cache_dir()\n\
                  print(len(info.warnings), [(r.repo_id, r.size_on_disk, sorted(r.refs)) for r in info.repos])";
    let Some(printed) = python(script, &server, &settings.cache) else { return };
    let folder = model.path.display();
    let expected = format!("{folder}\n{folder}/model.safetensors\n0 [('o/n', 200004, ['main'])]");
    assert_eq!(printed, expected);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn pelton_reads_the_cache_of_python_offline() {
    let server = server();
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(home.path(), &server.endpoint);
    settings.offline = true;
    let script = "import huggingface_hub as h\n\
                  for f in ['config.json', 'model.safetensors', 'tokenizer.json']:\n    \
                  h.hf_hub_download('o/n', f)";
    if python(script, &server, &settings.cache).is_none() {
        return;
    }
    let hub = Hub::new(settings.clone()).unwrap();
    let model = hub.find(&reference("o/n"), None).unwrap();
    assert_eq!(model.path, settings.cache.join("models--o--n/snapshots").join(COMMIT));
    assert_eq!(fs::read(model.path.join("model.safetensors")).unwrap(), tensors(1, 200_000));
    assert_eq!(hub.list(), [model]);
    // files that Python has are not downloaded again
    settings.offline = false;
    server.requests();
    pull(&settings, "o/n").unwrap();
    assert!(!server.requests().iter().any(|request| request.path.contains("/resolve/")));
}
