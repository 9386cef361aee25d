//! Architectures whose rows of queries and keys have another order in GGUF files than in Hugging
//! Face directories.

use crate::{Error, Metadata, Value, clip};

/// Architectures in whose GGUF files the two halves of a head's rows are interleaved, as
/// llama.cpp's rotary embedding of them expects it.
const INTERLEAVED: [&str; 21] = [
    "arcee",
    "baichuan",
    "bailingmoe",
    "deci",
    "deepseek",
    "granite",
    "granite_swa",
    "granitehybrid",
    "granitemoe",
    "hyperclovax",
    "internlm2",
    "llama",
    "llama-embed",
    "minicpm",
    "mistral3",
    "muse-glimmer",
    "nemotron_h",
    "nemotron_h_moe",
    "olmo",
    "smollm3",
    "xverse",
];

/// Whether the two halves of a head's rows of queries and keys are interleaved in GGUF files of an
/// architecture, but not in Hugging Face directories.
pub fn interleaves_heads(architecture: &str) -> bool {
    INTERLEAVED.contains(&architecture)
}

/// The number of heads of a tensor whose rows are interleaved in GGUF files; `None` if its rows are
/// in one order everywhere.
pub(crate) fn heads_of(metadata: &Metadata, tensor: &str) -> Result<Option<usize>, Error> {
    let architecture = metadata.string("general.architecture")?;
    if clip::projector(metadata) == Some("pixtral") {
        let has_heads = tensor.contains(".attn_q.") || tensor.contains(".attn_k.");
        let heads = metadata.opt_usize("clip.vision.attention.head_count")?;
        return Ok(heads.filter(|_| has_heads));
    }
    if !interleaves_heads(architecture) {
        return Ok(None);
    }
    let layer = tensor.strip_prefix("blk.").and_then(|name| name.split_once('.'));
    let layer = layer.and_then(|(layer, _)| layer.parse::<usize>().ok()).unwrap_or(0);
    let size = |key: &str| {
        let key = format!("{architecture}.attention.{key}");
        match metadata.get(&key) {
            // layers with a state have no heads of keys
            Some(Value::Array(_)) => {
                let all = metadata.opt_i32_array(&key)?.unwrap_or_default();
                Ok(all.get(layer).and_then(|&heads| usize::try_from(heads).ok()))
            }
            _ => metadata.opt_usize(&key),
        }
    };
    match tensor {
        name if name.contains(".attn_q.") => size("head_count"),
        name if name.contains(".attn_k.") => {
            size("head_count_kv")?.map_or_else(|| size("head_count"), |heads| Ok(Some(heads)))
        }
        _ => Ok(None),
    }
}

/// The order of rows in GGUF files of these architectures: the two halves of a head's rows
/// alternate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadOrder {
    /// Half of the rows of a head.
    half: usize,
}

impl HeadOrder {
    /// The order of `rows` rows of `heads` heads, which must be a whole number of pairs each.
    pub(crate) fn new(rows: usize, heads: usize) -> Option<Self> {
        let fits = heads > 0 && rows.is_multiple_of(heads.checked_mul(2)?);
        fits.then(|| Self { half: rows / heads / 2 })
    }

    /// The row of the original order that is row `row` of the file.
    pub(crate) fn source(self, row: usize) -> usize {
        let (head, within) = (row / (2 * self.half), row % (2 * self.half));
        head * 2 * self.half + within % 2 * self.half + within / 2
    }
}
