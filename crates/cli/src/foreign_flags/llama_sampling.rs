//! The sampling options of llama.cpp's programs, which Pelton has for `run`, `chat` and `serve`.

use super::{
    convert,
    table::{Row, by, flag, is, noted_flag},
};

pub(super) const ROWS: &[Row] = &[
    by("--samplers", convert::samplers, "--samplers"),
    by("-s --seed", convert::from_zero, "--seed"),
    by("--sampler-seq --sampling-seq", convert::sampler_letters, "--samplers"),
    flag("--ignore-eos", "--ignore-eos"),
    is("--temp --temperature", "--temperature").env("LLAMA_ARG_TEMPERATURE"),
    is("--top-k", "--top-k").env("LLAMA_ARG_TOP_K"),
    is("--top-p", "--top-p").env("LLAMA_ARG_TOP_P"),
    is("--min-p", "--min-p").env("LLAMA_ARG_MIN_P"),
    is("--top-nsigma --top-n-sigma", "--top-n-sigma"),
    is("--xtc-probability", "--xtc-probability"),
    is("--xtc-threshold", "--xtc-threshold"),
    is("--typical --typical-p", "--typical-p"),
    is("--repeat-last-n", "--penalty-window"),
    is("--repeat-penalty", "--repetition-penalty").env("LLAMA_ARG_REPEAT_PENALTY"),
    is("--presence-penalty", "--presence-penalty").env("LLAMA_ARG_PRESENCE_PENALTY"),
    is("--frequency-penalty", "--frequency-penalty").env("LLAMA_ARG_FREQUENCY_PENALTY"),
    is("--dry-multiplier", "--dry-multiplier"),
    is("--dry-base", "--dry-base"),
    is("--dry-allowed-length", "--dry-allowed-length"),
    is("--dry-penalty-last-n", "--dry-window"),
    is("--dry-sequence-breaker", "--dry-breaker"),
    is("--adaptive-target", "--adaptive-target"),
    is("--adaptive-decay", "--adaptive-decay"),
    is("--dynatemp-range", "--dynatemp-range"),
    is("--dynatemp-exp", "--dynatemp-exponent"),
    is("--mirostat", "--mirostat"),
    is("--mirostat-lr", "--mirostat-eta"),
    is("--mirostat-ent", "--mirostat-tau"),
    by("-l --logit-bias", convert::bias, "--logit-bias"),
    is("--grammar", "--grammar"),
    is("--grammar-file", "--grammar"),
    is("-j --json-schema", "--json-schema"),
    is("-jf --json-schema-file", "--json-schema"),
    noted_flag("-bs --backend-sampling", "sampling runs where the logits are"),
    by("-n --predict --n-predict", convert::from_zero, "--tokens").env("LLAMA_ARG_N_PREDICT"),
    is("-r --reverse-prompt", "--stop"),
];

/// Spellings of lengths that other programs have.
pub(super) const LENGTH: &[Row] = &[
    by("--num-predict --max-tokens --max-new-tokens", convert::from_zero, "--tokens"),
    by("--max-model-len", convert::context, "--context"),
];
