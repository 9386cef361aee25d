//! The plan's tensors: small ones decoded to f32, matrices as they lie in the file, packed, or in
//! input-major order.

use std::collections::HashSet;
use std::sync::Arc;

use memmap2::MmapMut;
use pelton_graph::{BufferId, Error, Op, Plan, WeightId, WeightKind};
use pelton_quant::DType;
use pelton_weights::{Checkpoint, Tensor};

use super::{LoadBudget, Use};
use crate::effort::{EffortWeights, effort_bytes};
use crate::gemm::buckets::Buckets;
use crate::gemm::{ActivationKind, MatrixError, MatrixRef, Panels, can_pack, pack};
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};

/// The plan's tensors, each of the kind, shape and type that the plan says.
#[derive(Debug)]
pub(crate) struct Weights {
    checkpoint: Arc<Checkpoint>,
    all: Vec<Weight>,
    /// Whether there is memory for the rows of marked matrices next to their order
    /// for efforts below 1.
    keeps_rows: bool,
}

#[derive(Debug)]
enum Weight {
    /// A vector, or a table of vectors `[rows, row_len]`.
    Floats(Vec<f32>),
    /// One or several matrices.
    Matrices {
        stored: Matrices,
        packed: Option<Packed>,
        /// A second order of those whose rows can be below 1.
        marked: Option<Box<EffortWeights>>,
    },
}

/// A copy of matrices, without rows between them, in panels or row by row.
#[derive(Debug)]
struct Packed {
    copy: MmapMut,
    panels: Option<Panels>,
}

/// One or several matrices, each some rows of a matrix of their tensor.
#[derive(Clone, Copy, Debug)]
struct Matrices {
    /// The index of the tensor in the checkpoint.
    tensor: usize,
    row_bytes: usize,
    /// The first row, and the number of rows, of each.
    first: usize,
    rows: usize,
    /// Rows of a matrix of the tensor.
    of: usize,
    /// Whether its results choose experts.
    routes: bool,
}

/// One or several matrices `[count, rows, row_len]` in their stored format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredMatrices<'a> {
    pub(crate) dtype: DType,
    tensor: &'a [u8],
    matrices: Matrices,
    packed: Option<Panels>,
}

impl<'a> StoredMatrices<'a> {
    /// Matrix `index` `[rows, cols]`; 0 if it is one.
    ///
    /// # Errors
    /// If the shape is not that of the bytes.
    pub(crate) fn matrix(
        &self,
        index: usize,
        rows: usize,
        cols: usize,
    ) -> Result<MatrixRef<'a>, MatrixError> {
        let matrix = match self.packed {
            Some(panels) => MatrixRef::packed(self.dtype, rows, cols, self.bytes(index), panels),
            None => MatrixRef::new(self.dtype, rows, cols, self.bytes(index)),
        }?;
        Ok(if self.matrices.routes { matrix.in_one_phase() } else { matrix })
    }

    /// The bytes of matrix `index`; 0 if it is one.
    fn bytes(&self, index: usize) -> &'a [u8] {
        let Matrices { row_bytes, first, rows, of, .. } = self.matrices;
        let start = (index * of + first) * row_bytes;
        &self.tensor[start..start + rows * row_bytes]
    }
}

impl Weights {
    /// Finds the tensors of a plan.
    ///
    /// # Errors
    /// If a tensor is missing, or of another shape or type than the plan says.
    pub(crate) fn new(plan: &Plan, checkpoint: Arc<Checkpoint>) -> Result<Self, Error> {
        let (small, routers) = (small(plan), routers(plan));
        let mut all = Vec::with_capacity(plan.weights.len());
        for ((weight, small), routes) in plan.weights.iter().zip(small).zip(routers) {
            let tensor = weight.tensor(&checkpoint)?;
            let refused = |what| Error::Matrix { tensor: weight.name.clone(), what };
            let is_vector = !weight.is_matrix();
            let (first, of) = (weight.first(), weight.tensor_rows());
            // the range of a vector is one of elements
            let (rows, of) = match (weight.kind, weight.part) {
                (WeightKind::Vector, Some(part)) => (weight.row_len, part.of),
                (WeightKind::Vector, None) => (weight.row_len, weight.row_len),
                _ => (weight.rows, of),
            };
            let end = first.checked_add(rows).filter(|&end| end <= of);
            let end = end.ok_or_else(|| {
                refused(format!("has {of} rows, expected {rows} rows from row {first} on"))
            })?;
            if is_vector || small {
                let width = if is_vector { 1 } else { weight.row_len };
                let mut values = tensor.decode();
                values.truncate(end * width);
                values.drain(..first * width);
                all.push(Weight::Floats(values));
                continue;
            }
            if tensor.dtype != weight.dtype {
                let (found, expected) = (tensor.dtype, weight.dtype);
                return Err(refused(format!("is stored as {found}, expected {expected}")));
            }
            let index = checkpoint.tensor_index(&weight.name);
            let row_bytes = weight.dtype.bytes_of(weight.row_len);
            let stored = Matrices {
                tensor: index.ok_or_else(|| refused("has no index".to_owned()))?,
                row_bytes: row_bytes.ok_or_else(|| {
                    refused(format!("has rows of {}, expected whole blocks", weight.row_len))
                })?,
                first,
                rows,
                of,
                routes,
            };
            all.push(Weight::Matrices { stored, packed: None, marked: None });
        }
        Ok(Self { checkpoint, all, keeps_rows: true })
    }

    /// Bytes of the weights of a plan that [`new`](Self::new) decodes.
    pub(crate) fn decoded_bytes(plan: &Plan) -> u128 {
        let decoded = plan.weights.iter().zip(small(plan));
        let decoded = decoded.filter(|(weight, small)| *small || !weight.is_matrix());
        let bytes = decoded.map(|(weight, _)| (weight.len() as u128).saturating_mul(4));
        bytes.fold(0, u128::saturating_add)
    }

    /// Bytes of the weights of a plan that stay in the map of their file.
    pub(crate) fn mapped_bytes(plan: &Plan) -> u128 {
        let mapped = plan.weights.iter().zip(small(plan));
        let mapped = mapped.filter(|(weight, small)| !*small && weight.is_matrix());
        mapped
            .filter_map(|(weight, _)| weight.dtype.bytes_of(weight.len()))
            .map(|n| n as u128)
            .sum()
    }

    /// Bytes of the second orders of marked matrices.
    ///
    /// # Errors
    /// [`Error::Effort`] if one has no such order.
    pub(crate) fn second_bytes(plan: &Plan) -> Result<u128, Error> {
        effort_bytes(plan)
    }

    /// Copies marked matrices to their second order.
    ///
    /// # Errors
    /// [`Error::Effort`] if one has no such order, [`Error::LoadMemory`] or [`Error::Memory`] if
    /// there is not enough memory.
    pub(crate) fn keep_second(
        &mut self,
        plan: &Plan,
        pool: &Pool,
        budget: &mut LoadBudget,
    ) -> Result<(), Error> {
        budget.take(Use::Second, effort_bytes(plan)?)?;
        for (i, _) in plan.weights.iter().enumerate().filter(|(_, weight)| weight.marked) {
            let Weight::Matrices { stored, marked, .. } = &mut self.all[i] else { continue };
            let Matrices { tensor, row_bytes, first, rows, of, .. } = *stored;
            let bytes = self.checkpoint.tensor_at(tensor).bytes;
            let rows =
                |index: usize| &bytes[(index * of + first) * row_bytes..][..rows * row_bytes];
            let kept = EffortWeights::new(plan, WeightId(i), &rows, &self.checkpoint, pool)?;
            *marked = Some(Box::new(kept));
        }
        Ok(())
    }

    /// The second order of a matrix.
    pub(crate) fn marked(&self, id: WeightId) -> Option<&EffortWeights> {
        match &self.all[id.0] {
            Weight::Matrices { marked, .. } => marked.as_deref(),
            Weight::Floats(_) => None,
        }
    }

    /// The sorted buckets of matrices, if that is their second order.
    pub(crate) fn sorted(&self, id: WeightId) -> Option<&[Buckets]> {
        match self.marked(id)? {
            EffortWeights::Buckets(all) => Some(all),
            EffortWeights::Lines(..) => None,
        }
    }

    /// Keeps the rows of marked matrices too, if there is memory for both orders and for copies
    /// of all other matrices: full rows then run as in a load without marks. Else many rows read
    /// the file, and few the order for efforts below 1. No row is full where some ranks of
    /// buckets alone are kept.
    pub(crate) fn keep_rows(&mut self, plan: &Plan, budget: &mut LoadBudget) {
        let marked = plan.weights.iter().filter(|weight| weight.marked);
        let bytes = marked.filter_map(|weight| weight.dtype.bytes_of(weight.len()));
        let bytes = bytes.map(|bytes| bytes as u128).sum();
        self.keeps_rows = !plan.is_partial()
            && budget.has(u128::from(packed_bytes(plan)).max(bytes))
            && budget.take(Use::Packed, bytes).is_ok();
    }

    /// Whether it [keeps](Self::keep_rows) them.
    pub(crate) fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    /// Copies the matrices that steps multiply with into large pages, if the instruction set has
    /// kernels for packed rows and there is memory: block formats in panels, F32, F16 and BF16 as
    /// they are. Otherwise they stay in the file.
    pub(crate) fn pack(&mut self, plan: &Plan, pool: &Pool, isa: Isa, budget: &mut LoadBudget) {
        let Some(panels) = Panels::of(isa) else {
            return;
        };
        let can = |dtype, rows| can_pack(dtype, rows, panels);
        self.copy(plan, pool, Some(panels), can, budget);
        self.copy(plan, pool, None, |dtype, _| can_copy(dtype), budget);
    }

    /// Copies the matrices that steps multiply with and whose type and rows are `wanted`, if
    /// there is memory for them.
    fn copy(
        &mut self,
        plan: &Plan,
        pool: &Pool,
        panels: Option<Panels>,
        wanted: impl Fn(DType, usize) -> bool,
        budget: &mut LoadBudget,
    ) {
        let copies: Vec<bool> = (self.all.iter().zip(&plan.weights).zip(multiplied(plan)))
            .map(|((weight, of), multiplied)| match weight {
                Weight::Matrices { stored, marked, .. } => {
                    let keeps = marked.is_none() || self.keeps_rows;
                    multiplied && keeps && wanted(of.dtype, stored.rows)
                }
                Weight::Floats(_) => false,
            })
            .collect();
        let bytes_of = |(weight, of): (&Weight, &pelton_graph::Weight)| match weight {
            Weight::Matrices { stored, .. } => of.count() * stored.rows * stored.row_bytes,
            Weight::Floats(_) => 0,
        };
        let all = self.all.iter().zip(&plan.weights).zip(&copies).filter(|(_, copies)| **copies);
        // those of marked ones have been taken
        let all = all.filter(|((_, of), _)| !of.marked);
        let needed: u128 = all.map(|(weight, _)| bytes_of(weight) as u128).sum();
        if budget.take(Use::Packed, needed).is_err() {
            return;
        }
        for ((weight, of), _) in
            self.all.iter_mut().zip(&plan.weights).zip(copies).filter(|(_, copies)| *copies)
        {
            let bytes = bytes_of((weight, of));
            if let Weight::Matrices { stored, packed, .. } = weight {
                let tensor = self.checkpoint.tensor_at(stored.tensor).bytes;
                *packed = copy_packed(of.dtype, tensor, *stored, bytes, panels, pool)
                    .map(|copy| Packed { copy, panels });
            }
        }
    }

    /// The elements of a norm, a bias or another small weight.
    ///
    /// # Errors
    /// If the weight is a matrix.
    pub(crate) fn vector(&self, id: WeightId) -> Result<&[f32], Error> {
        match &self.all[id.0] {
            Weight::Floats(values) => Ok(values),
            Weight::Matrices { stored, .. } => Err(Error::Matrix {
                tensor: self.checkpoint.tensor_at(stored.tensor).name.to_owned(),
                what: "is a matrix, expected a vector".to_owned(),
            }),
        }
    }

    /// The elements of a small weight, if there is one.
    ///
    /// # Errors
    /// If the weight is a matrix.
    pub(crate) fn optional(&self, id: Option<WeightId>) -> Result<Option<&[f32]>, Error> {
        id.map(|id| self.vector(id)).transpose()
    }

    /// The matrices of a weight.
    ///
    /// # Errors
    /// If the weight is a vector.
    pub(crate) fn matrices(&self, plan: &Plan, id: WeightId) -> Result<StoredMatrices<'_>, Error> {
        match &self.all[id.0] {
            Weight::Matrices { stored, packed: Some(packed), .. } => {
                let dtype = self.checkpoint.tensor_at(stored.tensor).dtype;
                // the copy has the rows of the matrices alone
                let matrices = Matrices { first: 0, of: stored.rows, ..*stored };
                let panels = packed.panels;
                Ok(StoredMatrices { dtype, tensor: &packed.copy, matrices, packed: panels })
            }
            Weight::Matrices { .. } | Weight::Floats(_) => self.stored(plan, id),
        }
    }

    /// The matrices of a weight as they are in the file.
    ///
    /// # Errors
    /// If the weight is a vector.
    fn stored(&self, plan: &Plan, id: WeightId) -> Result<StoredMatrices<'_>, Error> {
        match &self.all[id.0] {
            Weight::Matrices { stored, .. } => {
                let Tensor { dtype, bytes, .. } = self.checkpoint.tensor_at(stored.tensor);
                Ok(StoredMatrices { dtype, tensor: bytes, matrices: *stored, packed: None })
            }
            Weight::Floats(_) => Err(Error::Matrix {
                tensor: plan.weight(id).name.clone(),
                what: "is a vector, expected a matrix".to_owned(),
            }),
        }
    }

    /// Decodes one row of matrix `index` of a weight into `y` `[row_len]`.
    ///
    /// # Errors
    /// If the weight is a vector.
    pub(crate) fn decode_row(
        &self,
        plan: &Plan,
        id: WeightId,
        index: usize,
        row: usize,
        y: &mut [f32],
    ) -> Result<(), Error> {
        let matrices = self.stored(plan, id)?;
        let row_bytes = matrices.matrices.row_bytes;
        let blocks = &matrices.bytes(index)[row * row_bytes..(row + 1) * row_bytes];
        Ok(pelton_quant::decode(matrices.dtype, blocks, y)?)
    }
}

/// Whether each weight is multiplied by a step, not only looked up.
pub(crate) fn multiplied(plan: &Plan) -> Vec<bool> {
    let mut multiplied = vec![false; plan.weights.len()];
    for step in &plan.steps {
        if !matches!(step.op, Op::Embed { .. } | Op::AddTable { .. }) {
            step.op.weights().into_iter().for_each(|id| multiplied[id.0] = true);
        }
    }
    multiplied
}

/// Whether the results of each weight are what experts are chosen by.
fn routers(plan: &Plan) -> Vec<bool> {
    let routes = plan.steps.iter().filter(|step| matches!(step.op, Op::Route(_)));
    let scores: HashSet<BufferId> =
        routes.filter_map(|step| step.inputs.first().copied()).collect();
    let mut routers = vec![false; plan.weights.len()];
    for step in &plan.steps {
        if let Op::Linear(linear) = &step.op
            && step.outputs.iter().any(|id| scores.contains(id))
        {
            routers[linear.weight.0] = true;
        }
    }
    routers
}

/// Whether rows of a type are copied into large pages as they are.
fn can_copy(dtype: DType) -> bool {
    cfg!(target_os = "linux") && ActivationKind::of(dtype) == ActivationKind::F32
}

/// Bytes of the copies of weights that a load makes on this CPU, if there is memory for them:
/// [`Needs`](pelton_graph::Needs) does not count them.
pub fn packed_bytes(plan: &Plan) -> u64 {
    let Some(panels) = Isa::chosen().ok().and_then(Panels::of) else { return 0 };
    let weights = plan.weights.iter().zip(multiplied(plan)).zip(small(plan));
    let packed = weights.filter(|((weight, multiplied), small)| {
        let stored = weight.is_matrix() && !small;
        let copied = can_pack(weight.dtype, weight.rows, panels) || can_copy(weight.dtype);
        stored && *multiplied && copied
    });
    packed.map(|((weight, _), _)| weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64).sum()
}

/// A copy of matrices, in panels or row by row; `None` if the system refuses the memory.
fn copy_packed(
    dtype: DType,
    tensor: &[u8],
    stored: Matrices,
    bytes: usize,
    panels: Option<Panels>,
    pool: &Pool,
) -> Option<MmapMut> {
    let mut copy = MmapMut::map_anon(bytes).ok()?;
    // fewer misses of address translation; without them it is as correct
    #[cfg(target_os = "linux")]
    let _ = copy.advise(memmap2::Advice::HugePage);
    let rows = panels.map_or(1, Panels::rows);
    let panel = rows * stored.row_bytes;
    let of_matrix = stored.rows / rows;
    let to = SharedMut::new(&mut copy[..]);
    pool.run(|worker| {
        for i in worker.split(bytes / panel, 1) {
            let row = i / of_matrix * stored.of + stored.first + i % of_matrix * rows;
            let from = &tensor[row * stored.row_bytes..][..panel];
            // SAFETY: one thread writes a panel.
            let to = unsafe { to.slice_mut(i * panel..(i + 1) * panel) };
            match panels {
                Some(panels) => pack(dtype, from, to, panels),
                None => to.copy_from_slice(from),
            }
        }
    });
    Some(copy)
}

/// Whether each weight is a small table that is decoded at load: the taps of convolutions and the
/// biases of experts.
fn small(plan: &Plan) -> Vec<bool> {
    let mut small = vec![false; plan.weights.len()];
    for step in &plan.steps {
        let ids = match &step.op {
            Op::ShortConv(conv) => [Some(conv.weight), None],
            Op::ExpertLinear(linear) => [linear.bias, None],
            Op::ExpertGlu { gate, up, gating: _ } => [gate.bias, up.bias],
            _ => [None, None],
        };
        for id in ids.into_iter().flatten() {
            small[id.0] = true;
        }
    }
    small
}
