//! The choice of a type for each matrix of a model.

use pelton_quant::DType;

use super::Quantize;
use crate::whisper::TOKEN_EMBEDDING;
use crate::{Checkpoint, Error, Tensor, Value, clip};

/// The properties of a model that the choice depends on, in addition to the tensors.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) architecture: String,
    pub(super) layers: usize,
    /// Heads and heads of keys and values in the first layer, 0 if unknown.
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) experts: usize,
    /// Whether the importance of columns is known.
    pub(super) importance: bool,
}

impl Facts {
    pub(super) fn of(model: &Checkpoint, importance: bool) -> Result<Self, Error> {
        let architecture = model.metadata().string("general.architecture")?.to_owned();
        // towers have their keys in a group
        let group = if architecture == clip::ARCHITECTURE { ".vision" } else { "" };
        // a number, or one for each layer
        let count = |key: &str| {
            let first = match model.metadata().get(&format!("{architecture}{group}.{key}")) {
                Some(Value::Array(array)) => array.values().next(),
                value => value.cloned(),
            };
            first.and_then(|v| v.as_integer()).and_then(|v| usize::try_from(v).ok()).unwrap_or(0)
        };
        Ok(Self {
            layers: count("block_count"),
            heads: count("attention.head_count"),
            kv_heads: count("attention.head_count_kv"),
            experts: count("expert_count"),
            importance,
            architecture,
        })
    }

    fn is_falcon(&self) -> bool {
        self.architecture == "falcon"
    }

    /// Query heads for each head of keys and values.
    fn group(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// The models of 80 layers that llama.cpp calls 70B, whose eight query heads share one of
    /// values.
    fn is_70b(&self) -> bool {
        let known = ["llama", "qwen2", "deci", "olmo"].contains(&self.architecture.as_str());
        known && self.layers == 80 && (self.architecture != "llama" || self.heads != self.kv_heads)
    }
}

/// A tensor's name, and its shape with the innermost dimension first.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a [usize],
}

/// The purpose of a matrix, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Output,
    Embedding,
    /// Attention's values, alone or in one matrix with queries and keys.
    Values,
    Keys,
    AttentionOutput,
    /// The last matrix of a feed-forward network or of experts.
    Down,
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        let is = |part: &str| name.contains(part);
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" | TOKEN_EMBEDDING => {
                Self::Embedding
            }
            _ if ["attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"].into_iter().any(is) => {
                Self::Values
            }
            _ if is("attn_k.weight") => Self::Keys,
            _ if is("attn_output.weight") => Self::AttentionOutput,
            _ if is("ffn_down") => Self::Down,
            _ => Self::Other,
        }
    }
}

/// The place of a matrix among those of its role.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    count: usize,
}

impl Place {
    /// Whether the matrix has more bits: in the first and the last eighth, and every third of the
    /// others.
    fn has_more(self) -> bool {
        let eighth = self.count / 8;
        self.index < eighth || self.index >= 7 * self.count / 8 || (self.index - eighth) % 3 == 2
    }

    /// Whether the matrix is in the first part of `parts`.
    fn is_first(self, parts: usize) -> bool {
        self.index < self.count / parts
    }
}

/// The type of each tensor in a mixture, or `None` for those that keep theirs. They are counted in
/// the order of layers, and of names within one.
pub(super) fn types(mix: Quantize, facts: &Facts, tensors: &[Entry<'_>]) -> Vec<Option<DType>> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&i| (layer_of(tensors[i].name), tensors[i].name));
    let tied = !tensors.iter().any(|tensor| tensor.name == "output.weight");
    let values = tensors.iter().filter(|tensor| Role::of(tensor.name) == Role::Values).count();
    let (mut of_values, mut of_downs) = (0, 0);
    let mut all = vec![None; tensors.len()];
    for i in order {
        let tensor = tensors[i];
        if is_exempt(tensor) || is_convolution(tensor.name) {
            continue;
        }
        if matches!(mix, Quantize::F32 | Quantize::F16 | Quantize::BF16) {
            all[i] = Some(mix.base());
            continue;
        }
        let place = |next: &mut usize, count| {
            *next += 1;
            Place { index: *next - 1, count }
        };
        let wanted = match Role::of(tensor.name) {
            Role::Output => of_output(mix, facts),
            Role::Embedding if tied => of_output(mix, facts),
            _ if mix == Quantize::MXFP4_MOE => match tensor.shape.get(2) {
                Some(2..) => DType::MXFP4,
                _ => DType::Q8_0,
            },
            Role::Values => of_value(mix, facts, place(&mut of_values, values)),
            Role::Keys if facts.experts == 8 => DType::Q8_0,
            Role::AttentionOutput => of_attention_output(mix, facts),
            Role::Down => {
                let mut place = place(&mut of_downs, facts.layers);
                if facts.experts > 1 {
                    // experts may be in any order
                    place.index = layer_of(tensor.name).unwrap_or(place.index);
                }
                of_down(mix, facts, place)
            }
            Role::Embedding if mix == Quantize::Q2_0 => DType::Q4_K,
            Role::Embedding | Role::Keys | Role::Other => mix.base(),
        };
        all[i] = Some(fitting(wanted, tensor.shape[0]));
    }
    all
}

fn of_output(mix: Quantize, facts: &Facts) -> DType {
    match mix {
        Quantize::Q8_0 | Quantize::MXFP4_MOE => DType::Q8_0,
        _ if facts.is_falcon() => DType::Q8_0,
        _ => DType::Q6_K,
    }
}

fn of_value(mix: Quantize, facts: &Facts, place: Place) -> DType {
    use Quantize::*;
    let grouped = facts.group() >= 4;
    let wanted = match mix {
        Q2_K | Q2_K_S if grouped => DType::Q4_K,
        Q2_K => DType::Q3_K,
        Q3_K_M if place.index < 2 => DType::Q5_K,
        Q3_K_M => DType::Q4_K,
        Q3_K_L => DType::Q5_K,
        IQ4_NL | IQ4_XS if grouped => DType::Q5_K,
        Q4_K_M | Q5_K_M if place.has_more() => DType::Q6_K,
        Q4_K_S if place.index < 4 => DType::Q5_K,
        _ => mix.base(),
    };
    match wanted {
        _ if facts.experts == 8 => DType::Q8_0,
        DType::Q3_K | DType::Q4_K if facts.is_70b() => DType::Q5_K,
        _ => wanted,
    }
}

fn of_attention_output(mix: Quantize, facts: &Facts) -> DType {
    use Quantize::*;
    match mix {
        Q3_K_L if facts.is_falcon() => DType::Q4_K,
        _ if facts.is_falcon() => mix.base(),
        Q2_K | Q3_K_S | Q3_K_M | Q4_K_S | Q4_K_M | IQ4_NL | IQ4_XS if facts.experts == 8 => {
            DType::Q5_K
        }
        _ if facts.experts == 8 => mix.base(),
        Q2_K => DType::Q3_K,
        Q3_K_M => DType::Q4_K,
        Q3_K_L => DType::Q5_K,
        _ => mix.base(),
    }
}

fn of_down(mix: Quantize, facts: &Facts, place: Place) -> DType {
    use Quantize::*;
    let falcon = facts.is_falcon();
    match mix {
        Q2_K => DType::Q3_K,
        Q2_K_S if place.is_first(8) => DType::Q4_K,
        Q3_K_M if place.is_first(16) => DType::Q5_K,
        Q3_K_M if !falcon || place.has_more() => DType::Q4_K,
        Q3_K_L if falcon => DType::Q4_K,
        Q3_K_L => DType::Q5_K,
        Q4_K_M if falcon && place.is_first(16) => DType::Q6_K,
        Q4_K_M if falcon && place.has_more() => DType::Q5_K,
        Q4_K_M if !falcon && place.has_more() => DType::Q6_K,
        IQ4_NL | IQ4_XS if place.is_first(8) && !facts.importance => DType::Q5_K,
        Q5_K_M if place.has_more() => DType::Q6_K,
        Q4_K_S if !falcon && place.is_first(8) => DType::Q5_K,
        Q4_0 if place.is_first(8) && facts.importance => DType::Q4_1,
        Q5_0 if place.is_first(8) && facts.importance => DType::Q5_1,
        _ => mix.base(),
    }
}

/// The layer in a tensor's name, such as 3 of `blk.3.attn_q.weight`.
fn layer_of(name: &str) -> Option<usize> {
    let name = name.strip_prefix("v.").unwrap_or(name);
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// The type, or one with smaller blocks for rows that it does not divide.
pub(super) fn fitting(wanted: DType, row: usize) -> DType {
    let smaller = match wanted {
        _ if row.is_multiple_of(wanted.block_len()) => return wanted,
        DType::Q2_K | DType::Q3_K | DType::Q2_0 => DType::Q4_0,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        DType::IQ4_XS => DType::IQ4_NL,
        _ => DType::F16,
    };
    if row.is_multiple_of(smaller.block_len()) { smaller } else { DType::F16 }
}

/// Whether a tensor keeps its type in every mixture: a vector, a norm, a router, positions, small
/// matrices of recurrent layers, and those of towers that llama.cpp reads in floats alone.
pub(super) fn is_exempt(tensor: Entry<'_>) -> bool {
    const PARTS: [&str; 17] = [
        "_norm.weight",
        "ffn_gate_inp",
        "ffn_gate_tid2eid.weight",
        "position_embd",
        "token_types",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "rope_",
        "attn_rel_b.weight",
        "indexer.k_proj.weight",
        "indexer.q_proj.weight",
        ".patch_embd",
        "mm.patch_merger",
        "mm.input_projection",
    ];
    let rows: usize = tensor.shape.iter().skip(1).product();
    let matrix = rows > 1 && tensor.name.ends_with(".weight");
    !matrix || PARTS.iter().any(|part| tensor.name.contains(part))
}

/// Whether a tensor is the kernel of a convolution of Whisper, whose rows have three values: it
/// stays in F16 or F32.
pub(super) fn is_convolution(name: &str) -> bool {
    matches!(name, "encoder.conv1.weight" | "encoder.conv2.weight")
}

/// Whether a tensor's values are floats, of which a quantized tensor is made.
pub(super) fn is_float(tensor: &Tensor<'_>) -> bool {
    matches!(tensor.dtype, DType::F32 | DType::F16 | DType::BF16)
}

#[cfg(test)]
mod tests;
