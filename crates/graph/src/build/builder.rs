//! The plan under construction: buffers and steps.

use pelton_weights::Keys;

use super::shapes::Mixer;
use super::shapes::Shapes;
use super::sizes::Sizes;
use super::tensors::Tensors;
use crate::{
    Buffer, BufferId, Error, Linear, Norm, NormKind, Op, OutputKind, Plan, Rows, Shape, Step,
    Strided, StridedCopy, WeightId, arch::Architecture, plan::SCALED,
};

/// Starts of the names of towers' tensors, which Ollama writes into the file of the text.
const TOWERS: &[&str] = &["v.", "a.", "mm."];

/// A plan under construction.
pub(super) struct Builder<'a> {
    pub(super) arch: &'static Architecture,
    pub(super) keys: Keys<'a>,
    pub(super) sizes: Sizes,
    pub(super) tensors: Tensors<'a>,
    pub(super) plan: Plan,
    /// The token embedding.
    pub(super) table: WeightId,
    /// The layer that steps belong to.
    pub(super) layer: Option<usize>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        arch: &'static Architecture,
        keys: Keys<'a>,
        sizes: Sizes,
        tensors: Tensors<'a>,
        shapes: &Shapes,
    ) -> Self {
        let plan = Plan {
            shape: shape(arch, &sizes, &tensors, shapes),
            weights: Vec::new(),
            buffers: Vec::new(),
            caches: shapes.caches.clone(),
            groups: shapes.groups.clone(),
            states: shapes.states.clone(),
            ropes: shapes.ropes.clone(),
            steps: Vec::new(),
            vocab: sizes.vocab,
            token_types: 1,
            context: shapes.context,
            whole_sequences: !shapes.causal,
            marks: Default::default(),
            output: OutputKind::Logits,
            logits: BufferId(0),
            entry: Vec::new(),
            exit: Vec::new(),
            injected: None,
            encoder: None,
            host: Vec::new(),
        };
        Self { arch, keys, sizes, tensors, plan, table: WeightId(0), layer: None }
    }

    pub(super) fn finish(mut self) -> Result<Plan, Error> {
        let unused = [self.arch.unused, TOWERS].concat();
        self.tensors.refuse_unused(self.arch.name, self.sizes.layers, &unused)?;
        self.plan.weights = self.tensors.weights;
        Ok(self.plan)
    }

    /// The plan of the head in layer `index`, of whose tensors all have been read.
    pub(super) fn finish_head(mut self, index: usize) -> Result<Plan, Error> {
        self.tensors.refuse_unused_of(self.arch.name, index)?;
        self.plan.shape.layers = 1;
        self.plan.weights = self.tensors.weights;
        Ok(self.plan)
    }

    /// The name of a tensor, or its start, of the current layer.
    pub(super) fn name(&self, part: &str) -> String {
        match self.layer {
            Some(layer) => format!("blk.{layer}.{part}"),
            None => part.to_owned(),
        }
    }

    /// Whether the current layer has this tensor.
    pub(super) fn has(&self, part: &str) -> bool {
        self.tensors.has(&self.name(part))
    }

    /// The buffer of all rows with this name and width.
    pub(super) fn buffer(&mut self, name: &'static str, width: usize) -> BufferId {
        self.buffer_of(name, width, Rows::All)
    }

    /// The buffer of selected rows with this name and width.
    pub(super) fn selected(&mut self, name: &'static str, width: usize) -> BufferId {
        self.buffer_of(name, width, Rows::Selected)
    }

    fn buffer_of(&mut self, name: &'static str, width: usize, rows: Rows) -> BufferId {
        known_or_new(&mut self.plan.buffers, Buffer { name, width, rows })
    }

    /// The residual stream `[hidden]`.
    pub(super) fn stream(&mut self) -> BufferId {
        self.buffer("x", self.sizes.hidden)
    }

    pub(super) fn width(&self, id: BufferId) -> usize {
        self.plan.buffer(id).width
    }

    pub(super) fn step(&mut self, op: Op, inputs: &[BufferId], outputs: &[BufferId]) {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        self.plan.steps.push(Step { op, inputs, outputs, layer: self.layer });
    }

    /// A step that changes a buffer in place.
    pub(super) fn in_place(&mut self, op: Op, buffer: BufferId) {
        self.step(op, &[buffer], &[buffer]);
    }

    /// `x + o → x`.
    pub(super) fn add(&mut self, x: BufferId, o: BufferId) {
        self.step(Op::Add, &[x, o], &[x]);
    }

    /// Copies `count` groups of `width` elements from `offset` and then every `stride` elements of
    /// a row to the places `to` of another.
    pub(super) fn copy(
        &mut self,
        [from, to]: [BufferId; 2],
        [count, width]: [usize; 2],
        [offset, stride]: [usize; 2],
        [to_offset, to_stride]: [usize; 2],
    ) {
        let (at, to_at) =
            (Strided { offset, stride }, Strided { offset: to_offset, stride: to_stride });
        let copy = StridedCopy { count, width, from: at, to: to_at };
        self.step(Op::Copy(copy), &[from], &[to]);
    }

    /// The norm of the architecture's formula with the tensor `part` of the current layer.
    pub(super) fn norm(&mut self, part: &str, len: usize) -> Result<Norm, Error> {
        if self.arch.bare_norms {
            let (kind, eps) = (self.arch.norm, self.sizes.eps);
            return Ok(Norm { kind, weight: None, bias: None, eps });
        }
        let name = self.name(part);
        self.tensors.norm(self.arch.norm, &name, len, self.sizes.eps)
    }

    /// A root-mean-square norm without factors.
    pub(super) fn bare_norm(&self) -> Norm {
        bare_norm(self.sizes.eps)
    }

    /// The linear `part` of the current layer, from `x` to a buffer of this name.
    pub(super) fn linear(
        &mut self,
        part: &str,
        x: BufferId,
        name: &'static str,
        rows: usize,
    ) -> Result<BufferId, Error> {
        let part = self.name(part);
        let linear = self.tensors.linear(&part, rows, self.width(x))?;
        let y = self.buffer_of(name, rows, self.plan.buffer(x).rows);
        self.linear_step(&part, linear, x, y)?;
        Ok(y)
    }

    /// The step of a linear of the tensor `name.weight`, from `x` to `y`. Where the file has
    /// `name.scale` `[1]`, as next to NVFP4 weights, the inputs are multiplied by it. It is a
    /// factor of the product, not of the bias. A router's `ffn_gate_inp.scale` is another tensor: a
    /// norm's factors.
    pub(super) fn linear_step(
        &mut self,
        name: &str,
        linear: Linear,
        x: BufferId,
        y: BufferId,
    ) -> Result<(), Error> {
        let scale = format!("{name}.scale");
        let mut input = x;
        if self.tensors.has(&scale) && !name.ends_with("ffn_gate_inp") {
            let factor = self.tensors.factor(&scale)?;
            let Buffer { width, rows, .. } = *self.plan.buffer(x);
            input = self.buffer_of(SCALED, width, rows);
            self.copy([x, input], [1, width], [0, width], [0, width]);
            self.in_place(Op::Scale(factor), input);
        }
        self.step(Op::Linear(linear), &[input], &[y]);
        Ok(())
    }
}

/// The buffer that equals another one, or else a new one.
pub(super) fn known_or_new(buffers: &mut Vec<Buffer>, buffer: Buffer) -> BufferId {
    let known = buffers.iter().position(|known| *known == buffer);
    BufferId(known.unwrap_or_else(|| {
        buffers.push(buffer);
        buffers.len() - 1
    }))
}

/// A root-mean-square norm without factors; `eps` is added under its root.
pub(super) fn bare_norm(eps: f32) -> Norm {
    Norm { kind: NormKind::Rms, weight: None, bias: None, eps }
}

/// The dimensions that a printed plan shows, of the first layer with attention.
fn shape(arch: &Architecture, sizes: &Sizes, tensors: &Tensors<'_>, shapes: &Shapes) -> Shape {
    let heads = shapes.layers.iter().find_map(|layer| match &layer.mixer {
        Mixer::Attention(shape) | Mixer::ScanAndAttention(_, shape) => {
            Some((shape.heads, shape.kv_heads, shape.key_dim))
        }
        Mixer::Latent(shape) => Some((shape.heads, 1, shape.key_dim)),
        Mixer::Delta(_)
        | Mixer::ShortConv(_)
        | Mixer::Scan(_)
        | Mixer::FeedForward
        | Mixer::Linear
        | Mixer::None => None,
    });
    let (heads, kv_heads, head_dim) = heads.unwrap_or_default();
    Shape {
        architecture: arch.name.to_owned(),
        layers: sizes.layers,
        hidden: sizes.hidden,
        heads,
        kv_heads,
        head_dim,
        ffn: shapes.layers.first().and_then(|layer| layer.ffn).unwrap_or(0),
        tied: !tensors.has("output.weight"),
    }
}
