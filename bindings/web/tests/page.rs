//! The page in headless Chromium, on its software adapter, against the CPU.
#![cfg(not(target_family = "wasm"))]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pelton::{Constraint, Device, Engine, GenerateOptions, LoadOptions, ModelSource, Sampling};
use pelton_testing::{Need, skip};

const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// A page that is built anew loads the model, chats, stops, and makes 64 tokens that are those of
/// the CPU, and texts that keep to a schema and to an expression.
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
    let tokens = |most, constraint: Option<Constraint>| -> Vec<u32> {
        let greedy = Sampling::greedy();
        let mut options = GenerateOptions::default().max_tokens(most).sampling(greedy);
        options.constraint = constraint;
        let stream = model.generate(prompt, options).unwrap();
        stream.map(|token| token.unwrap().id).collect()
    };
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    });
    let texts = [
        (tokens(64, None), None),
        (
            tokens(24, Some(Constraint::JsonSchema(schema.clone()))),
            Some(("json_schema", schema.to_string())),
        ),
        (
            tokens(24, Some(Constraint::Regex("[A-Z]+ [0-9]+".into()))),
            Some(("regex", "[A-Z]+ [0-9]+".into())),
        ),
    ];
    let texts = texts.map(|(ids, constraint)| {
        let constraint =
            constraint.map(|(kind, source)| serde_json::json!({"kind": kind, "source": source}));
        serde_json::json!({"ids": ids, "constraint": constraint})
    });
    let expectation = serde_json::json!({
        "prompt": prompt,
        "texts": texts,
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
