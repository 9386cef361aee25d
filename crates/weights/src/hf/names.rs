//! Names of tensors that many architectures share (gguf-py's `tensor_mapping.py`).

use super::rules::{How, Rule, change, expert, keep, parts};
use super::transforms::gate_up_experts;

/// Embedding, last norm and output layer.
pub(super) const ENDS: &[Rule] =
    &[keep("embed_tokens", "token_embd"), keep("norm", "output_norm"), keep("lm_head", "output")];

/// Separate projections of attention.
pub(super) const ATTENTION: &[Rule] = &[
    keep("self_attn.q_proj", "attn_q"),
    keep("self_attn.k_proj", "attn_k"),
    keep("self_attn.v_proj", "attn_v"),
    keep("self_attn.o_proj", "attn_output"),
];

/// Norms of queries and keys.
pub(super) const QK_NORMS: &[Rule] =
    &[keep("self_attn.q_norm", "attn_q_norm"), keep("self_attn.k_norm", "attn_k_norm")];

/// A gated feed-forward network.
pub(super) const GATED: &[Rule] = &[
    keep("mlp.gate_proj", "ffn_gate"),
    keep("mlp.up_proj", "ffn_up"),
    keep("mlp.down_proj", "ffn_down"),
];

/// A plain feed-forward network.
pub(super) const PLAIN: &[Rule] =
    &[keep("mlp.up_proj", "ffn_up"), keep("mlp.down_proj", "ffn_down")];

/// Norms before attention and before the feed-forward network.
pub(super) const PRE_NORMS: &[Rule] =
    &[keep("input_layernorm", "attn_norm"), keep("post_attention_layernorm", "ffn_norm")];

/// The same norms, where GGUF names the second by its place.
pub(super) const PRE_NORMS_BY_PLACE: &[Rule] = &[
    keep("input_layernorm", "attn_norm"),
    keep("post_attention_layernorm", "post_attention_norm"),
];

/// Norms on both sides of attention and of the feed-forward network.
pub(super) const SANDWICH_NORMS: &[Rule] = &[
    keep("input_layernorm", "attn_norm"),
    keep("post_attention_layernorm", "post_attention_norm"),
    keep("pre_feedforward_layernorm", "ffn_norm"),
    keep("post_feedforward_layernorm", "post_ffw_norm"),
];

/// Norms of the results of attention and of the feed-forward network.
pub(super) const POST_NORMS: &[Rule] = &[
    keep("post_attention_layernorm", "post_attention_norm"),
    keep("post_feedforward_layernorm", "post_ffw_norm"),
];

/// Routed experts, one tensor each or stacked, and their router.
pub(super) const EXPERTS: &[Rule] = &[
    keep("mlp.gate", "ffn_gate_inp"),
    expert("mlp.experts.*.gate_proj", "ffn_gate_exps"),
    expert("mlp.experts.*.up_proj", "ffn_up_exps"),
    expert("mlp.experts.*.down_proj", "ffn_down_exps"),
    parts("mlp.experts.gate_up_proj", "", gate_up_experts),
    keep("mlp.experts.down_proj", "ffn_down_exps.weight"),
    // The stacked experts of MLX.
    keep("mlp.switch_mlp.gate_proj", "ffn_gate_exps"),
    keep("mlp.switch_mlp.up_proj", "ffn_up_exps"),
    keep("mlp.switch_mlp.down_proj", "ffn_down_exps"),
];

/// A shared expert, of Qwen and of DeepSeek.
pub(super) const SHARED_EXPERT: &[Rule] = &[
    keep("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    keep("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    keep("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    keep("mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
    keep("mlp.shared_experts.up_proj", "ffn_up_shexp"),
    keep("mlp.shared_experts.down_proj", "ffn_down_shexp"),
    // A vector, stored as a matrix of one row.
    change("mlp.shared_expert_gate", "ffn_gate_inp_shexp", How::Squeeze),
];

/// The correction of the router's selection.
pub(super) const SELECTION_BIAS: &[Rule] =
    &[keep("mlp.gate.e_score_correction_bias", "exp_probs_b.bias")];

/// The experts of Mixtral, and their router.
pub(super) const MIXTRAL: &[Rule] = &[
    keep("block_sparse_moe.gate", "ffn_gate_inp"),
    expert("block_sparse_moe.experts.*.w1", "ffn_gate_exps"),
    expert("block_sparse_moe.experts.*.w2", "ffn_down_exps"),
    expert("block_sparse_moe.experts.*.w3", "ffn_up_exps"),
    keep("mlp.gate", "ffn_gate_inp"),
    parts("mlp.experts.gate_up_proj", "", gate_up_experts),
    keep("mlp.experts.down_proj", "ffn_down_exps.weight"),
];
