//! The page in headless Chromium, on its software adapter, against the CPU.
#![cfg(not(target_family = "wasm"))]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pelton::{Device, Engine, GenerateOptions, LoadOptions, ModelSource};
use pelton_testing::{Need, skip};

const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// A page that is built anew loads the model, chats, stops, and makes 64 tokens that are those of the CPU.
#[test]
fn tokens_and_texts() {
    if std::env::var_os("PELTON_FULL").is_none() {
        skip(Need::Capability, "a build for browsers takes minutes: PELTON_FULL=1");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = root.join("crates/gpu/tests/browser");
    let browser = BROWSERS.into_iter().find(|path| Path::new(path).exists());
    let (Some(browser), true) = (browser, packages.join("node_modules/playwright-core").exists())
    else {
        skip(Need::Capability, "there is no Chromium, or no playwright-core");
        return;
    };
    let built = Command::new(root.join("bindings/web/build.sh")).stderr(Stdio::inherit()).output();
    let built = built.unwrap();
    assert!(built.status.success(), "the page could not be built");
    let folder = PathBuf::from(String::from_utf8(built.stdout).unwrap().trim());
    let prompt = "Once upon a time";
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default()).unwrap();
    let stream = model.generate(prompt, GenerateOptions::default().max_tokens(64)).unwrap();
    let ids: Vec<u32> = stream.map(|token| token.unwrap().id).collect();
    let expectation = serde_json::json!({
        "prompt": prompt,
        "ids": ids,
        "packages": packages,
    });
    let output = Command::new("node")
        .arg(root.join("bindings/web/tests/page.mjs"))
        .args([folder.as_os_str(), browser.as_ref()])
        .arg(expectation.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
    println!("{text}");
}
