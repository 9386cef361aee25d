//! The options that llama.cpp's programs have in common: the model, its memory and its devices.

use super::{
    convert, rotations,
    table::{
        Fate, KV_KEYS, KV_VALUES, Peer, Row,
        Takes::{Nothing, Switch, Two, Value},
        by, flag, is, noted, noted_flag, refused, refused_flag,
    },
};

const ITSELF: &str = "Pelton chooses it by itself";
const CORES: &str = "the system gives threads their cores; `taskset` changes that";
const DRAFTS: &str = "Pelton measures how many tokens a draft has";
const LOGS: &str = "the environment variable RUST_LOG chooses log lines";
const SOUNDS: &str = "chats take text and pictures; `pelton transcribe` takes audio";
const MMPROJ: &str = "an mmproj file in the folder of the model is loaded with it";
const NO_VIDEOS: &str = "Pelton reads no videos";

const fn switch(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Switch, Fate::Noted(why))
}

const fn model(names: &'static str, name: &'static str) -> Row {
    Row::new(names, Nothing, Fate::Names(name))
}

/// The model.
pub(super) const MODEL: &[Row] = &[
    Row::new("-m --model", Value, Fate::Model).env("LLAMA_ARG_MODEL"),
    by("-mu --model-url", |value, _| convert::Became::Model(value.to_owned()), "")
        .env("LLAMA_ARG_MODEL_URL"),
    by("-hf -hfr --hf-repo", convert::hub, "").env("LLAMA_ARG_HF_REPO"),
    by("-hff --hf-file", convert::file_of_hub, "").env("LLAMA_ARG_HF_FILE"),
    is("-hft --hf-token", "--hf-token"),
    refused("-dr --docker-repo", "-hf OWNER/NAME:QUANT names the model on Hugging Face")
        .env("LLAMA_ARG_DOCKER_REPO"),
    flag("--offline", "--offline").env("LLAMA_ARG_OFFLINE"),
];

/// Threads, memory and devices.
pub(super) const ROWS: &[Row] = &[
    is("-t --threads", "--threads").env("LLAMA_ARG_THREADS"),
    noted("-tb --threads-batch", "prompts use the threads of --threads"),
    noted("-C --cpu-mask", CORES),
    noted("-Cr --cpu-range", CORES),
    noted("--cpu-strict", CORES),
    noted("--prio", "`nice` sets a priority"),
    noted("--poll", ITSELF),
    noted("-Cb --cpu-mask-batch", CORES),
    noted("-Crb --cpu-range-batch", CORES),
    noted("--cpu-strict-batch", CORES),
    noted("--prio-batch", "`nice` sets a priority"),
    noted("--poll-batch", ITSELF),
    by("-c --ctx-size --num-ctx", convert::context, "--context").env("LLAMA_ARG_CTX_SIZE"),
    noted("-b --batch-size", ITSELF).env("LLAMA_ARG_BATCH"),
    noted("-ub --ubatch-size", ITSELF).env("LLAMA_ARG_UBATCH"),
    noted("--keep", "Pelton never shifts the context"),
    noted_flag("--swa-full", "windows keep what they need").env("LLAMA_ARG_SWA_FULL"),
    switch("-fa --flash-attn", ITSELF).env("LLAMA_ARG_FLASH_ATTN"),
    noted_flag("--no-flash-attn", ITSELF),
    noted_flag("--perf --no-perf", "times are always measured").env("LLAMA_ARG_PERF"),
    noted_flag("--no-escape", "texts are taken as they are"),
    refused_flag("-e --escape", "$'…' of the shell writes line breaks into a text"),
    is("--rope-scaling", "--rope-scaling").env("LLAMA_ARG_ROPE_SCALING_TYPE"),
    by("--rope-scale", rotations::stated, "--rope-scale").env("LLAMA_ARG_ROPE_SCALE"),
    by("--rope-freq-base", rotations::stated, "--rope-freq-base").env("LLAMA_ARG_ROPE_FREQ_BASE"),
    by("--rope-freq-scale", rotations::inverse, "--rope-scale").env("LLAMA_ARG_ROPE_FREQ_SCALE"),
    by("--yarn-orig-ctx", rotations::stated, "--yarn-orig-ctx").env("LLAMA_ARG_YARN_ORIG_CTX"),
    by("--yarn-ext-factor", rotations::whole, "").env("LLAMA_ARG_YARN_EXT_FACTOR"),
    by("--yarn-attn-factor", rotations::attention_factor, "").env("LLAMA_ARG_YARN_ATTN_FACTOR"),
    by("--yarn-beta-slow", rotations::beta_slow, "").env("LLAMA_ARG_YARN_BETA_SLOW"),
    by("--yarn-beta-fast", rotations::beta_fast, "").env("LLAMA_ARG_YARN_BETA_FAST"),
    noted_flag(
        "-kvo --kv-offload -nkvo --no-kv-offload",
        "keys and values are where their layers are",
    )
    .env("LLAMA_ARG_KV_OFFLOAD"),
    noted_flag("--repack", ITSELF),
    flag("-nr --no-repack", "--no-repack"),
    noted_flag("--no-host", ITSELF).env("LLAMA_ARG_NO_HOST"),
    by("-ctk --cache-type-k", convert::kv, KV_KEYS).env("LLAMA_ARG_CACHE_TYPE_K"),
    by("-ctv --cache-type-v", convert::kv, KV_VALUES).env("LLAMA_ARG_CACHE_TYPE_V"),
    noted("-dt --defrag-thold", "pages need no defragmentation").env("LLAMA_ARG_DEFRAG_THOLD"),
    refused("--rpc", "a model runs on the devices of one machine: --device gpu:0,gpu:1")
        .env("LLAMA_ARG_RPC"),
    noted_flag("--mlock", ITSELF).env("LLAMA_ARG_MLOCK"),
    noted_flag("--mmap --no-mmap", ITSELF).env("LLAMA_ARG_MMAP"),
    noted_flag("-dio --direct-io -ndio --no-direct-io", ITSELF).env("LLAMA_ARG_DIO"),
    noted("-lm --load-mode", ITSELF).env("LLAMA_ARG_LOAD_MODE"),
    noted("-lzm --lazy-mode", ITSELF).env("LLAMA_ARG_LAZY_MODE"),
    noted("--numa", ITSELF).env("LLAMA_ARG_NUMA"),
    by("-dev --device", convert::device, "--device").env("LLAMA_ARG_DEVICE"),
    refused_flag("--list-devices", "`pelton devices` lists the GPUs"),
    refused_flag("-cl --cache-list", "`pelton list` lists the models of this machine"),
    refused_flag("--completion-bash", "`pelton completions bash` writes the script"),
    flag("--usage", "--help"),
    refused(
        "-ot --override-tensor",
        "--host-experts N keeps the experts of the first N layers in the CPU's memory",
    )
    .env("LLAMA_ARG_OVERRIDE_TENSOR"),
    // more layers than any model has
    flag("-cmoe --cpu-moe", "--n-cpu-moe=100000").env("LLAMA_ARG_CPU_MOE"),
    is("-ncmoe --n-cpu-moe", "--n-cpu-moe").env("LLAMA_ARG_N_CPU_MOE"),
    noted("--moe-cache-mib", ITSELF).env("LLAMA_ARG_MOE_CACHE_MIB"),
    is("-ncffn --n-cpu-ffn", "--host-ffn").env("LLAMA_ARG_N_CPU_FFN"),
    by("-ngl --gpu-layers --n-gpu-layers", convert::gpu_layers, "--gpu-layers")
        .env("LLAMA_ARG_N_GPU_LAYERS"),
    by("-sm --split-mode", convert::split_mode, "").env("LLAMA_ARG_SPLIT_MODE"),
    by("-ts --tensor-split", convert::proportions, "--device").env("LLAMA_ARG_TENSOR_SPLIT"),
    by("-mg --main-gpu", convert::gpu_number, "--device").env("LLAMA_ARG_MAIN_GPU"),
    switch("-fit --fit", "layers are always placed so that they fit").env("LLAMA_ARG_FIT"),
    by("-fitt --fit-target", convert::mebibytes, "--fit-margin").env("LLAMA_ARG_FIT_TARGET"),
    noted("-fitc --fit-ctx", "--context sets the context, and layers are placed for it")
        .env("LLAMA_ARG_FIT_CTX"),
    noted_flag("--check-tensors", "a file is checked when it is read"),
    by("--override-kv", rotations::change, "--override-kv"),
    noted_flag("--op-offload --no-op-offload", ITSELF),
    by("--lora", convert::commas, "--lora"),
    by("--lora-scaled", convert::scaled, "--lora"),
    refused(
        "--control-vector",
        "--lora PATH applies an adapter; control vectors are not supported",
    ),
    refused(
        "--control-vector-scaled",
        "--lora PATH=SCALE applies an adapter; control vectors are not supported",
    ),
    Row::new(
        "--control-vector-layer-range",
        Two,
        Fate::Refused("control vectors are not supported"),
    ),
    noted_flag("--log-disable", LOGS),
    refused("--log-file", "2> FILE of the shell writes log lines to a file")
        .env("LLAMA_ARG_LOG_FILE"),
    switch("--log-colors", "log lines have no colours").env("LLAMA_ARG_LOG_COLORS"),
    noted_flag("-v --verbose --log-verbose", LOGS),
    noted("-lv --verbosity --log-verbosity", LOGS).env("LLAMA_ARG_LOG_VERBOSITY"),
    noted_flag("--log-prefix --no-log-prefix", "log lines have a level")
        .env("LLAMA_ARG_LOG_PREFIX"),
    noted_flag("--log-timestamps --no-log-timestamps", "log lines have a time")
        .env("LLAMA_ARG_LOG_TIMESTAMPS"),
    noted_flag("--warmup --no-warmup", ITSELF),
    model("--gpt-oss-20b-default", "hf:ggml-org/gpt-oss-20b-GGUF"),
    model("--gpt-oss-120b-default", "hf:ggml-org/gpt-oss-120b-GGUF"),
    refused_flag("--vision-gemma-4b-default", MMPROJ),
    refused_flag("--vision-gemma-12b-default", MMPROJ),
];

/// Drafts, for programs that generate text.
pub(super) const SPECULATION: &[Row] = &[
    is("--spec-draft-model -md --model-draft", "--draft").env("LLAMA_ARG_SPEC_DRAFT_MODEL"),
    by("--spec-draft-hf -hfd -hfrd --hf-repo-draft", convert::hub, "--draft")
        .env("LLAMA_ARG_SPEC_DRAFT_HF_REPO"),
    by("--draft --draft-n --draft-max", convert::draft, "--draft"),
    noted("--draft-min --draft-n-min", DRAFTS),
    by("--spec-type", convert::speculation, "--speculate").env("LLAMA_ARG_SPEC_TYPE"),
    flag("--spec-default", "--speculate=auto"),
    noted("--spec-draft-type-k -ctkd --cache-type-k-draft", "a draft has the type of --kv"),
    noted("--spec-draft-type-v -ctvd --cache-type-v-draft", "a draft has the type of --kv"),
    noted("--spec-draft-threads -td --threads-draft", "a draft uses the threads of --threads"),
    noted(
        "--spec-draft-threads-batch -tbd --threads-batch-draft",
        "a draft uses the threads of --threads",
    ),
    noted("--spec-draft-cpu-mask -Cd --cpu-mask-draft", CORES),
    noted("--spec-draft-cpu-range -Crd --cpu-range-draft", CORES),
    noted("--spec-draft-cpu-strict --cpu-strict-draft", CORES),
    noted("--spec-draft-prio --prio-draft", CORES),
    noted("--spec-draft-poll --poll-draft", CORES),
    noted("--spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft", CORES),
    noted("--spec-draft-cpu-strict-batch --cpu-strict-batch-draft", CORES),
    noted("--spec-draft-prio-batch --prio-batch-draft", CORES),
    noted("--spec-draft-poll-batch --poll-batch-draft", CORES),
    noted(
        "--spec-draft-override-tensor -otd --override-tensor-draft",
        "a draft runs where its model runs",
    ),
    noted_flag("--spec-draft-cpu-moe -cmoed --cpu-moe-draft", "a draft runs where its model runs"),
    noted(
        "--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft",
        "a draft runs where its model runs",
    ),
    noted("--spec-draft-n-max", DRAFTS).env("LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    noted("--spec-draft-n-min", DRAFTS).env("LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    noted("--spec-draft-p-split --draft-p-split", DRAFTS),
    noted("--spec-draft-p-min --draft-p-min", DRAFTS),
    noted_flag("--spec-draft-backend-sampling --no-spec-draft-backend-sampling", DRAFTS),
    noted("--spec-draft-sampling", "drafts change the speed and never the text"),
    noted("--spec-draft-device -devd --device-draft", "a draft runs where its model runs"),
    noted(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        "a draft runs where its model runs",
    ),
    refused("--spec-synth-len", "`pelton bench --speculation` measures drafts"),
    refused("--spec-synth-rates", "`pelton bench --speculation` measures drafts"),
    noted("--spec-ngram-mod-n-min", DRAFTS),
    noted("--spec-ngram-mod-n-max", DRAFTS),
    noted("--spec-ngram-mod-n-match", DRAFTS),
    noted("--spec-ngram-simple-size-n", DRAFTS),
    noted("--spec-ngram-simple-size-m", DRAFTS),
    noted("--spec-ngram-simple-min-hits", DRAFTS),
    noted("--spec-ngram-map-k-size-n", DRAFTS),
    noted("--spec-ngram-map-k-size-m", DRAFTS),
    noted("--spec-ngram-map-k-min-hits", DRAFTS),
    noted("--spec-ngram-map-k4v-size-n", DRAFTS),
    noted("--spec-ngram-map-k4v-size-m", DRAFTS),
    noted("--spec-ngram-map-k4v-min-hits", DRAFTS),
    noted("--spec-ngram-size-n", DRAFTS),
    noted("--spec-ngram-size-m", DRAFTS),
    noted("--spec-ngram-min-hits", DRAFTS),
];

/// Chats and pictures, for programs that chat.
pub(super) const CHAT: &[Row] = &[
    by("--chat-template --template", convert::template, "--chat-template")
        .env("LLAMA_ARG_CHAT_TEMPLATE"),
    is("--chat-template-file", "--chat-template").env("LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    is("--chat-template-kwargs", "--chat-template-kwargs").env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS"),
    noted_flag("--jinja --no-jinja", "chat templates are always rendered as Jinja")
        .env("LLAMA_ARG_JINJA"),
    by("--reasoning-format", convert::reasoning_format, "").env("LLAMA_ARG_THINK"),
    refused(
        "--reasoning-budget-message",
        "--reasoning off ends reasoning; a number of tokens does not limit it",
    )
    .env("LLAMA_ARG_THINK_BUDGET_MESSAGE"),
    noted_flag(
        "--reasoning-preserve --no-reasoning-preserve",
        "the template decides which reasoning it keeps",
    )
    .env("LLAMA_ARG_REASONING_PRESERVE"),
    noted_flag("--no-skip-chat-parsing", "tool calls and reasoning are parsed"),
    refused_flag("--skip-chat-parsing", "/v1/completions gives the text of a model as it is")
        .env("LLAMA_ARG_SKIP_CHAT_PARSING"),
    noted("-ctxcp --ctx-checkpoints --swa-checkpoints", ITSELF).env("LLAMA_ARG_CTX_CHECKPOINTS"),
    noted("-cram --cache-ram", "prompts stay in the memory of --kv-memory")
        .env("LLAMA_ARG_CACHE_RAM"),
    noted_flag("--no-context-shift", "a text ends where the context is full"),
    refused_flag(
        "--context-shift",
        "a text ends where the context is full: --context N makes room",
    )
    .env("LLAMA_ARG_CONTEXT_SHIFT"),
    refused_flag("-sp --special", "texts have no control tokens"),
    refused("--log-prompts-dir", "`pelton serve --log-prompts` writes prompts into log lines"),
    is("-mm --mmproj", "--mmproj").env("LLAMA_ARG_MMPROJ"),
    refused("-mmu --mmproj-url", MMPROJ).env("LLAMA_ARG_MMPROJ_URL"),
    is("--image", "--image"),
    refused("--audio --video", SOUNDS),
    noted_flag("--mmproj-auto", MMPROJ),
    flag("--no-mmproj --no-mmproj-auto", "--pictures=off"),
    noted_flag("--mmproj-offload --no-mmproj-offload", ITSELF),
    noted("-mmdev --mmproj-device", ITSELF),
    is("--image-min-tokens", "--image-min-tokens").env("LLAMA_ARG_IMAGE_MIN_TOKENS"),
    is("--image-max-tokens", "--image-max-tokens").env("LLAMA_ARG_IMAGE_MAX_TOKENS"),
    noted("--mtmd-batch-max-tokens", ITSELF),
    noted("--video-fps", NO_VIDEOS),
    noted("--video-timestamp-interval", NO_VIDEOS),
    noted("--video-ffmpeg-dir", NO_VIDEOS),
];

/// Commands that llama.cpp has not, and that load a model.
pub(super) const LOADS: Peer = Peer {
    name: "llama.cpp",
    commands: &["plan", "profile", "rerank", "compare", "logits"],
    tables: &[MODEL, ROWS],
};

/// Commands that llama.cpp has not, and that read a model's file.
pub(super) const READS: Peer = Peer { name: "llama.cpp", commands: &["inspect"], tables: &[MODEL] };

/// As [`READS`], with a chat template.
pub(super) const RENDERS: Peer =
    Peer { name: "llama.cpp", commands: &["template"], tables: &[MODEL, TEMPLATE] };

const TEMPLATE: &[Row] = &[is("--template --chat-template-file", "--chat-template")];
