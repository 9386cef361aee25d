//! `pelton rerank`: documents by their relevance for a query.

use std::{
    io::{BufWriter, Write},
    ops::ControlFlow,
    process::ExitCode,
};

use anyhow::Result;
use pelton::{LoadOptions, RerankOptions, Score, graph::OutputKind};
use serde_json::json;

use super::lines_or_stdin;
use crate::{
    interrupt::{EXIT_CODE, Interrupt},
    loader::Loader,
    model::LoadArgs,
    output::{self, WithHint},
    progress::Progress,
};

#[derive(clap::Args)]
#[command(
    after_help = "A DOC of - stands for the lines of standard input. The output has a line for each \
                  document, the most\nrelevant first: the score, the number of the document from 0 \
                  on, its text."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, or a name such as OWNER/NAME
    model: String,
    /// The query
    query: String,
    /// The documents; - for the lines of standard input
    #[arg(required = true, value_name = "DOC")]
    documents: Vec<String>,
    /// Write the N most relevant documents only
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Write logits instead of probabilities
    #[arg(long)]
    raw: bool,
    /// Write an array of objects
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let documents = lines_or_stdin(&args.documents)?;
    let interrupt = Interrupt::install();
    let model = Loader::new(&args.load).load(&args.model, LoadOptions::default())?;
    let options = RerankOptions::default().raw(args.raw);

    let stop = interrupt.flag();
    let template = "reranking {bar:32} {pos} of {len} documents, {eta} left";
    let bar = Progress::new(template, documents.len() as u64);
    let mut scores: Vec<(usize, Score)> = Vec::with_capacity(documents.len());
    model
        .rerank_each(&args.query, &documents, &options, |i, score| {
            scores.push((i, score));
            bar.counter().add(1);
            if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .hint(match model.plan().output {
            OutputKind::Scores => {
                "documents count from 0; `pelton rerank --help` describes the options"
            }
            _ => "a reranker such as BAAI/bge-reranker-v2-m3 gives scores",
        })?;
    drop(bar);
    if scores.len() < documents.len() {
        return Ok(ExitCode::from(EXIT_CODE));
    }
    scores.sort_by(|(i, a), (j, b)| b.score.total_cmp(&a.score).then(i.cmp(j)));
    scores.truncate(args.top.unwrap_or(usize::MAX));

    let mut out = BufWriter::new(output::stdout());
    if args.json {
        let one = |&(i, score): &(usize, Score)| {
            json!({
                "index": i, "score": score.score, "tokens": score.tokens,
                "document": documents[i],
            })
        };
        writeln!(out, "{:#}", scores.iter().map(one).collect::<serde_json::Value>())?;
    } else {
        for (i, score) in scores {
            writeln!(out, "{:<10} {i:>4}  {}", score.score, documents[i])?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
