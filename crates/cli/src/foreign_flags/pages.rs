//! The pages for users of other programs, made from the tables.

use super::{
    programs::PEERS,
    table::{Fate, KV_KEYS, KV_VALUES, Peer, Row},
};

/// A page: its file, its title, its introduction, and the programs.
type Page = (&'static str, &'static str, &'static str, &'static [&'static str]);

const PAGES: &[Page] = &[
    (
        "coming-from-llama.cpp.md",
        "Coming from llama.cpp",
        include_str!("pages/llama.cpp.md"),
        &[
            "llama-server",
            "llama-cli",
            "llama-bench",
            "llama-perplexity",
            "llama-imatrix",
            "llama-embedding",
            "llama-tokenize",
            "llama-quantize",
            "convert_hf_to_gguf.py",
        ],
    ),
    (
        "coming-from-whisper.md",
        "Coming from Whisper",
        include_str!("pages/whisper.md"),
        &["whisper-cli", "whisper", "whisper-ctranslate2"],
    ),
    ("coming-from-vllm.md", "Coming from vLLM", include_str!("pages/vllm.md"), &["vllm serve"]),
    (
        "coming-from-ollama.md",
        "Coming from Ollama",
        include_str!("pages/ollama.md"),
        &["ollama run", "ollama show", "ollama pull", "ollama serve"],
    ),
];

/// A row of a table: the option, what becomes of it, and its variable.
fn line(row: &Row) -> String {
    let code = |text: &str| format!("`{text}`");
    let option = match row.names == row.variable {
        true => code(row.names),
        false => row.spellings().map(code).collect::<Vec<_>>().join(", "),
    };
    let becomes = match row.fate {
        Fate::By(_, KV_KEYS) => "`--kv KEYS/VALUES`, the type of keys".to_owned(),
        Fate::By(_, KV_VALUES) => "`--kv KEYS/VALUES`, the type of values".to_owned(),
        Fate::Is(own) if row.has(own) => "the same".to_owned(),
        Fate::Is(own) | Fate::Flag(own) => code(own),
        Fate::By(_, "") => "as its value says".to_owned(),
        Fate::By(_, own) if row.has(own) => "the same, with its values converted".to_owned(),
        Fate::By(_, own) => format!("`{own}`, by its value"),
        Fate::Model => "the model".to_owned(),
        Fate::Names(model) => format!("the model `{model}`"),
        Fate::Argument => "an argument".to_owned(),
        Fate::Noted(why) => format!("no effect: {why}"),
        Fate::Refused(hint) => format!("**refused**: {hint}"),
    };
    let variable = match row.variable {
        "" => String::new(),
        variable => code(variable),
    };
    format!("| {option} | {becomes} | {variable} |\n")
}

fn section(peer: &Peer, text: &mut String, seen: &mut Vec<*const Row>) {
    let commands: Vec<String> =
        peer.commands.iter().map(|command| format!("`pelton {command}`")).collect();
    text.push_str(&format!("\n## {}, for {}\n\n", peer.name, commands.join(" and ")));
    text.push_str("| option | becomes | variable |\n|---|---|---|\n");
    for table in peer.tables {
        // a part that several programs have in common stands once
        if !seen.contains(&table.as_ptr()) {
            table.iter().for_each(|row| text.push_str(&line(row)));
            seen.push(table.as_ptr());
        }
    }
}

/// PELTON_WRITE=1 writes the pages.
#[test]
fn the_pages_are_the_tables() {
    for (file, title, introduction, peers) in PAGES {
        let mut text = format!("# {title}\n\n{introduction}");
        let mut seen = Vec::new();
        for name in *peers {
            for peer in PEERS.iter().filter(|peer| peer.name == *name) {
                section(peer, &mut text, &mut seen);
            }
        }
        let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("PELTON_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/{file} is not made of the tables: PELTON_WRITE=1 writes it");
    }
}
