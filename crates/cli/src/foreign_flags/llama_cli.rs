//! llama-cli's own options, for `pelton run` and `pelton chat`.

use super::{
    convert, llama_common, llama_sampling,
    table::{
        Fate, Peer, Row, Takes::Switch, by, flag, is, noted, noted_flag, refused, refused_flag,
    },
};

pub(super) const RUN: Peer = Peer {
    name: "llama-cli",
    commands: &["run"],
    tables: &[
        RUN_ROWS,
        ROWS,
        llama_common::MODEL,
        llama_common::ROWS,
        llama_sampling::ROWS,
        llama_sampling::LENGTH,
        llama_common::CHAT,
        llama_common::SPECULATION,
    ],
};

pub(super) const CHAT: Peer = Peer {
    name: "llama-cli",
    commands: &["chat"],
    tables: &[
        CHAT_ROWS,
        ROWS,
        llama_common::MODEL,
        llama_common::ROWS,
        llama_sampling::ROWS,
        llama_sampling::LENGTH,
        llama_common::CHAT,
        llama_common::SPECULATION,
    ],
};

const IN_CHAT: &str = "`pelton chat MODEL` is a conversation";

const RUN_ROWS: &[Row] = &[
    flag("-v --verbose", "--verbose"),
    is("-f --file", "--file"),
    refused_flag("-cnv --conversation -i --interactive -if --interactive-first", IN_CHAT),
    flag("-no-cnv --no-conversation", "--raw"),
    noted_flag("-st --single-turn", "a prompt has one answer"),
    flag("--display-prompt", "--echo"),
    noted_flag("--no-display-prompt", "the prompt is not printed without --echo"),
    is("-np --parallel", "--parallel").env("LLAMA_ARG_N_PARALLEL"),
];

const CHAT_ROWS: &[Row] = &[
    refused("-f --file", "`pelton run --file FILE` answers the prompt of a file"),
    noted_flag("-cnv --conversation -i --interactive -if --interactive-first", "a chat is one"),
    refused_flag("-no-cnv --no-conversation", "`pelton run --raw` continues a text"),
    noted_flag("-st --single-turn", "a message on the command line has one answer"),
    noted_flag("--display-prompt --no-display-prompt", "a terminal shows what was typed"),
    noted("-np --parallel", "a chat is one sequence").env("LLAMA_ARG_N_PARALLEL"),
    flag("--context-shift", "--overflow=drop").env("LLAMA_ARG_CONTEXT_SHIFT"),
];

const ROWS: &[Row] = &[
    Row::new("-rea --reasoning", Switch, Fate::By(convert::reasoning, "--think"))
        .env("LLAMA_ARG_REASONING"),
    by("--reasoning-effort", convert::reasoning_effort, "--reasoning-effort")
        .env("LLAMA_ARG_REASONING_EFFORT"),
    by("--reasoning-budget", convert::reasoning_budget, "--think").env("LLAMA_ARG_THINK_BUDGET"),
    is("-p --prompt", "--prompt"),
    refused("-bf --binary-file", "--file FILE of `pelton run` reads a prompt of UTF-8"),
    is("-sys --system-prompt --system", "--system"),
    is("-sysf --system-prompt-file", "--system-file"),
    noted_flag("-mli --multiline-input", "a pasted text keeps its lines"),
    noted_flag("--simple-io", "without a terminal each line of standard input is a message"),
    Row::new("-co --color", Switch, Fate::Noted("a terminal shows colours")),
    refused_flag("--verbose-prompt", "`pelton template MODEL` shows the prompt of a chat"),
    noted_flag("--show-timings --no-show-timings", "times go to standard error")
        .env("LLAMA_ARG_SHOW_TIMINGS"),
    refused("-o --output --output-file", "> FILE of the shell writes the text to a file"),
    refused(
        "--server-base",
        "Pelton loads the model itself; clients of OpenAI's API talk to servers",
    ),
];
