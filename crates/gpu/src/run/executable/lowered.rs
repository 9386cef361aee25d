//! The buffers and the dispatches of a plan, made at load.

use pelton_graph::{Error, Limits, PAGE, Plan, Rows};

use crate::{
    device::Device,
    kernels::rope_store::rotation_steps,
    lower::{
        choices::Choices,
        dispatch::{Dispatch, RowClass},
        kernel_cache::KernelCache,
        loaded::Loaded,
        lowering::Lowering,
        options::{Options, Tunings},
    },
    persist::{self, Mode, Persistent, Trial},
};

/// The dispatches of a plan.
pub(super) struct Lowered {
    /// Whether steps select the rows that something is wanted of: those of a part
    /// before the last do not.
    pub(super) selects: bool,
    /// The most rows of a tile of attention: the least of all ops, valid for all.
    pub(super) tile_rows: Option<usize>,
    /// The dispatches of each step of a decoding pass over a single row, selected where steps
    /// select.
    pub(super) alone: Vec<Vec<Dispatch>>,
    /// `[classes, steps]` of each step, in the order of [`RowClass::ALL`].
    pub(super) classes: [Vec<Vec<Dispatch>>; RowClass::ALL.len()],
    /// The kernels of passes of few rows whose layers are one dispatch each, if they are used.
    pub(super) persistent: Option<Persistent>,
}

impl Lowered {
    /// Lowers a plan for each row class, and compiles its kernels.
    pub(super) fn new(
        loaded: &Loaded<'_>,
        limits: &Limits,
        (choices, persistent): (Option<&Choices>, Mode),
        tile_rows: Option<usize>,
    ) -> Result<Self, Error> {
        let mut kernels = KernelCache::default();
        let tunings = Tunings::find(loaded, &mut kernels, choices)?;
        let options = Options { tunings, phases: None, dense: false };
        let mut lowering = Lowering::new(loaded, options, &mut kernels);
        let alone = lowering.steps(RowClass::One, true)?;
        let [one, two, four, eight, sixteen, thirty_two, many, prompt] =
            RowClass::ALL.map(|class| lowering.steps(class, false));
        let classes = [one?, two?, four?, eight?, sixteen?, thirty_two?, many?, prompt?];
        kernels.compile(loaded.device)?;
        let trial = Trial {
            loaded,
            alone: &alone,
            classes: &classes,
            rows: limits.decode_rows().min(limits.wants),
            context: limits.pages.iter().map(|pages| pages * PAGE).fold(limits.context, usize::min),
            choices,
        };
        let persistent = persist::choose(&trial, persistent)?;
        let plan = loaded.plan;
        let selects = plan.steps.iter().any(|step| plan.step_rows(step) == Rows::Selected);
        Ok(Self { selects, tile_rows, alone, classes, persistent })
    }
}

/// The buffers of a plan.
pub(super) fn allocate_buffers(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
) -> Result<Vec<wgpu::Buffer>, Error> {
    let buffers = plan.buffers.iter().map(|buffer| {
        let rows = limits.rows_of(buffer.rows);
        device.buffer(buffer.name, 4 * rows as u64 * buffer.width as u64)
    });
    buffers.collect()
}

/// The rotation steps of each rope of a plan.
pub(super) fn rotations(device: &Device, plan: &Plan) -> Result<Vec<wgpu::Buffer>, Error> {
    let ropes = plan.ropes.iter().map(|rope| {
        let steps = rotation_steps(rope);
        let buffer = device.buffer("rotation steps", 8 * steps.len() as u64)?;
        device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&steps));
        Ok(buffer)
    });
    ropes.collect()
}
