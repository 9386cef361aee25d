//! All programs, and their rows by commands.

use super::{
    llama_cli, llama_common, llama_server, llama_tools, ollama, openai_whisper,
    table::{Peer, Row},
    vllm, whisper_cli,
};

/// All programs. Where two have an option of the same name for a command, the first one counts.
pub(super) static PEERS: &[Peer] = &[
    llama_server::PEER,
    llama_cli::RUN,
    llama_cli::CHAT,
    llama_tools::BENCH,
    llama_tools::PERPLEXITY,
    llama_tools::IMATRIX,
    llama_tools::EMBEDDING,
    llama_tools::TOKENIZE,
    llama_tools::QUANTIZE,
    llama_tools::CONVERT,
    llama_common::LOADS,
    llama_common::READS,
    llama_common::RENDERS,
    whisper_cli::PEER,
    openai_whisper::PEER,
    openai_whisper::CTRANSLATE2,
    vllm::PEER,
    ollama::RUN,
    ollama::SHOW,
    ollama::PULL,
    ollama::SERVE,
];

/// The row of an option for a command of Pelton.
pub(super) fn row(command: &str, name: &str) -> Option<&'static Row> {
    rows(command).find(|row| row.has(name))
}

/// The rows for a command of Pelton.
pub(super) fn rows(command: &str) -> impl Iterator<Item = &'static Row> {
    let peers = PEERS.iter().filter(move |peer| peer.commands.contains(&command));
    peers.flat_map(|peer| peer.tables.iter().flat_map(|table| table.iter()))
}

/// The first program that spells an option so.
pub(super) fn peer_of(name: &str) -> Option<&'static Peer> {
    let spells = |peer: &&Peer| peer.tables.iter().any(|table| table.iter().any(|r| r.has(name)));
    PEERS.iter().find(spells)
}
