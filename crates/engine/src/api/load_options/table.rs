//! The table of all options of a load, from which the command line, the C API and Python are made.

use std::time::Duration;

use pelton_graph::{KvType, PAGE};
use pelton_weights::MAX_SIZE;

use super::{
    metadata::{MetadataChange, RopeScaling},
    options::{DraftSource, KvMemory, LoadOptions},
};
use crate::api::effort::EffortLevel;

/// The most requests of a model that run at the same time.
pub(crate) const SEQUENCES_MAX: usize = 4096;
/// The most rows of a pass: with them every GPU's limit of workgroups holds.
pub(crate) const ROWS_MAX: usize = 16_384;
/// The greatest integer of an option without one.
const ANY: usize = usize::MAX;

/// An option of [`LoadOptions`]: its names, its values, its help, and what a value changes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LoadOption {
    /// The name in the C API, and in sentences.
    pub name: &'static str,
    /// The keyword argument of Python.
    pub python: &'static str,
    /// The flag of the command line, without its dashes; `None` where the commands choose the
    /// value, or another flag does.
    pub flag: Option<&'static str>,
    /// The value's name in the flag's help.
    pub value_name: &'static str,
    /// The commands that have the flag.
    pub group: LoadGroup,
    /// The type and the range, and the change of the options.
    pub kind: LoadKind,
    /// The default in words, as [`set`](Self::set) reads it; `None` if it depends on the
    /// model or the machine.
    pub default: Option<&'static str>,
    /// The effect, without a full stop.
    pub help: &'static str,
}

/// The commands that have an option as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadGroup {
    /// All commands that load a model.
    Model,
    /// Those, and the command that explains a placement.
    Placement,
    /// Those that generate text.
    Drafts,
    /// Those that compute embeddings.
    Embeddings,
    /// The server, which has many requests at the same time.
    Requests,
}

/// The type of an option's values, their range, and what a value changes. The error of a text is a
/// clause that begins with *expected*.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LoadKind {
    /// Yes or no.
    Switch(fn(&mut LoadOptions, bool)),
    /// An integer between a least and a greatest one.
    Integer(usize, usize, fn(&mut LoadOptions, usize)),
    /// Bytes, from a least number on.
    Bytes(u64, fn(&mut LoadOptions, u64)),
    /// A time.
    Time(fn(&mut LoadOptions, Duration)),
    /// One of several words.
    Words(&'static [&'static str], fn(&mut LoadOptions, &str) -> Result<(), String>),
    /// A text; what it can be in words.
    Text(&'static str, fn(&mut LoadOptions, &str) -> Result<(), String>),
    /// Any number of texts, each of which adds to the option; what each can be in words.
    List(&'static str, fn(&mut LoadOptions, &str) -> Result<(), String>),
}

/// The values of a factor in words.
const POSITIVE: &str = "a number above 0";

fn positive(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("expected {POSITIVE}"))
}

/// A row of an option without a flag and a default.
const fn row(name: &'static str, kind: LoadKind, help: &'static str) -> LoadOption {
    let (python, group) = (name, LoadGroup::Model);
    LoadOption { name, python, flag: None, value_name: "N", group, kind, default: None, help }
}

impl LoadOption {
    const fn flag(mut self, group: LoadGroup, flag: &'static str, value: &'static str) -> Self {
        (self.flag, self.group, self.value_name) = (Some(flag), group, value);
        self
    }

    const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    const fn python(mut self, name: &'static str) -> Self {
        self.python = name;
        self
    }
}

use LoadGroup::{Drafts, Embeddings, Model, Placement, Requests};
use LoadKind::{Bytes, Integer, List, Switch, Text, Time, Words};

impl LoadOptions {
    /// All options of a load that a text can set. A new option is a row here, and
    /// its effect in a load.
    pub const OPTIONS: &'static [LoadOption] = &[
        row(
            "context",
            Integer(0, ANY, |to, tokens| match tokens {
                0 => (to.context, to.fit_context) = (None, true),
                tokens => to.context = Some(tokens),
            }),
            "Set the context in tokens, for a prompt and its answer. 0 takes as much of the model's own \
             as half of the free memory holds",
        )
        .flag(Model, "context", "N"),
        row(
            "fit_context",
            Switch(|to, fit| to.fit_context = fit),
            "Fit the context to the model and the machine: cut one that is too long for the model. \
             Without one, take as much of the model's own as half of the free memory holds",
        )
        .default("false"),
        row(
            "max_concurrent",
            Integer(1, SEQUENCES_MAX, |to, requests| to.max_concurrent = Some(requests)),
            "Run at most N requests of a model at the same time; they share the memory for keys and values",
        )
        .flag(Requests, "parallel", "N"),
        row(
            "rows",
            Integer(PAGE, ROWS_MAX, |to, rows| to.rows = Some(rows)),
            "Compute at most N tokens of prompts in one pass",
        ),
        row(
            "pooling",
            Words(&["mean", "cls", "last", "none"], |to, text| {
                to.pooling = Some(text.parse()?);
                Ok(())
            }),
            "Set the pooling of embeddings in place of the file's; an encoder without one needs it. cls is \
             the first token, last the last, and none an embedding a token",
        )
        .flag(Embeddings, "pooling", "METHOD"),
        row(
            "lora",
            List("a path, or a path, = and a scale", |to, text| {
                to.loras.push(text.parse()?);
                Ok(())
            }),
            "Apply a LoRA adapter to all texts, with a scale that is 1 by default; may be given several \
             times. An adapter is a .gguf file, or a directory that PEFT saved",
        )
        .flag(Model, "lora", "PATH[=SCALE]")
        .python("loras"),
        row(
            "quantize",
            Text("the name of a mixture, such as Q4_K_M", |to, text| {
                to.quantize = Some(text.parse()?);
                Ok(())
            }),
            "Convert matrices of F32, F16 and BF16 to block formats while the model is loaded: q8_0, \
             q6_k, q4_k_m, q4_0 or another type of `pelton quantize`",
        )
        .flag(Model, "quantize", "TYPE"),
        row(
            "override_kv",
            List(MetadataChange::EXPECTED, |to, text| {
                to.metadata.push(text.parse()?);
                Ok(())
            }),
            "Take this value in place of the metadata's: KEY=TYPE:VALUE with the type int, float, bool or str. \
             A * at the beginning of KEY is the architecture; may be given several times",
        )
        .flag(Model, "override-kv", "KEY=TYPE:VALUE"),
        row(
            "rope_scaling",
            Words(&RopeScaling::NAMES, |to, text| {
                to.rope.scaling = Some(text.parse()?);
                Ok(())
            }),
            "Extend the context by this method in place of the file's, with the factor of --rope-scale: none, \
             linear or yarn",
        )
        .flag(Model, "rope-scaling", "METHOD"),
        row(
            "rope_scale",
            Text(POSITIVE, |to, text| {
                to.rope.factor = Some(positive(text)?);
                Ok(())
            }),
            "Extend the context by this factor",
        )
        .flag(Model, "rope-scale", "FACTOR"),
        row(
            "yarn_orig_ctx",
            Integer(1, MAX_SIZE, |to, tokens| to.rope.original_context = Some(tokens)),
            "Set the context before the extension by yarn. By default it is the file's",
        )
        .flag(Model, "yarn-orig-ctx", "N"),
        row(
            "rope_freq_base",
            Text(POSITIVE, |to, text| {
                to.rope.base = Some(positive(text)?);
                Ok(())
            }),
            "Set the base of the frequencies of rotations in place of the file's",
        )
        .flag(Model, "rope-freq-base", "N"),
        row(
            "kv",
            Text(KvType::EXPECTED, |to, text| {
                to.kv = text.parse()?;
                Ok(())
            }),
            "Set the element type of keys and values: f16, f32 (twice the memory), bf16, q8_0 (half the memory, \
             a little less exact), q5_1, q5_0, q4_1, q4_0 or iq4_nl (a quarter); with a slash, \
             one of keys and one of values, such as q8_0/q4_0",
        )
        .flag(Model, "kv", "TYPE")
        .default("f16"),
        row(
            "kv_memory",
            Text(KvMemory::EXPECTED, |to, text| {
                to.kv_memory = text.parse()?;
                Ok(())
            }),
            "Limit the memory for keys and values: auto is what all sequences need, 2G are bytes, and 50% \
             is a part of the free memory",
        )
        .flag(Model, "kv-memory", "SIZE")
        .default("auto"),
        row(
            "kv_bytes",
            Bytes(1, |to, bytes| to.kv_memory = KvMemory::Bytes(bytes)),
            "Limit the memory for keys and values to these bytes",
        ),
        row(
            "kv_share",
            Text("a number above 0 and at most 1", |to, text| {
                let share = text.parse().ok().filter(|&share: &f32| share > 0.0 && share <= 1.0);
                let share = share.ok_or("expected a number above 0 and at most 1")?;
                to.kv_memory = KvMemory::ShareOfFree(share);
                Ok(())
            }),
            "Limit the memory for keys and values to this part of the free memory",
        ),
        row(
            "gpu_layers",
            Integer(0, ANY, |to, layers| to.placement.gpu_layers = Some(layers)),
            "Run the last N layers on the GPU and the others on the CPU, as llama.cpp's -ngl. The output \
             counts as a layer; 0 is the CPU alone. By default as many as the GPU's memory holds",
        )
        .flag(Placement, "gpu-layers", "N"),
        row(
            "host_experts",
            Text("auto or a number", |to, text| {
                to.placement.host_experts = Some(text.parse()?);
                Ok(())
            }),
            "Keep the experts of the first N layers in the CPU's memory. The CPU computes them for each \
             token; for prompts the GPU reads them from there. N can be auto: as few as the GPU's memory \
             demands. llama.cpp's --n-cpu-moe means the same, and is ignored for models without experts",
        )
        .flag(Placement, "host-experts", "N"),
        row(
            "host_ffn",
            Text("auto or a number", |to, text| {
                to.placement.host_ffn = Some(text.parse()?);
                Ok(())
            }),
            "Keep all feed-forwards of the first N layers, or of auto, in the CPU's memory, also in \
             models without experts",
        )
        .flag(Placement, "host-ffn", "N"),
        row(
            "stream_from",
            Integer(0, ANY, |to, tokens| to.placement.stream_from = Some(tokens)),
            "Stream weights from the CPU's memory for prompts of N tokens and more, where experts or \
             feed-forwards stay there. By default from the length that a measurement finds faster",
        )
        .flag(Placement, "stream-from", "N"),
        row(
            "split",
            List("numbers of layers with commas, such as 20,12", |to, text| {
                let layers = text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
                let layers = layers.map_err(|_| "expected numbers of layers, such as 20,12")?;
                to.placement.split.extend(layers);
                Ok(())
            }),
            "Run this many layers on each of several GPUs, such as 20,12; by default as many bytes on each, \
             or as many as its memory holds",
        )
        .flag(Placement, "split", "N,N"),
        row(
            "gpu_memory",
            Bytes(1, |to, bytes| to.placement.gpu_memory = Some(bytes)),
            "Choose layers as if a GPU, and each of several, had only this memory free",
        )
        .flag(Placement, "fit-budget", "GPU=SIZE"),
        row(
            "gpu_margin",
            Bytes(0, |to, bytes| to.placement.gpu_margin = Some(bytes)),
            "Leave SIZE of the GPU's memory free when layers are chosen: bytes with a suffix K, M or G. By \
             default 1/32 of what is free, and at least 256M",
        )
        .flag(Placement, "fit-margin", "SIZE"),
        row(
            "queue_requests",
            Integer(1, ANY, |to, requests| to.queue_requests = requests),
            "Let at most N requests wait for their start",
        )
        .flag(Requests, "queue", "N")
        .default("1024"),
        row(
            "queue_tokens",
            Integer(1, ANY, |to, tokens| to.queue_tokens = tokens),
            "Let the requests that wait have at most N prompt tokens",
        )
        .flag(Requests, "queue-tokens", "N")
        .default("1048576"),
        row(
            "prefill_budget",
            Time(|to, time| to.prefill_budget = time),
            "Let a pass over prompts take at most this time while other requests generate",
        )
        .default("100ms"),
        row(
            "target_ttft",
            Time(|to, time| to.target_ttft = time),
            "Aim at this time from a request's arrival to its first token, while others are answered: \
             prompts that would be late get more of the time",
        )
        .flag(Requests, "target-ttft", "MS")
        .default("500ms"),
        row(
            "target_tbt",
            Time(|to, time| to.target_tbt = time),
            "Aim at this time between two tokens, while prompts are computed: a larger one lets prompts \
             take longer passes",
        )
        .flag(Requests, "target-tbt", "MS")
        .default("25ms"),
        row(
            "speculation",
            Words(&["auto", "off", "always"], |to, text| {
                to.speculation = text.parse()?;
                Ok(())
            }),
            "Draft tokens and verify several at a time, which changes the speed and never the text. auto \
             drafts where that is expected to be faster",
        )
        .flag(Drafts, "speculate", "WHEN")
        .default("auto"),
        row(
            "draft",
            Text("a model, built-in or mtp", |to, text| {
                to.draft = Some(text.parse()?);
                Ok(())
            }),
            "Draft tokens by a small model with the same vocabulary: a file, a directory or built-in. Or by \
             the head in the model's own file (nextn tensors), the default where there is one: mtp",
        )
        .flag(Drafts, "draft", "MODEL"),
        row(
            "draft_head",
            Switch(|to, head| to.draft = head.then_some(DraftSource::Head)),
            "Draft tokens by the head in the model's own file; a file without one is refused",
        ),
        row(
            "pictures",
            Words(&["on", "off"], |to, text| {
                to.pictures = match text {
                    "on" => true,
                    "off" => false,
                    _ => return Err("expected on or off".to_owned()),
                };
                Ok(())
            }),
            "Load the vision tower of the model, if it has one",
        )
        .flag(Model, "pictures", "WHEN")
        .default("on"),
        row(
            "mmproj",
            Text("a GGUF file or a directory", |to, text| {
                if text.is_empty() {
                    return Err("expected a GGUF file or a directory".to_owned());
                }
                to.tower = Some(text.into());
                Ok(())
            }),
            "Load the vision tower of this file. By default it is the mmproj file in the model's directory, \
             if there is one",
        )
        .flag(Model, "mmproj", "FILE"),
        row(
            "picture_tokens",
            Integer(1, ROWS_MAX, |to, tokens| to.picture_tokens = Some(tokens)),
            "Let a picture become at most so many tokens. By default it is 4096",
        )
        .flag(Model, "image-max-tokens", "N"),
        row(
            "picture_tokens_min",
            Integer(1, ROWS_MAX, |to, tokens| to.picture_tokens_min = Some(tokens)),
            "Let a picture become at least so many tokens, where its model's family allows that. By default the \
             files of the model say how many",
        )
        .flag(Model, "image-min-tokens", "N"),
        row(
            "effort",
            Text("a number above 0 and at most 1", |to, text| {
                to.effort = Some(text.parse::<EffortLevel>()?.into());
                Ok(())
            }),
            "Read only this fraction of the weights for a generated token: less is faster and less exact",
        )
        .flag(Model, "effort", "E"),
    ];
}
