//! The builder of plans: from a checkpoint to a plan of elementary steps.

use std::collections::HashSet;

use pelton_quant::DType;
use pelton_weights::{Checkpoint, HyperParameters};

use crate::{
    Attention, Buffer, BufferId, Cache, CacheGroup, Error, Gating, Linear, Mask, Norm, Op,
    OutputKind, Plan, Presence, Rope, RopeId, Rows, Shape, Step, Weight, WeightId, WeightKind,
    arch::{Architecture, architectures},
};

/// Builds the plan of a checkpoint's model.
///
/// # Errors
///
/// If the architecture is not supported, if a tensor is missing or its shape differs from the
/// hyper-parameters, or if the file has a tensor that the plan does not read: such a file holds
/// another model than the plan would run.
pub fn build(checkpoint: &Checkpoint) -> Result<Plan, Error> {
    let hyper = checkpoint.hyper_parameters()?;
    let Some(arch) = architectures().iter().find(|a| a.name == hyper.architecture) else {
        return Err(Error::Architecture {
            file: checkpoint.name().to_owned(),
            found: hyper.architecture,
            known: architectures().iter().map(|a| a.name).collect(),
        });
    };
    Builder::new(checkpoint, arch, &hyper)?.build()
}

/// The buffers of a decoder, the same for all layers.
struct Buffers {
    x: BufferId,
    n: BufferId,
    q: BufferId,
    k: BufferId,
    v: BufferId,
    a: BufferId,
    o: BufferId,
    gate: BufferId,
    up: BufferId,
    g: BufferId,
    last: BufferId,
    last_n: BufferId,
    logits: BufferId,
}

struct Builder<'a> {
    checkpoint: &'a Checkpoint,
    arch: &'a Architecture,
    hyper: &'a HyperParameters,
    plan: Plan,
    buffers: Buffers,
    rope: RopeId,
    used: HashSet<String>,
    layer: Option<usize>,
}

impl<'a> Builder<'a> {
    fn new(
        checkpoint: &'a Checkpoint,
        arch: &'a Architecture,
        hyper: &'a HyperParameters,
    ) -> Result<Self, Error> {
        let (q_width, kv_width) = (hyper.heads * hyper.head_dim, hyper.kv_heads * hyper.head_dim);
        let mut all = Vec::new();
        let mut buffer = |name, width, rows| {
            all.push(Buffer { name, width, rows });
            BufferId(all.len() - 1)
        };
        let buffers = Buffers {
            x: buffer("x", hyper.hidden, Rows::All),
            n: buffer("n", hyper.hidden, Rows::All),
            q: buffer("q", q_width, Rows::All),
            k: buffer("k", kv_width, Rows::All),
            v: buffer("v", kv_width, Rows::All),
            a: buffer("a", q_width, Rows::All),
            o: buffer("o", hyper.hidden, Rows::All),
            gate: buffer("gate", hyper.ffn, Rows::All),
            up: buffer("up", hyper.ffn, Rows::All),
            g: buffer("g", hyper.ffn, Rows::All),
            last: buffer("last", hyper.hidden, Rows::Selected),
            last_n: buffer("last_n", hyper.hidden, Rows::Selected),
            logits: buffer("logits", hyper.vocab, Rows::Selected),
        };
        let plan = Plan {
            shape: Shape {
                architecture: hyper.architecture.clone(),
                layers: hyper.layers,
                hidden: hyper.hidden,
                heads: hyper.heads,
                kv_heads: hyper.kv_heads,
                head_dim: hyper.head_dim,
                ffn: hyper.ffn,
                tied: checkpoint.tensor("output.weight").is_none(),
            },
            weights: Vec::new(),
            buffers: all,
            caches: vec![Cache::new(hyper.kv_heads, hyper.head_dim, 0); hyper.layers],
            groups: vec![CacheGroup { window: hyper.window }],
            states: Vec::new(),
            ropes: Vec::new(),
            steps: Vec::new(),
            vocab: hyper.vocab,
            context: hyper.context,
            whole_sequences: false,
            output: OutputKind::Logits,
            logits: buffers.logits,
        };
        let mut builder = Self {
            checkpoint,
            arch,
            hyper,
            plan,
            buffers,
            rope: RopeId(0),
            used: HashSet::new(),
            layer: None,
        };
        builder.add_rope()?;
        Ok(builder)
    }

    fn build(mut self) -> Result<Plan, Error> {
        let hidden = self.hyper.hidden;
        let (x, last, last_n, logits) =
            (self.buffers.x, self.buffers.last, self.buffers.last_n, self.buffers.logits);

        let table = self.matrix("token_embd.weight", self.hyper.vocab, hidden)?;
        self.step(Op::Embed { table }, &[], &[x]);
        for layer in 0..self.hyper.layers {
            self.layer = Some(layer);
            self.attention(layer)?;
            self.feed_forward(layer)?;
        }
        self.layer = None;
        self.step(Op::Select, &[x], &[last]);
        let norm = self.norm("output_norm.weight", hidden)?;
        self.step(Op::Norm(norm), &[last], &[last_n]);
        let weight = match self.plan.shape.tied {
            true => table,
            false => self.matrix("output.weight", self.hyper.vocab, hidden)?,
        };
        self.step(Op::Linear(Linear { weight, bias: None }), &[last_n], &[logits]);
        self.refuse_unused()?;
        Ok(self.plan)
    }

    fn attention(&mut self, layer: usize) -> Result<(), Error> {
        let Buffers { x, n, q, k, v, a, o, .. } = self.buffers;
        let &HyperParameters { hidden, heads, kv_heads, head_dim, window, .. } = self.hyper;
        let (q_width, kv_width) = (heads * head_dim, kv_heads * head_dim);
        let name = |part: &str| format!("blk.{layer}.{part}");

        let norm = self.norm(&name("attn_norm.weight"), hidden)?;
        self.step(Op::Norm(norm), &[x], &[n]);
        for (part, width, output) in
            [("attn_q", q_width, q), ("attn_k", kv_width, k), ("attn_v", kv_width, v)]
        {
            let linear = self.linear(&name(part), width, hidden, self.arch.qkv_bias)?;
            self.step(Op::Linear(linear), &[n], &[output]);
        }
        for (part, heads, buffer) in
            [("attn_q_norm.weight", heads, q), ("attn_k_norm.weight", kv_heads, k)]
        {
            if self.wanted(&name(part), self.arch.qk_norm) {
                let norm = self.norm(&name(part), head_dim)?;
                self.step(Op::HeadNorm { norm, heads }, &[buffer], &[buffer]);
            }
        }
        self.step(Op::Rope { rope: self.rope, heads }, &[q], &[q]);
        self.step(Op::Rope { rope: self.rope, heads: kv_heads }, &[k], &[k]);
        self.step(Op::Store { cache: layer }, &[k, v], &[]);
        let scale = (1.0 / (head_dim as f64).sqrt()) as f32;
        let attention = Attention {
            cache: layer,
            heads,
            scale,
            mask: Mask::Causal { window },
            softcap: None,
            sinks: None,
            alibi: None,
        };
        self.step(Op::Attend(attention), &[q], &[a]);
        let linear = self.linear(&name("attn_output"), hidden, q_width, Presence::Never)?;
        self.step(Op::Linear(linear), &[a], &[o]);
        self.step(Op::Add, &[x, o], &[x]);
        Ok(())
    }

    fn feed_forward(&mut self, layer: usize) -> Result<(), Error> {
        let Buffers { x, n, o, gate, up, g, .. } = self.buffers;
        let &HyperParameters { hidden, ffn, .. } = self.hyper;
        let name = |part: &str| format!("blk.{layer}.{part}");

        let norm = self.norm(&name("ffn_norm.weight"), hidden)?;
        self.step(Op::Norm(norm), &[x], &[n]);
        for (part, output) in [("ffn_gate", gate), ("ffn_up", up)] {
            let linear = self.linear(&name(part), ffn, hidden, Presence::Never)?;
            self.step(Op::Linear(linear), &[n], &[output]);
        }
        self.step(Op::Glu(Gating::Product(self.arch.activation)), &[gate, up], &[g]);
        let linear = self.linear(&name("ffn_down"), hidden, ffn, Presence::Never)?;
        self.step(Op::Linear(linear), &[g], &[o]);
        self.step(Op::Add, &[x, o], &[x]);
        Ok(())
    }

    fn add_rope(&mut self) -> Result<(), Error> {
        const DIVISORS: &str = "rope_freqs.weight";
        let rope = &self.hyper.rope;
        let divisors = match self.checkpoint.tensor(DIVISORS) {
            Some(_) => {
                self.used.insert(DIVISORS.to_owned());
                Some(self.checkpoint.require(DIVISORS, &[rope.dims / 2])?.decode())
            }
            None => None,
        };
        self.plan.ropes.push(Rope::new(
            self.arch.rope,
            rope.theta,
            rope.dims,
            &rope.scaling,
            divisors.as_deref(),
        )?);
        Ok(())
    }

    fn step(&mut self, op: Op, inputs: &[BufferId], outputs: &[BufferId]) {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        self.plan.steps.push(Step { op, inputs, outputs, layer: self.layer });
    }

    fn wanted(&self, name: &str, presence: Presence) -> bool {
        match presence {
            Presence::Never => false,
            Presence::IfPresent => self.checkpoint.tensor(name).is_some(),
            Presence::Required => true,
        }
    }

    fn norm(&mut self, name: &str, len: usize) -> Result<Norm, Error> {
        Ok(Norm::rms(self.vector(name, len)?, self.hyper.norm_eps))
    }

    /// The linear of the matrix `name.weight` `[rows, row_len]` and, if `bias` and the checkpoint
    /// have it, of `name.bias`.
    fn linear(
        &mut self,
        name: &str,
        rows: usize,
        row_len: usize,
        bias: Presence,
    ) -> Result<Linear, Error> {
        let weight = self.matrix(&format!("{name}.weight"), rows, row_len)?;
        let bias_name = format!("{name}.bias");
        let bias = match self.wanted(&bias_name, bias) {
            true => Some(self.vector(&bias_name, rows)?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Vector, 1, len)
    }

    fn matrix(&mut self, name: &str, rows: usize, row_len: usize) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Matrix, rows, row_len)
    }

    fn weight(
        &mut self,
        name: &str,
        kind: WeightKind,
        rows: usize,
        row_len: usize,
    ) -> Result<WeightId, Error> {
        let mut weight =
            Weight { name: name.to_owned(), dtype: DType::F32, kind, rows, row_len, part: None };
        weight.dtype = self.checkpoint.require(name, &weight.dims())?.dtype;
        self.used.insert(name.to_owned());
        self.plan.weights.push(weight);
        Ok(WeightId(self.plan.weights.len() - 1))
    }

    fn refuse_unused(&self) -> Result<(), Error> {
        match self.checkpoint.tensors().find(|tensor| !self.used.contains(tensor.name)) {
            None => Ok(()),
            Some(tensor) => Err(Error::UnusedTensor {
                file: self.checkpoint.name().to_owned(),
                tensor: tensor.name.to_owned(),
                architecture: self.arch.name.to_owned(),
            }),
        }
    }
}
