//! The page to chat in: its files, its modules in Node, and the whole in a browser.

use std::{path::Path, process::Command};

use pelton_server::{ApiKey, Config, ModelConfig};
use pelton_testing::{Need, skip};

use crate::{
    clients::{full, node, succeeds, tests},
    harness::start,
};

/// Everything that the page names is there, without a key, and may load nothing from elsewhere.
#[test]
fn files() {
    let server = start(|config| config.keys = ApiKey::parse("alice first-secret\n").unwrap());
    let mut names = vec!["/".to_owned()];
    let mut at = 0;
    while at < names.len() {
        let name = names[at].clone();
        at += 1;
        let answer = server.get(&name);
        assert_eq!(answer.status, 200, "{name}");
        assert!(
            answer.headers["content-security-policy"]
                .starts_with("default-src 'none'; script-src 'self'")
        );
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        for part in answer.body.split('"').filter(|_| !name.ends_with("markdown-it.js")) {
            let part = part.strip_prefix("./").unwrap_or(part);
            let part = format!("/page/{}", part.strip_prefix("page/").unwrap_or(part));
            let is_file = (part.ends_with(".js") || part.ends_with(".css")) && !part.contains(' ');
            if is_file && !names.contains(&part) {
                names.push(part);
            }
        }
    }
    assert!(names.len() > 10, "{names:?}");
    assert_eq!(server.get("/page/other.js").status, 404);
    assert_eq!(server.get("/page/..%2Fmod.rs").status, 404);
}

/// Runs a file in Node, which must say that it has passed.
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}

/// Runs a file in Node that needs neither packages nor a server.
fn script(file: &str) {
    if !succeeds(Command::new("node").arg("--version")) {
        skip(Need::Node, "there is no Node");
        return;
    }
    passes(Command::new("node").arg(tests().join("node").join(file)));
}

/// Texts in Markdown: what they become, in which time, and 20,000 random ones.
#[test]
fn markdown() {
    script("markdown.mjs");
}

/// Conversations in the browser's storage.
#[test]
fn store() {
    script("store.mjs");
}

/// Streams of answers, cut anywhere and broken in all ways.
#[test]
fn answers() {
    script("answer.mjs");
}

/// The Markdown library is what `bundle.mjs` makes of the pinned packages.
#[test]
fn bundle() {
    let folder = tests().join("node");
    if !folder.join("node_modules/esbuild").exists() {
        skip(Need::Capability, format_args!("esbuild is not installed in {}", folder.display()));
        return;
    }
    passes(Command::new("node").arg(folder.join("bundle.mjs")).arg("--check"));
}

/// Runs the file of a test in a browser.
fn browser(file: &str, change: impl FnOnce(&mut Config)) {
    const BROWSERS: [&str; 3] =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    if !full() {
        return;
    }
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        skip(Need::Capability, "there is no Chromium");
        return;
    };
    let server = start(|config| {
        config.load = config.load.clone().context(1024);
        change(config);
    });
    node(file, "playwright-core", &server, &[browser]);
}

/// The built-in model sees pictures that are chosen, pasted and dropped.
#[test]
fn pictures_are_seen_in_the_page() {
    browser("page_seeing.mjs", |config| {
        config.models = vec![ModelConfig::built_in_vision()];
    });
}

/// The page in a browser. `PELTON_SCREENSHOTS` names a folder to which pictures of it are written.
#[test]
fn page() {
    browser("page.mjs", |_| {});
}

/// Pictures in messages, for a model that sees.
#[test]
fn pictures_in_the_page() {
    browser("page_pictures.mjs", |_| {});
}

/// The page keeps its data when tabs, reloads, errors and damaged records get in its way.
#[test]
fn conversations() {
    browser("page_conversations.mjs", |_| {});
}
