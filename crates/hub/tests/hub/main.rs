//! Downloads from a hub on this machine, which answers as Hugging Face's does, or lies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod honest;
mod interrupted;
mod liars;
mod places;
#[cfg(unix)]
mod python;
mod references;
mod server;
mod tls;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use pelton_hub::{Cancel, Error, Hub, Model, Reference, Settings};

/// The settings of a user with this home folder, for a hub at this address.
fn settings(home: &Path, endpoint: &str) -> Settings {
    let variable = |name: &str| (name == "HF_ENDPOINT").then(|| endpoint.to_owned());
    let mut settings = Settings::of(&variable, Some(home.to_owned())).unwrap();
    settings.ollama.retain(|folder| folder.starts_with(home));
    settings.back_off = Duration::from_millis(1);
    settings.attempts = 4;
    settings.stall = Duration::from_secs(15);
    settings
}

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

/// Plans and fetches a model.
fn pull(settings: &Settings, name: &str) -> Result<Model, Error> {
    let hub = Hub::new(settings.clone())?;
    let plan = hub.plan(&reference(name), None, &Cancel::default())?;
    hub.fetch(&plan, &mut |_| {}, &Cancel::default())
}

/// A GGUF file by its first eight bytes, without a pattern behind them, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
    bytes[..8].copy_from_slice(b"GGUF\x03\0\0\0");
    bytes
}

/// As [`noise`], a safetensors file with an empty header.
fn tensors(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = noise(seed, length);
    bytes[..10].copy_from_slice(b"\x02\0\0\0\0\0\0\0{}");
    bytes
}

/// The paths below a folder, relative to it, with `-> TARGET` for links.
fn tree(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path: PathBuf = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            match fs::read_link(&path) {
                Ok(target) => found.push(format!("{name} -> {}", target.display())),
                Err(_) if path.is_dir() => walk(&path, root, found),
                Err(_) => found.push(name),
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}
