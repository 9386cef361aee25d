//! Whisper (arXiv 2212.04356): an encoder of log-mel frames, and a decoder of tokens that attends
//! to an encoded window.
//!
//! The names of tensors are those of OpenAI's files. A convolution of three taps is a product with
//! the rows of its inputs side by side, so the features of a position hold the frames of three
//! neighbourhoods. The first convolution runs for each of them, and the second one reads the three
//! results. Positions recompute what they share, which is less than 1 % of the encoder's work.

use pelton_weights::{Checkpoint, Keys, MAX_SIZE};

use super::builder::Builder;
use super::shapes::Shapes;
use super::sizes::Sizes;
use super::tensors::Tensors;
use crate::{
    Activation, Attention, BufferId, Cache, CacheGroup, Encoder, Error, Gating, Linear, Mask, Norm,
    NormKind, Op, Plan, TableRow,
    arch::{Architecture, FeedForward, RopeRule},
};

/// The properties that the builder of steps reads.
pub(super) const WHISPER: Architecture = Architecture {
    name: "whisper",
    norm: NormKind::Layer,
    rope: RopeRule::NONE,
    ffn: FeedForward::Plain(Activation::GeluErf),
    ..Architecture::BASE
};

const MAX_LAYERS: usize = 1000;
/// Added under the root of norms, in every model.
const EPS: f32 = 1e-5;
/// Taps of both convolutions.
const TAPS: usize = 3;
/// The groups of caches: those of tokens, of encoded windows, and of the encoder alone.
const TOKENS: usize = 0;
const CROSS: usize = 1;
const OWN: usize = 2;

/// The sizes of one of the two stacks of layers.
struct Stack {
    /// The start of the names of its keys and tensors.
    name: &'static str,
    positions: usize,
    layers: usize,
    heads: usize,
}

impl Stack {
    fn read(name: &'static str, keys: &Keys<'_>, width: usize) -> Result<Self, Error> {
        let key = |part: &str| format!("{name}.{part}");
        let found = keys.size(&key("embedding_length"), MAX_SIZE)?;
        if found != width {
            let expected = format!("{width}, the width of the other layers");
            return Err(keys.invalid(&key("embedding_length"), found, expected).into());
        }
        let heads = keys.size(&key("attention.head_count"), width)?;
        if !width.is_multiple_of(heads) {
            let expected = format!("a divisor of the width {width}");
            return Err(keys.invalid(&key("attention.head_count"), heads, expected).into());
        }
        Ok(Self {
            name,
            positions: keys.size(&key("context_length"), MAX_SIZE)?,
            layers: keys.size(&key("block_count"), MAX_LAYERS)?,
            heads,
        })
    }
}

/// Builds the plan of a Whisper model, for at most `context` tokens.
///
/// A pass of the encoder keeps the states after its last norm if `keeps_states` is set. Otherwise,
/// if the file names the heads that follow the audio, it keeps their keys `[heads, head_dim]`, and
/// a pass of tokens their queries.
pub(super) fn build(
    checkpoint: &Checkpoint,
    keys: Keys<'_>,
    context: Option<usize>,
    keeps_states: bool,
) -> Result<Plan, Error> {
    let width = keys.size("encoder.embedding_length", MAX_SIZE)?;
    let encoder = Stack::read("encoder", &keys, width)?;
    let decoder = Stack::read("decoder", &keys, width)?;
    let mels = keys.size("encoder.mels_count", MAX_SIZE / (TAPS * TAPS) - 1)?;
    let mut tensors = Tensors::new(checkpoint);
    let table_name = "decoder.token_embedding.weight";
    let vocab = tensors.dim(table_name, 1).max(1);
    let table = tensors.matrix(table_name, vocab, width)?;
    let sizes = Sizes {
        layers: decoder.layers,
        all_layers: decoder.layers,
        hidden: width,
        vocab,
        context: decoder.positions,
        eps: EPS,
        post_norm_eps: EPS,
    };
    let group = |_| CacheGroup { window: None };
    let cache = |stack: &Stack, group| Cache::new(stack.heads, width / stack.heads, group);
    let tokens = (0..decoder.layers).map(|_| cache(&decoder, TOKENS));
    let cross = (0..decoder.layers).map(|_| cache(&decoder, CROSS));
    let shapes = Shapes {
        layers: Vec::new(),
        caches: tokens.chain(cross).chain([cache(&encoder, OWN)]).collect(),
        groups: [TOKENS, CROSS, OWN].map(group).to_vec(),
        states: Vec::new(),
        ropes: Vec::new(),
        context: context.map_or(decoder.positions, |most| most.min(decoder.positions)),
        causal: true,
    };
    let heads = alignment_heads(&keys, &decoder)?;
    let mut builder = Builder::new(&WHISPER, keys, sizes, tensors, &shapes);
    builder.table = table;
    builder.plan.shape.layers = encoder.layers + decoder.layers;
    builder.plan.shape.heads = decoder.heads;
    builder.plan.shape.kv_heads = decoder.heads;
    builder.plan.shape.head_dim = width / decoder.heads;
    builder.plan.shape.ffn = 4 * width;
    builder.plan.shape.tied = true;
    let heads = if keeps_states { Vec::new() } else { heads };
    builder.encoder(&encoder, &decoder, mels, &heads, keeps_states)?;
    builder.decoder(&encoder, &decoder, &heads)?;
    builder.finish()
}

/// A head of the decoder whose attention follows the audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    layer: usize,
    head: usize,
}

/// The heads whose attention follows the audio: the pairs of the key `alignment_heads`.
fn alignment_heads(keys: &Keys<'_>, decoder: &Stack) -> Result<Vec<Head>, Error> {
    let name = "alignment_heads";
    let found = keys.metadata().opt_i32_array(&keys.key(name))?.unwrap_or_default();
    let below = |value: i32, end: usize| usize::try_from(value).ok().filter(|&value| value < end);
    let (pairs, rest) = found.as_chunks::<2>();
    let heads: Option<Vec<_>> = pairs
        .iter()
        .map(|&[layer, head]| {
            Some(Head { layer: below(layer, decoder.layers)?, head: below(head, decoder.heads)? })
        })
        .collect();
    heads.filter(|_| rest.is_empty()).ok_or_else(|| {
        let expected =
            format!("pairs of a layer below {} and a head below {}", decoder.layers, decoder.heads);
        keys.invalid(name, format!("{found:?}"), expected).into()
    })
}

impl Builder<'_> {
    /// The steps of the encoder: convolutions, layers, and the keys and values of all decoder
    /// layers.
    fn encoder(
        &mut self,
        encoder: &Stack,
        decoder: &Stack,
        mels: usize,
        heads: &[Head],
        keeps_states: bool,
    ) -> Result<(), Error> {
        let width = self.sizes.hidden;
        let (x, features) = self.convolutions(mels)?;
        self.position(encoder, x)?;
        for layer in 0..encoder.layers {
            self.layer = Some(layer);
            let block = format!("encoder.blocks.{layer}");
            let mask = Mask::Window { positions: encoder.positions };
            self.self_attention(&block, encoder, 2 * decoder.layers, mask)?;
            self.feed_forward_of(&block)?;
        }
        self.layer = None;
        let states = self.norm_of("encoder.ln_post", x, "states")?;
        let mut kept = keeps_states.then_some(states);
        for layer in 0..decoder.layers {
            self.layer = Some(encoder.layers + layer);
            let block = format!("decoder.blocks.{layer}.cross_attn");
            let k = self.linear_of(&format!("{block}.key"), states, "k", width)?;
            let v = self.linear_of(&format!("{block}.value"), states, "v", width)?;
            self.step(Op::Store { cache: decoder.layers + layer }, &[k, v], &[]);
            if let Some(all) = self.gather_heads(heads, layer, k, decoder, "keys") {
                kept = Some(all);
            }
        }
        self.layer = None;
        self.plan.encoder = Some(Encoder {
            steps: self.plan.steps.len(),
            positions: encoder.positions,
            features,
            kept,
            cross: CROSS,
            own: OWN,
        });
        Ok(())
    }

    /// Both convolutions with their activations: the residual stream, and the features.
    ///
    /// The features of a position are three neighbourhoods `[mels, taps]` of frames, and a last
    /// element that is 0 where the first neighbourhood lies outside of the window and 1 otherwise.
    fn convolutions(&mut self, mels: usize) -> Result<(BufferId, BufferId), Error> {
        let width = self.sizes.hidden;
        let unfolded = TAPS * mels;
        let features = self.buffer("features", TAPS * unfolded + 1);
        let [frames, c] = [("frames", unfolded), ("c", width)].map(|(n, w)| self.buffer(n, w));
        let gate = self.buffer("gate", 1);
        let taps = self.buffer("taps", TAPS * width);
        let first = self.tensors.linear("encoder.conv1", width, unfolded)?;
        let second = self.tensors.linear("encoder.conv2", width, TAPS * width)?;
        let gelu = Op::Activate(Activation::GeluErf);
        for tap in 0..TAPS {
            let from = [tap * unfolded, unfolded];
            self.copy([features, frames], [1, unfolded], from, [0, unfolded]);
            self.step(Op::Linear(first), &[frames], &[c]);
            self.in_place(gelu.clone(), c);
            if tap == 0 {
                self.copy([features, gate], [1, 1], [TAPS * unfolded, 1], [0, 1]);
                self.step(Op::Glu(Gating::Product(Activation::Identity)), &[gate, c], &[c]);
            }
            self.copy([c, taps], [width, 1], [0, 1], [tap, TAPS]);
        }
        let x = self.stream();
        self.step(Op::Linear(second), &[taps], &[x]);
        self.in_place(gelu, x);
        Ok((x, features))
    }

    /// The steps of the decoder.
    fn decoder(&mut self, encoder: &Stack, decoder: &Stack, heads: &[Head]) -> Result<(), Error> {
        let width = self.sizes.hidden;
        let x = self.stream();
        self.step(Op::Embed { table: self.table }, &[], &[x]);
        self.position(decoder, x)?;
        for layer in 0..decoder.layers {
            self.layer = Some(encoder.layers + layer);
            let block = format!("decoder.blocks.{layer}");
            let mask = Mask::Causal { window: None };
            self.self_attention(&block, decoder, layer, mask)?;
            let n = self.norm_of(&format!("{block}.cross_attn_ln"), x, "n")?;
            let q = self.linear_of(&format!("{block}.cross_attn.query"), n, "q", width)?;
            if let Some(buffer) = self.gather_heads(heads, layer, q, decoder, "queries") {
                self.plan.exit = vec![buffer];
            }
            let mask = Mask::Window { positions: encoder.positions };
            let a = self.attend_over(decoder, decoder.layers + layer, mask, q);
            self.add_linear(&format!("{block}.cross_attn.out"), a)?;
            self.feed_forward_of(&block)?;
        }
        self.layer = None;
        let last = self.selected("last", width);
        self.step(Op::Select, &[x], &[last]);
        let norm = self.tensors.norm(NormKind::Layer, "decoder.ln", width, EPS)?;
        let last_n = self.selected("last_n", width);
        self.step(Op::Norm(norm), &[last], &[last_n]);
        let linear = Linear { weight: self.table, bias: None };
        let logits = self.selected("logits", self.sizes.vocab);
        self.step(Op::Linear(linear), &[last_n], &[logits]);
        self.plan.logits = logits;
        Ok(())
    }

    /// Adds the table of positions.
    fn position(&mut self, stack: &Stack, x: BufferId) -> Result<(), Error> {
        let name = format!("{}.positional_embedding", stack.name);
        let table = self.tensors.matrix(&name, stack.positions, self.sizes.hidden)?;
        self.in_place(Op::AddTable { table, row: TableRow::Position }, x);
        Ok(())
    }

    /// `x += out(attention(norm(x)))` over the layer's own keys and values.
    fn self_attention(
        &mut self,
        block: &str,
        stack: &Stack,
        cache: usize,
        mask: Mask,
    ) -> Result<(), Error> {
        let (x, width) = (self.stream(), self.sizes.hidden);
        let n = self.norm_of(&format!("{block}.attn_ln"), x, "n")?;
        let q = self.linear_of(&format!("{block}.attn.query"), n, "q", width)?;
        let k = self.linear_of(&format!("{block}.attn.key"), n, "k", width)?;
        let v = self.linear_of(&format!("{block}.attn.value"), n, "v", width)?;
        self.step(Op::Store { cache }, &[k, v], &[]);
        let a = self.attend_over(stack, cache, mask, q);
        self.add_linear(&format!("{block}.attn.out"), a)
    }

    fn attend_over(&mut self, stack: &Stack, cache: usize, mask: Mask, q: BufferId) -> BufferId {
        let width = self.sizes.hidden;
        let scale = (1.0 / ((width / stack.heads) as f64).sqrt()) as f32;
        let a = self.buffer("a", width);
        let (heads, softcap, sinks, alibi) = (stack.heads, None, None, None);
        let attention = Attention { cache, heads, scale, mask, softcap, sinks, alibi };
        self.step(Op::Attend(attention), &[q], &[a]);
        a
    }

    /// `x += mlp.2(gelu(mlp.0(norm(x))))`.
    fn feed_forward_of(&mut self, block: &str) -> Result<(), Error> {
        let x = self.stream();
        let n = self.norm_of(&format!("{block}.mlp_ln"), x, "n")?;
        let h = self.linear_of(&format!("{block}.mlp.0"), n, "h", 4 * self.sizes.hidden)?;
        self.in_place(Op::Activate(Activation::GeluErf), h);
        self.add_linear(&format!("{block}.mlp.2"), h)
    }

    /// Copies the heads of a layer that follow the audio from its queries or keys to a buffer of
    /// all such heads `[heads, head_dim]`, in the order of `heads`.
    fn gather_heads(
        &mut self,
        heads: &[Head],
        layer: usize,
        from: BufferId,
        stack: &Stack,
        name: &'static str,
    ) -> Option<BufferId> {
        let dim = self.sizes.hidden / stack.heads;
        let mut all = None;
        for (i, of) in heads.iter().enumerate().filter(|(_, of)| of.layer == layer) {
            let to = self.buffer(name, heads.len() * dim);
            self.copy([from, to], [1, dim], [of.head * dim, dim], [i * dim, dim]);
            all = Some(to);
        }
        all
    }

    fn norm_of(&mut self, name: &str, x: BufferId, to: &'static str) -> Result<BufferId, Error> {
        let width = self.sizes.hidden;
        let norm: Norm = self.tensors.norm(NormKind::Layer, name, width, EPS)?;
        let n = self.buffer(to, width);
        self.step(Op::Norm(norm), &[x], &[n]);
        Ok(n)
    }

    fn linear_of(
        &mut self,
        name: &str,
        x: BufferId,
        to: &'static str,
        rows: usize,
    ) -> Result<BufferId, Error> {
        let linear = self.tensors.linear(name, rows, self.width(x))?;
        let y = self.buffer(to, rows);
        self.step(Op::Linear(linear), &[x], &[y]);
        Ok(y)
    }

    /// Adds the linear of `y` to the residual stream.
    fn add_linear(&mut self, name: &str, y: BufferId) -> Result<(), Error> {
        let x = self.stream();
        let o = self.linear_of(name, y, "o", self.sizes.hidden)?;
        self.add(x, o);
        Ok(())
    }
}
