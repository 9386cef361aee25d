//! Plans of a few steps over random weights.

use pelton_graph::{
    Activation, Attention, Buffer, BufferId, Cache, CacheGroup, Gating, Injected, Linear, Mask,
    Norm, NormKind, Op, OutputKind, Part, Plan, Rope, RopeId, RopeStyle, Rows, Shape, State, Step,
    Weight, WeightId, WeightKind,
};
use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter};

use crate::Random;

/// The most positions of a sequence.
pub(super) const CONTEXT: usize = 192;

/// The values of a tensor.
#[derive(Clone, Copy, Debug)]
struct Values {
    mean: f32,
    deviation: f32,
}

/// A plan that is built step by step, from embedding tables to logits.
#[derive(Clone, Debug)]
pub(super) struct Builder {
    plan: Plan,
    values: Vec<Values>,
}

/// The heads of attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) kv_heads: usize,
    /// Query heads of a KV head.
    pub(super) group: usize,
    pub(super) head_dim: usize,
    pub(super) window: Option<usize>,
}

impl Builder {
    /// A plan of tokens of several types.
    pub(super) fn typed(vocab: usize, token_types: usize) -> Self {
        let mut builder = Self::new(vocab);
        builder.plan.token_types = token_types;
        builder
    }

    /// A plan whose logits have `vocab` elements. It has as many tokens: rows of its tables.
    pub(super) fn new(vocab: usize) -> Self {
        let logits = Buffer { name: "logits", width: vocab, rows: Rows::Selected };
        let shape = Shape {
            architecture: "ops".to_owned(),
            layers: 1,
            hidden: vocab,
            heads: 1,
            kv_heads: 1,
            head_dim: 1,
            ffn: 1,
            tied: false,
        };
        let plan = Plan {
            shape,
            weights: Vec::new(),
            buffers: vec![logits],
            caches: Vec::new(),
            groups: vec![CacheGroup { window: None }],
            states: Vec::new(),
            ropes: Vec::new(),
            steps: Vec::new(),
            vocab,
            token_types: 1,
            context: CONTEXT,
            whole_sequences: false,
            entry: Vec::new(),
            exit: Vec::new(),
            injected: None,
            encoder: None,
            host: Vec::new(),
            marks: Default::default(),
            output: OutputKind::Logits,
            logits: BufferId(0),
        };
        Self { plan, values: Vec::new() }
    }

    fn weight(
        &mut self,
        dtype: DType,
        kind: WeightKind,
        [row_len, rows]: [usize; 2],
        values: Values,
    ) -> WeightId {
        let id = self.plan.weights.len();
        let name = format!("w{id}");
        self.plan.weights.push(Weight {
            name,
            dtype,
            kind,
            rows,
            row_len,
            part: None,
            marked: false,
        });
        self.values.push(values);
        WeightId(id)
    }

    pub(super) fn step(&mut self, op: Op, inputs: &[BufferId], outputs: &[BufferId]) {
        let step = Step { op, inputs: inputs.to_vec(), outputs: outputs.to_vec(), layer: Some(0) };
        self.plan.steps.push(step);
    }

    fn width(&self, id: BufferId) -> usize {
        self.plan.buffer(id).width
    }

    /// A buffer with the rows of another.
    pub(super) fn buffer(&mut self, width: usize, like: BufferId) -> BufferId {
        let rows = self.plan.buffer(like).rows;
        self.plan.buffers.push(Buffer { name: "b", width, rows });
        BufferId(self.plan.buffers.len() - 1)
    }

    /// Rows of a random table `[vocab, width]`.
    pub(super) fn embed(&mut self, dtype: DType, width: usize) -> BufferId {
        let values = Values { mean: 0.0, deviation: 1.0 };
        let shape = [width, self.plan.vocab];
        let table = self.weight(dtype, WeightKind::Matrix, shape, values);
        self.plan.buffers.push(Buffer { name: "x", width, rows: Rows::All });
        let x = BufferId(self.plan.buffers.len() - 1);
        self.step(Op::Embed { table }, &[], &[x]);
        x
    }

    /// The factors of a norm over `len` elements.
    pub(super) fn norm(&mut self, len: usize) -> Norm {
        let values = Values { mean: 1.0, deviation: 0.2 };
        let weight = self.weight(DType::F32, WeightKind::Vector, [len, 1], values);
        Norm::rms(weight, 1e-5)
    }

    /// A norm of a kind over `len` elements, with random factors and summands or none.
    pub(super) fn norm_of(
        &mut self,
        kind: NormKind,
        len: usize,
        factors: bool,
        summands: bool,
    ) -> Norm {
        let weight = factors.then(|| self.vector(len, 1.0, 0.2));
        let bias = summands.then(|| self.vector(len, 0.0, 0.2));
        Norm { kind, weight, bias, eps: 1e-5 }
    }

    /// A random vector.
    pub(super) fn vector(&mut self, len: usize, mean: f32, deviation: f32) -> WeightId {
        self.weight(DType::F32, WeightKind::Vector, [len, 1], Values { mean, deviation })
    }

    /// A random table `[rows, width]`.
    pub(super) fn table(&mut self, dtype: DType, width: usize, rows: usize) -> WeightId {
        let values = Values { mean: 0.0, deviation: 0.5 };
        self.weight(dtype, WeightKind::Matrix, [width, rows], values)
    }

    /// Random matrices `[count, outputs, cols]`.
    pub(super) fn matrices(
        &mut self,
        dtype: DType,
        count: usize,
        cols: usize,
        outputs: usize,
    ) -> WeightId {
        let values = Values { mean: 0.0, deviation: (cols as f32).powf(-0.5) };
        self.weight(dtype, WeightKind::Matrices { count }, [cols, outputs], values)
    }

    /// Makes a weight the rows from `first` on of a tensor of `of` rows.
    pub(super) fn part(&mut self, id: WeightId, first: usize, of: usize) {
        self.plan.weights[id.0].part = Some(Part { first, of });
    }

    /// A recurrent state of `len` elements.
    pub(super) fn state(&mut self, len: usize) -> usize {
        self.plan.states.push(State { len });
        self.plan.states.len() - 1
    }

    /// `norm x → y`.
    pub(super) fn normed(&mut self, x: BufferId) -> BufferId {
        let norm = self.norm(self.width(x));
        let y = self.buffer(self.width(x), x);
        self.step(Op::Norm(norm), &[x], &[y]);
        y
    }

    /// A random matrix `[outputs, cols]`, with a random bias or none.
    pub(super) fn linear(
        &mut self,
        dtype: DType,
        cols: usize,
        outputs: usize,
        bias: bool,
    ) -> Linear {
        let deviation = (cols as f32).powf(-0.5);
        let values = Values { mean: 0.0, deviation };
        let weight = self.weight(dtype, WeightKind::Matrix, [cols, outputs], values);
        let values = Values { mean: 0.0, deviation: 0.3 };
        let bias = bias.then(|| self.weight(DType::F32, WeightKind::Vector, [outputs, 1], values));
        Linear { weight, bias }
    }

    /// `linear x → y`.
    pub(super) fn multiplied(
        &mut self,
        x: BufferId,
        dtype: DType,
        outputs: usize,
        bias: bool,
    ) -> BufferId {
        let linear = self.linear(dtype, self.width(x), outputs, bias);
        let y = self.buffer(outputs, x);
        self.step(Op::Linear(linear), &[x], &[y]);
        y
    }

    /// `glu gate up → g`.
    pub(super) fn gated(&mut self, gate: BufferId, up: BufferId) -> BufferId {
        let g = self.buffer(self.width(gate), gate);
        self.step(Op::Glu(Gating::Product(Activation::Silu)), &[gate, up], &[g]);
        g
    }

    /// A rotation of `pairs` pairs.
    pub(super) fn rope(&mut self, style: RopeStyle, pairs: usize) -> RopeId {
        let frequencies = (0..pairs).map(|i| 100f32.powf(-(i as f32) / pairs as f32)).collect();
        self.plan.ropes.push(Rope {
            style,
            frequencies,
            axes: Vec::new(),
            factor: 1.0,
            scaling: "",
        });
        RopeId(self.plan.ropes.len() - 1)
    }

    /// Makes the pairs of a rotation turn by these coordinates.
    pub(super) fn axes(&mut self, rope: RopeId, axis: impl Fn(usize) -> u8) {
        let rope = &mut self.plan.ropes[rope.0];
        rope.axes = (0..rope.frequencies.len()).map(axis).collect();
    }

    /// Lets rows have embeddings of so many slices in place of tokens.
    pub(super) fn pictures(&mut self, slices: usize) {
        self.plan.injected = Some(Injected { slices, token: 2 });
    }

    /// The cache of some heads, and attention over it.
    pub(super) fn attention(&mut self, heads: Heads) -> Attention {
        let Heads { kv_heads, group, head_dim, window } = heads;
        self.plan.groups[0].window = window;
        self.plan.caches.push(Cache::new(kv_heads, head_dim, 0));
        let cache = self.plan.caches.len() - 1;
        let scale = (head_dim as f32).powf(-0.5);
        Attention {
            cache,
            heads: kv_heads * group,
            scale,
            mask: Mask::Causal { window },
            softcap: None,
            sinks: None,
            alibi: None,
        }
    }

    /// A cache whose group has the window of a mask.
    pub(super) fn cache(&mut self, cache: Cache, mask: Mask) -> usize {
        self.plan.groups[cache.group].window = mask.window();
        self.plan.caches.push(cache);
        self.plan.caches.len() - 1
    }

    /// Makes a plan of whole sequences, with results of a kind.
    pub(super) fn whole_sequences(&mut self, output: OutputKind) {
        self.plan.whole_sequences = true;
        self.plan.output = output;
    }

    /// A buffer of the selected rows.
    pub(super) fn selected_buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffers.push(Buffer { name: "s", width, rows: Rows::Selected });
        BufferId(self.plan.buffers.len() - 1)
    }

    /// `select x → y`.
    pub(super) fn selected(&mut self, x: BufferId) -> BufferId {
        let y = self.selected_buffer(self.width(x));
        self.step(Op::Select, &[x], &[y]);
        y
    }

    /// The plan, whose logits are the selected rows of `x`, or `x` itself if those are selected.
    pub(super) fn finish(mut self, x: BufferId) -> Self {
        assert_eq!(self.width(x), self.plan.vocab);
        match self.plan.buffer(x).rows {
            Rows::All => {
                let logits = self.plan.logits;
                self.step(Op::Select, &[x], &[logits]);
            }
            Rows::Selected => self.plan.logits = x,
        }
        self
    }

    /// The plan, whose results are the rows of `x`, of any width.
    pub(super) fn finish_with(mut self, x: BufferId) -> Self {
        assert_eq!(self.plan.buffer(x).rows, Rows::Selected);
        self.plan.logits = x;
        self
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The random weights.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        let mut writer = GgufWriter::new();
        writer.set("general.architecture", "ops").unwrap();
        for weight in &self.plan.weights {
            writer.declare(&weight.name, weight.dtype, &weight.dims()).unwrap();
        }
        let mut random = Random::new(self.plan.weights.len() as u64);
        let mut body = writer.begin(Vec::new()).unwrap();
        for (weight, values) in self.plan.weights.iter().zip(&self.values) {
            let Values { mean, deviation } = *values;
            let len = weight.dims().into_iter().product();
            body.write(&random.blocks(weight.dtype, len, mean, deviation)).unwrap();
        }
        Checkpoint::from_bytes("random weights", body.finish().unwrap()).unwrap()
    }
}
