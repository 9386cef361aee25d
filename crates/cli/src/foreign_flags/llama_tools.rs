//! The options of llama.cpp's tools, for `bench`, `perplexity`, `imatrix`, `embed`, `tokenize`,
//! `quantize` and `convert`.

use super::{
    convert, llama_common,
    table::{
        Fate, Peer, Row,
        Takes::{Nothing, Value},
        by, flag, is, noted, noted_flag, refused, refused_flag,
    },
};

const ITSELF: &str = "Pelton does this by itself";

pub(super) const BENCH: Peer = Peer {
    name: "llama-bench",
    commands: &["bench"],
    tables: &[BENCH_ROWS, llama_common::MODEL, llama_common::ROWS],
};

const BENCH_ROWS: &[Row] = &[
    is("-p --n-prompt", "--prompt"),
    is("-n --n-gen", "--tokens"),
    is("-d --n-depth", "--depth"),
    is("-r --repetitions", "--repetitions"),
    by("-o --output", bench_format, "--output"),
    refused("-pg", "-p N and -n N measure prompts and tokens each"),
    refused("-oe --output-err", "-o chooses the format on standard output"),
    noted("--delay", "tests follow each other"),
    noted("--n-gen-warmup", "half a second of warm-up runs comes before each test"),
    noted_flag("--progress", ITSELF),
    noted("-b --batch-size", ITSELF),
    noted("-ub --ubatch-size", ITSELF),
    noted("-fa --flash-attn", ITSELF),
    noted("-mmp --mmap", ITSELF),
    noted("-nkvo --no-kv-offload", "keys and values are where their layers are"),
    noted("-nopo --no-op-offload", ITSELF),
    noted("--no-host", ITSELF),
    noted("--repack", ITSELF),
    noted("--moe-cache", ITSELF),
    refused("-embd --embeddings", "`pelton embed --json` says the time of embeddings"),
    refused("-rpc", "a model runs on the devices of one machine: --device gpu:0,gpu:1"),
];

/// Formats of results.
fn bench_format(value: &str, own: &'static str) -> convert::Became {
    match value {
        "jsonl" | "sql" => {
            convert::Became::Refused("-o json and -o csv are for programs".to_owned())
        }
        _ => convert::Became::Words(vec![format!("{own}={value}")]),
    }
}

pub(super) const PERPLEXITY: Peer = Peer {
    name: "llama-perplexity",
    commands: &["perplexity"],
    tables: &[PERPLEXITY_ROWS, llama_common::MODEL, llama_common::ROWS],
};

const TASKS: &str =
    "`pelton perplexity` scores a text; lm_eval with Pelton's Python package runs tasks";

const PERPLEXITY_ROWS: &[Row] = &[
    Row::new("-f --file", Value, Fate::Argument),
    is("-p --prompt", "--prompt"),
    by("--chunks", convert::positive, "--windows"),
    is("--kl-divergence-base --save-all-logits", "--save-base"),
    Row::new("--kl-divergence", Nothing, Fate::Flag("--base")),
    by("--ppl-stride", convert::no_stride, ""),
    noted("--ppl-output-type", "the result is one table; --json is for programs"),
    refused_flag("--hellaswag", TASKS),
    refused("--hellaswag-tasks", TASKS),
    refused_flag("--winogrande", TASKS),
    refused("--winogrande-tasks", TASKS),
    refused_flag("--multiple-choice", TASKS),
    refused("--multiple-choice-tasks", TASKS),
    noted("-np --parallel", ITSELF),
];

pub(super) const IMATRIX: Peer = Peer {
    name: "llama-imatrix",
    commands: &["imatrix"],
    tables: &[IMATRIX_ROWS, llama_common::MODEL, llama_common::ROWS],
};

const ON_CPU: &str = "importance is computed on the CPU";

const IMATRIX_ROWS: &[Row] = &[
    Row::new("-f --file", Value, Fate::Argument),
    is("-p --prompt", "--prompt"),
    is("-o --output --output-file", "--output"),
    by("--chunks", convert::positive, "--windows"),
    noted("-ofreq --output-frequency", "the file is written at the end"),
    by("--output-format", imatrix_format, ""),
    noted("--save-frequency", "the file is written at the end"),
    noted_flag("--no-ppl", "the perplexity costs nothing here"),
    refused_flag(
        "--process-output",
        "the output layer has no importance, as llama-imatrix has it by default",
    ),
    refused_flag("--nextn", "the layers that predict further tokens have no importance"),
    refused("--in-file", "one run computes the importance of one text"),
    refused_flag("--parse-special", "the text is read as text"),
    refused("--chunk --from-chunk", "the first windows of the text are read"),
    refused_flag("--show-statistics", "`pelton quantize --imatrix FILE` reads the file"),
    noted("-ngl --gpu-layers --n-gpu-layers", ON_CPU),
    noted("-dev --device", ON_CPU),
    noted("-ot --override-tensor", ON_CPU),
    noted("-sm --split-mode", ON_CPU),
    noted("-ts --tensor-split", ON_CPU),
    noted("-mg --main-gpu", ON_CPU),
    noted("-ncmoe --n-cpu-moe", ON_CPU),
    noted_flag("-cmoe --cpu-moe", ON_CPU),
];

/// Forms of an importance file.
fn imatrix_format(value: &str, _: &'static str) -> convert::Became {
    match value {
        "gguf" => convert::Became::Words(Vec::new()),
        _ => {
            convert::Became::Refused("the file is GGUF, which llama-quantize reads too".to_owned())
        }
    }
}

pub(super) const EMBEDDING: Peer = Peer {
    name: "llama-embedding",
    commands: &["embed"],
    tables: &[EMBEDDING_ROWS, llama_common::MODEL, llama_common::ROWS],
};

const EMBEDDING_ROWS: &[Row] = &[
    is("-p --prompt", "--prompt"),
    is("-f --file", "--file"),
    by("--pooling", convert::pooling, "--pooling"),
    by("--embd-normalize", convert::norm, "--no-normalize"),
    by("--embd-output-format", embedding_format, "--json"),
    is("--embd-separator", "--separator"),
    noted_flag("--no-logits-for-embeddings", ITSELF),
    noted("--attention", "the model's file says which tokens see each other"),
    noted("-np --parallel", ITSELF),
];

/// Forms of embeddings.
fn embedding_format(value: &str, own: &'static str) -> convert::Became {
    match value {
        "" | "raw" => convert::Became::Words(Vec::new()),
        "json" => convert::Became::Words(vec![own.to_owned()]),
        _ => convert::Became::Refused(
            "--json writes one object, and without it each text is a line of numbers".to_owned(),
        ),
    }
}

pub(super) const TOKENIZE: Peer =
    Peer { name: "llama-tokenize", commands: &["tokenize"], tables: &[TOKENIZE_ROWS] };

const TOKENIZE_ROWS: &[Row] = &[
    Row::new("-m --model", Value, Fate::Model),
    is("-p --prompt", "--prompt"),
    is("-f --file", "--file"),
    flag("--stdin", "--file=-"),
    noted_flag("--show-count", "the last line counts the tokens"),
    noted_flag("--no-bos", "tokens before the text stand there with --special only"),
    noted_flag("--no-escape", "texts are taken as they are"),
    noted_flag("--no-parse-special", "control tokens are text without --special"),
    noted_flag("--log-disable", "there are no log lines"),
];

pub(super) const QUANTIZE: Peer =
    Peer { name: "llama-quantize", commands: &["quantize"], tables: &[QUANTIZE_ROWS] };

const QUANTIZE_ROWS: &[Row] = &[
    is("--imatrix", "--imatrix"),
    by("--output-tensor-type", |value, own| tensor("output.weight", value, own), "--override"),
    by(
        "--token-embedding-type",
        |value, own| tensor("token_embd.weight", value, own),
        "--override",
    ),
    by("--tensor-type", tensor_type, "--override"),
    refused("--tensor-type-file", "--override TENSOR=TYPE gives a tensor its type, several times"),
    refused_flag("--allow-requantize", "matrices that are quantized already keep their types"),
    refused_flag("--leave-output-tensor", "--override output.weight=f16 gives it this type"),
    refused_flag("--pure", "--override '*=TYPE' gives all matrices one type"),
    refused("--include-weights", "the file of --imatrix counts for all matrices that it has"),
    refused("--exclude-weights", "the file of --imatrix counts for all matrices that it has"),
    refused_flag("--keep-split", "the result is one file"),
    refused("--prune-layers", "a quantized file has all layers of its model"),
    refused("--target-bpw", "TYPE chooses the size, as `pelton quantize --help` lists them"),
    refused_flag("--no-importance", "without --imatrix there is no importance"),
    refused_flag(
        "--keep-bpw-state",
        "TYPE chooses the size, as `pelton quantize --help` lists them",
    ),
    refused("--override-kv", "the metadata of a file is kept"),
    refused_flag("--dry-run", "`pelton inspect MODEL` shows the types of a file"),
];

/// A type for one tensor, in Pelton's form.
fn tensor(name: &str, dtype: &str, own: &'static str) -> convert::Became {
    convert::Became::Words(vec![format!("{own}={name}={}", plain(dtype))])
}

/// A type without the size of a mixture, which one matrix has not.
fn plain(dtype: &str) -> String {
    let lower = dtype.to_ascii_lowercase();
    let size = ["_s", "_m", "_l"].iter().find_map(|size| lower.strip_suffix(size));
    match size.filter(|rest| rest.ends_with("_k")) {
        Some(rest) => rest.to_owned(),
        None => lower,
    }
}

/// A type for the tensors that have a name in theirs.
fn tensor_type(value: &str, own: &'static str) -> convert::Became {
    let Some((name, dtype)) = value.rsplit_once('=') else {
        return convert::expected("TENSOR=TYPE");
    };
    match name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) {
        true => convert::Became::Words(vec![format!("{own}=*{name}*={}", plain(dtype))]),
        false => convert::Became::Refused(
            "--override TENSOR=TYPE names tensors by their names, in which * stands for any characters"
                .to_owned(),
        ),
    }
}

pub(super) const CONVERT: Peer =
    Peer { name: "convert_hf_to_gguf.py", commands: &["convert"], tables: &[CONVERT_ROWS] };

const CONVERT_ROWS: &[Row] = &[
    by("--outtype", output_type, "--type"),
    is("--outfile", "--outfile"),
    Row::new("--model", Value, Fate::Model),
    refused_flag("--vocab-only", "the file has the weights of the model too"),
    refused_flag("--bigendian", "files are little-endian"),
    noted_flag("--use-temp-file", "a file is written as it is computed"),
    noted_flag("--no-lazy", "a file is written as it is computed"),
    refused("--model-name", "the name is that of the folder"),
    noted_flag("--verbose", "`pelton inspect FILE` shows the contents"),
    refused("--split-max-tensors", "the result is one file"),
    refused("--split-max-size", "the result is one file"),
    refused_flag("--dry-run", "`pelton inspect DIR` shows the contents"),
    noted_flag("--no-tensor-first-split", "the result is one file"),
    refused("--metadata", "the metadata is that of config.json"),
    refused_flag("--print-supported-models", "docs/models.md lists them"),
    refused_flag(
        "--remote",
        "`pelton pull OWNER/NAME` downloads a model, and `pelton show` says its folder",
    ),
    refused_flag(
        "--mmproj",
        "`pelton convert DIR OUT.gguf` writes the vision tower too, as mmproj-OUT.gguf",
    ),
    noted_flag("--mistral-format", "the folder shows its form"),
    noted_flag(
        "--disable-mistral-community-chat-template",
        "the chat template is that of the folder",
    ),
    refused_flag(
        "--sentence-transformers-dense-modules",
        "the layers after the pooling are not read",
    ),
    noted_flag("--fuse-gate-up-exps", ITSELF),
    refused_flag("--fp8-as-q8", "--type q8_0 writes 8 bits in blocks of 32"),
];

/// Types of a converted file.
fn output_type(value: &str, own: &'static str) -> convert::Became {
    match value {
        "tq1_0" | "tq2_0" => convert::Became::Refused("--type q8_0 has the fewest bits".to_owned()),
        _ => convert::Became::Words(vec![format!("{own}={value}")]),
    }
}
