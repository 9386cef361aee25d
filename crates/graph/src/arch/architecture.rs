//! The differences between architectures, as data.

use crate::{Activation, Gating, NormKind, RopeStyle, Scores};

/// Whether a checkpoint has the tensors of an optional component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The architecture does not have the component.
    Never,
    /// The component exists if its tensors do.
    IfPresent,
    /// A checkpoint without its tensors is refused.
    Required,
}

/// The properties in which architectures differ and that neither a key nor the presence of a tensor
/// shows.
///
/// Biases, a tied output, fused tensors, sinks, shared experts and the like exist if their tensors
/// do. Sizes and factors come from the file's keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// Its `general.architecture`.
    pub name: &'static str,
    /// The formula of all norms of rows.
    pub norm: NormKind,
    /// Whether norms of rows have no factors.
    pub bare_norms: bool,
    /// Added under the root of norms of branches' results, if not the same as in other norms. The
    /// key `attention.post_norm_rms_epsilon` replaces it.
    pub post_norm_eps: Option<f32>,
    /// The places of norms and residual sums in a layer.
    pub block: Block,
    /// The tensor of the norm before the feed-forward network.
    pub ffn_norm: &'static str,
    /// The factor of embeddings.
    pub embed: Embed,
    /// Biases of the query, key and value linears.
    pub qkv_bias: Presence,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether values have a root-mean-square norm without factors; without `attn_v` they are the
    /// keys before norm and rotation then.
    pub value_norm: bool,
    /// Whether the rows of `attn_q` are a query and a gate for each head, whose sigmoid multiplies
    /// the head's result.
    pub query_gate: bool,
    /// The activation of the gate `attn_gate` of attention's results, which has a row for each
    /// element or for each head.
    pub attention_gate: Option<Activation>,
    /// Rotary embeddings.
    pub rope: RopeRule,
    /// Biases of the scores by the distance of rows.
    pub alibi: Alibi,
    /// The rows of a picture that see each other, in a model with a vision tower.
    pub pictures: PictureMask,
    /// Windows of attention.
    pub window: Window,
    /// The factor of the scores of attention.
    pub scale: AttentionScale,
    /// The growth of queries with the position.
    pub temper: Temper,
    /// The mixers of the layers.
    pub mixer: MixerRule,
    /// Whether layers may lack attention (no heads) or a network (no width), or have the output
    /// linear alone (no key-value heads).
    pub sparse_layers: bool,
    /// The tensor of the norm after the last layer.
    pub output_norm: &'static str,
    /// The dense feed-forward network.
    pub ffn: FeedForward,
    /// Whether a plain network's activation is xIELU, with factors of each layer.
    pub xielu: bool,
    /// The networks whose widths the key `feed_forward_length` is the sum of.
    pub ffn_parts: usize,
    /// The mixture of experts of the layers that have a router.
    pub moe: Option<Moe>,
    /// Factors of the embeddings, of each branch and of the scores of attention.
    pub multipliers: Multipliers,
    /// The use of the key `logit_scale`.
    pub logit_scale: LogitScale,
    /// Whether scores and logits are bounded where their keys exist.
    pub softcap: bool,
    /// Whether the last `attention.shared_kv_layers` layers have no keys and values of their own,
    /// and layers may have embeddings of their own.
    pub gemma_extras: bool,
    /// The result.
    pub head: Head,
    /// Whether layers after the last one, if a file has any, predict further tokens in the form of
    /// DeepSeek-V3 (arXiv 2412.19437, section 2.2).
    pub next_token_heads: bool,
    /// Tensors that files may carry and the plan does not read: starts of their names, without
    /// `blk.N.`.
    pub unused: &'static [&'static str],
}

/// The places of norms and residual sums in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// A norm before each branch.
    Pre,
    /// A norm before each branch and one of its result, before the sum.
    Sandwich,
    /// A norm before each branch, and one of its result where the layer has it.
    SandwichIfPresent,
    /// A norm of each branch's result, before the sum.
    PostBranch,
    /// A norm of each sum.
    PostResidual,
    /// Both branches start from the layer's input. They have norms of their own if the file has two
    /// (`attn_norm_2` for attention, or else the one before the feed-forward network).
    Parallel,
    /// `Parallel` if the key `use_parallel_residual` is true, else `Pre`.
    ParallelByKey,
    /// `Parallel` without a norm before the feed-forward network, else `Pre`.
    ParallelWithoutNorm,
    /// One branch with a norm before it: the mixer, or the feed-forward network on layers whose
    /// width `feed_forward_length` is above 0.
    Single,
}

/// The factor of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embed {
    /// 1.
    One,
    /// The root of the width of the residual stream.
    SqrtHidden,
    /// The factor of a root-mean-square norm.
    Normed,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// A norm of each head `[head_dim]`.
    Head(Presence),
    /// A norm of each head with factors of its own `[heads, head_dim]`, if present.
    HeadEach,
    /// A norm of each head `[head_dim]`, without factors where a file has none.
    HeadOrBare,
    /// One norm of all heads together `[heads · head_dim]`.
    Row,
    /// A norm of each rotated head `[head_dim]`, after the rotation.
    HeadAfterRope,
    /// A norm of each rotated head, without factors and after the rotation. Models of 128 experts
    /// have none (Llama 4 Maverick).
    BareAfterRope,
}

/// Rotary embeddings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeRule {
    /// The pairing of the elements of query and key heads in GGUF files.
    pub style: RopeStyle,
    /// The axes of pairs.
    pub axes: RopeAxes,
    /// The layers without rotation.
    pub off: RopeOff,
    /// The base of windowed layers if the file does not have `rope.freq_base_swa`; `None` for that
    /// of the others.
    pub local_base: Option<f32>,
    /// Whether the context extension holds for windowed layers.
    pub local_scaled: bool,
    /// Whether the bounds of YaRN's blend are rounded to whole pairs.
    pub yarn_truncate: bool,
}

/// The axes of the pairs of a head, where the key `rope.dimension_sections` has the pairs of each:
/// time, row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeAxes {
    /// All pairs rotate by the position.
    One,
    /// The pairs of an axis lie side by side (Qwen2-VL, arXiv 2409.12191).
    Blocked,
    /// Axes take turns, and the pairs left over have time (Qwen3-VL, arXiv 2511.21631).
    Interleaved,
}

/// Biases of the scores of attention by the distance of rows (ALiBi, arXiv 2108.12409).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alibi {
    /// None.
    None,
    /// Slopes have this greatest exponent.
    Fixed(f32),
    /// As `Fixed`, in models of that many layers; others have none.
    FixedAt(f32, usize),
    /// The key `attention.max_alibi_bias` has the greatest exponent; none without it or with 0.
    Key,
}

/// The rows of a picture that see later rows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureMask {
    /// None.
    Causal,
    /// All, in all layers.
    Whole,
    /// All in layers with a window, by the key `attention.bidirectional_pictures`. Without it they
    /// do in models that are wider than these two.
    WholeInWindows([usize; 2]),
}

/// The layers without rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeOff {
    /// None.
    Never,
    /// All.
    Always,
    /// All in models of that many layers.
    AlwaysAt(usize),
    /// Every `n`-th layer.
    Every(usize),
    /// Layers without a window, in a model that has windows.
    Unwindowed,
    /// Layers without a window.
    Full,
    /// All if the key `rope.scaling.finetuned` is false.
    Key,
    /// Those of the key `attention.rope_pattern`, which is true for layers that rotate; none
    /// without it.
    Pattern,
    /// Layers without a window after the first `leading_dense_block_count`.
    UnwindowedExperts,
}

impl RopeRule {
    /// Pairs in halves on all layers.
    pub const HALVES: Self = Self {
        style: RopeStyle::Halves,
        axes: RopeAxes::One,
        off: RopeOff::Never,
        local_base: None,
        local_scaled: true,
        yarn_truncate: true,
    };
    /// Adjacent pairs on all layers. Directories of some architectures have halves instead: see
    /// [`interleaves_heads`](pelton_weights::interleaves_heads).
    pub const INTERLEAVED: Self = Self { style: RopeStyle::Interleaved, ..Self::HALVES };
    /// No rotation.
    pub const NONE: Self = Self { off: RopeOff::Always, ..Self::HALVES };
    /// Pairs in halves; windowed layers have base 10,000 and no context extension.
    pub const LOCAL: Self =
        Self { local_base: Some(10_000.0), local_scaled: false, ..Self::HALVES };
}

/// Windows of attention, if the key `attention.sliding_window` or a default gives their width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The windowed layers if the key `attention.sliding_window_pattern` does not tell.
    pub pattern: Pattern,
    /// Whether a window is a chunk of positions in place of the last ones.
    pub chunked: bool,
    /// The width without the key; `None` for no windows.
    pub default: Option<usize>,
}

/// The windowed layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All.
    All,
    /// All but the last of every `n`.
    LastFull(usize),
    /// All but the first of every `n`.
    FirstFull(usize),
}

impl Window {
    /// All layers.
    pub const ALL: Self = Self { pattern: Pattern::All, chunked: false, default: None };

    /// All layers but the last of every `n`.
    pub const fn period(n: usize) -> Self {
        Self { pattern: Pattern::LastFull(n), ..Self::ALL }
    }
}

/// The factor of the scores of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionScale {
    /// One over the root of a key's length.
    HeadDim,
    /// 1.
    One,
    /// One over a key's length.
    PerHeadDim,
    /// The key `attention.scale`, or that of `HeadDim` without it.
    Key,
    /// By the key `attention.scale`. Without it models of that many layers have one over the root
    /// of the residual stream's width per head, others that of `HeadDim`.
    HiddenOverHeadsAt(usize),
}

/// The growth of queries with the logarithm of the position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temper {
    /// None.
    None,
    /// On all layers by the key `attention.temperature_scale`, in steps of the original context.
    Key,
    /// On layers without rotation, with this factor, step and offset; keys replace the first two.
    Unrotated(f32, usize, usize),
}

/// The mixers of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixerRule {
    /// Attention.
    Attention,
    /// Latent attention with absorbed matrices (DeepSeek-V2, arXiv 2405.04434, section 2.1).
    Latent,
    /// Gated delta rule, and attention on every `full_attention_interval`-th layer.
    Delta {
        /// Whether value head `h` reads key head `h % key_heads`: checkpoints have reordered heads.
        tiled: bool,
    },
    /// Gated short convolutions, and attention on layers with KV heads.
    ShortConv,
    /// Selective scans, and attention on layers with KV heads. Layers of [`Block::Single`] may
    /// have neither.
    Scan,
    /// A selective scan and attention in parallel on all layers.
    ScanAndAttention,
}

/// The dense feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForward {
    /// `down(activation(gate(x)) · up(x))`.
    Gated(Activation),
    /// `down(activation(up(x)))`.
    Plain(Activation),
}

/// The mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moe {
    /// The scores if the key `expert_gating_func` does not tell.
    pub scores: Scores,
    /// As `scores`, where the choice has a bias.
    pub biased_scores: Scores,
    /// Whether weights are divided by their sum if the key `expert_weights_norm` does not tell.
    pub normalize: bool,
    /// The gated product of an expert; `None` for that of the dense network.
    pub gating: Option<Gating>,
    /// Whether the weight multiplies the expert's input in place of its result.
    pub weigh_input: bool,
    /// Whether layers with experts have a dense network too, in parallel and with norms of its own.
    pub with_dense: bool,
    /// Whether the result is the mean of the chosen experts and the shared ones in place of their
    /// sum.
    pub mean_of_shared: bool,
}

impl Moe {
    /// The softmax of all logits, the weights of the chosen ones divided by their sum.
    pub const NORMALIZED: Self = Self {
        scores: Scores::Softmax,
        // a bias came with DeepSeek V3's sigmoid; files of its architecture need not tell
        biased_scores: Scores::Sigmoid,
        normalize: true,
        gating: None,
        weigh_input: false,
        with_dense: false,
        mean_of_shared: false,
    };
    /// The softmax of all logits.
    pub const SOFTMAX: Self = Self { normalize: false, ..Self::NORMALIZED };
    /// The softmax of the chosen logits.
    pub const SELECTED: Self = Self { scores: Scores::SelectedSoftmax, ..Self::SOFTMAX };
    /// The sigmoid of each logit.
    pub const SIGMOID: Self = Self { scores: Scores::Sigmoid, ..Self::NORMALIZED };
}

/// Factors of the embeddings, of each branch and of the scores of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multipliers {
    /// None.
    None,
    /// The keys `embedding_scale`, `residual_scale` and `attention.scale`; 1 and the usual scale
    /// without them.
    Keys,
    /// As `Keys`, but without them 12, `1.4 / √layers`, and for logits the divisor
    /// `hidden / 256`: the values of the published models.
    MiniCpm,
}

/// The use of the key `logit_scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitScale {
    /// None.
    None,
    /// Logits are multiplied by it; 1 without the key.
    Multiply,
    /// Logits are divided by it.
    Divide,
}

/// The result of a model whose file has no pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Logits; rows see earlier ones only.
    Logits,
    /// Embeddings; rows see all rows.
    Encoder,
}

impl Architecture {
    /// The common form: root-mean-square norms before each branch, a gated feed-forward network
    /// with SiLU, rotary embeddings on all layers.
    pub const BASE: Self = Self {
        name: "",
        norm: NormKind::Rms,
        bare_norms: false,
        post_norm_eps: None,
        block: Block::Pre,
        ffn_norm: "ffn_norm",
        embed: Embed::One,
        qkv_bias: Presence::IfPresent,
        qk_norm: QkNorm::None,
        value_norm: false,
        query_gate: false,
        attention_gate: None,
        rope: RopeRule::HALVES,
        alibi: Alibi::None,
        pictures: PictureMask::Causal,
        window: Window::ALL,
        scale: AttentionScale::HeadDim,
        temper: Temper::None,
        mixer: MixerRule::Attention,
        sparse_layers: false,
        output_norm: "output_norm",
        ffn: FeedForward::Gated(Activation::Silu),
        xielu: false,
        ffn_parts: 1,
        moe: None,
        multipliers: Multipliers::None,
        logit_scale: LogitScale::None,
        softcap: false,
        gemma_extras: false,
        head: Head::Logits,
        next_token_heads: false,
        unused: &[],
    };
}
