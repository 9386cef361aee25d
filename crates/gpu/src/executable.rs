//! A plan resident on a device.

use std::{collections::HashMap, sync::Arc};

use pelton_graph::{
    Backend, Batch, Choice, Error, Executable, Fusion, KvType, Limits, Op, PAGE, Plan, Profile,
    Row, Rows, Step, pages_for,
};
use pelton_weights::Checkpoint;

use crate::{
    adapters::Adapter,
    attention::Attention,
    chain::Chain,
    device::{Device, Kernel},
    lower::{Cache, Call, Class, Extent, Inputs, Lowering, MANY, Scratch},
    profile,
    rope_store::{Caches, turns},
    sample::{Around, Sample},
    tuning::{CANDIDATES, Choices},
    weights::{Weights, resident_bytes},
};

/// The fused ops that this backend has.
pub const FUSIONS: &[Fusion] = &Fusion::ALL;

/// A GPU as a backend.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: Arc<Device>,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// If it lacks something that every kernel needs, or the driver refuses.
    pub fn open(adapter: &Adapter) -> Result<Self, Error> {
        Ok(Self { device: Device::open(adapter, false)? })
    }

    /// As [`open`](Self::open), with kernels that test every index: slower, for tests.
    pub fn open_checked(adapter: &Adapter) -> Result<Self, Error> {
        Ok(Self { device: Device::open(adapter, true)? })
    }
}

impl Backend for Gpu {
    fn name(&self) -> &str {
        &self.device.name
    }

    fn fusions(&self) -> &[Fusion] {
        FUSIONS
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let device = Arc::clone(&self.device);
        Ok(Box::new(GpuExecutable::load(device, plan, &checkpoint, limits, progress)?))
    }
}

struct GpuExecutable {
    device: Arc<Device>,
    plan: Plan,
    limits: Limits,
    buffers: Vec<wgpu::Buffer>,
    inputs: Inputs,
    /// Through which logits come back.
    readback: wgpu::Buffer,
    logits: Vec<f32>,
    /// For each class of rows, the calls of each step.
    classes: [Vec<Vec<Call>>; 4],
    /// The calls of each step of a pass over one row that is selected.
    alone: Vec<Vec<Call>>,
    tables: Vec<u32>,
    sample: Sample,
    chain: Chain,
    /// That which shares a key head among most queries: tiles that suit it suit all.
    attention: Option<Attention>,
    _weights: Weights,
}

impl GpuExecutable {
    fn load(
        device: Arc<Device>,
        plan: Plan,
        checkpoint: &Checkpoint,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        check_kv(limits.kv)?;
        check_memory(&device, &plan, &limits)?;
        let weights = Weights::load(&device, &plan, checkpoint, progress)?;
        let buffers = plan
            .buffers
            .iter()
            .map(|buffer| {
                let rows = rows_of(buffer.rows, &limits);
                device.buffer(buffer.name, 4 * rows as u64 * buffer.width as u64)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let positions = limits.pages.saturating_mul(PAGE).min(plan.context);
        let table = pages_for(positions);
        let caches = caches(&device, &plan, &limits)?;
        let turns = plan
            .ropes
            .iter()
            .map(|rope| {
                let turns = turns(rope);
                let buffer = device.buffer("turns", 8 * turns.len() as u64)?;
                device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&turns));
                Ok(buffer)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let inputs = Inputs {
            table,
            tiles: device.buffer("tiles", 8 * limits.rows as u64)?,
            pass: device.buffer("pass", 8)?,
            rows: device.buffer("rows", 16 * limits.rows as u64)?,
            selected: device.buffer("selected", 4 * limits.selected as u64)?,
            tables: device.buffer("tables", 4 * (limits.sequences * table) as u64)?,
        };
        let logits = limits.selected * plan.vocab;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let readback = device.buffer_for("logits back", 4 * logits as u64, usage)?;

        let attention = attention_of(&plan, &limits, table);
        let parts = attention.as_ref().map_or(0, |attention| {
            let few = 1..=limits.rows.min(MANY);
            let parts = few.map(|n| attention.parts_len(n, attention.splits(n, positions)));
            parts.max().unwrap_or(0)
        });
        let scratch = Scratch::new(&device, &plan, limits.rows, parts)?;
        let mut lowering = Lowering {
            device: &device,
            plan: &plan,
            weights: &weights,
            buffers: &buffers,
            inputs: &inputs,
            scratch: &scratch,
            caches: &caches,
            kv: limits.kv,
            turns: &turns,
            rows: limits.rows,
            tuning: CANDIDATES[0],
            kernels: HashMap::new(),
        };
        let choices = Choices::find(&device, &mut lowering)?;
        let mut lower = |class, alone| -> Result<Vec<Vec<Call>>, Error> {
            let steps = plan.steps.iter().enumerate();
            steps
                .map(|(i, step)| {
                    lowering.tuning = choices.of(i);
                    lowering.step(step, class, alone)
                })
                .collect()
        };
        let alone = lower(Class::One, true)?;
        let [one, few, several, many] = Class::ALL.map(|class| lower(class, false));
        let classes = [one?, few?, several?, many?];
        let kernels: Vec<Arc<Kernel>> = lowering.kernels.into_values().collect();
        device.compile_all(&kernels)?;
        let chain = Chain::new(&device, positions)?;
        let logits_buffer = &buffers[plan.logits.0];
        let around = Around { logits: logits_buffer, rows: &inputs.rows, tokens: &chain.tokens };
        let sample = Sample::new(&device, plan.vocab, around)?;
        device.wait()?;
        Ok(Self {
            sample,
            chain,
            attention,
            tables: vec![0; limits.sequences * table],
            logits: vec![0.0; logits],
            device,
            limits,
            buffers,
            inputs,
            readback,
            classes,
            alone,
            plan,
            _weights: weights,
        })
    }

    /// Tells the device which rows a pass has; returns how many tiles attention cuts them into.
    fn write_inputs(&mut self, batch: &Batch<'_>) -> usize {
        let queue = &self.device.queue;
        let pass = [batch.rows.len() as u32, batch.selected.len() as u32];
        queue.write_buffer(&self.inputs.pass, 0, bytemuck::cast_slice(&pass));
        let rows: Vec<[u32; 4]> =
            batch.rows.iter().map(|row| [row.token, row.position, row.sequence, 0]).collect();
        queue.write_buffer(&self.inputs.rows, 0, bytemuck::cast_slice(&rows));
        if !batch.selected.is_empty() {
            queue.write_buffer(&self.inputs.selected, 0, bytemuck::cast_slice(batch.selected));
        }
        let table = self.tables.len() / self.limits.sequences;
        let mut changed = false;
        for (to, pages) in self.tables.chunks_mut(table).zip(batch.tables) {
            for (to, &page) in to.iter_mut().zip(pages) {
                changed |= *to != page;
                *to = page;
            }
        }
        if changed {
            queue.write_buffer(&self.inputs.tables, 0, bytemuck::cast_slice(&self.tables));
        }
        if Class::of(batch.rows.len()) != Class::Many {
            return 0;
        }
        let tiles = self.attention.map_or_else(Vec::new, |attention| attention.tiles(batch.rows));
        queue.write_buffer(&self.inputs.tiles, 0, bytemuck::cast_slice(&tiles));
        tiles.len()
    }

    /// What a pass over the batch calls, step by step.
    fn calls(&self, batch: &Batch<'_>, tiles: usize) -> impl Iterator<Item = StepCalls<'_>> {
        let alone = batch.rows.len() == 1 && batch.selected == [0];
        let bound = batch.rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(0);
        let rows: Vec<usize> = self.plan.steps.iter().map(|s| self.rows(s, batch)).collect();
        rows.into_iter().enumerate().map(move |(i, rows)| {
            let calls: &[Call] = match (rows, alone) {
                (0, _) => &[],
                (_, true) => &self.alone[i],
                (_, false) => &self.classes[Class::of(rows) as usize][i],
            };
            StepCalls { calls, extent: Extent { rows, bound, tiles } }
        })
    }

    /// How many rows a step computes: those of what it writes, or else of what it reads.
    fn rows(&self, step: &Step, batch: &Batch<'_>) -> usize {
        let selected = |id| self.plan.buffer(id).rows == Rows::Selected;
        match step.outputs.first().or(step.inputs.first()) {
            Some(&id) if selected(id) => batch.selected.len(),
            _ => batch.rows.len(),
        }
    }
}

/// The calls of one step, for a number of rows.
pub(crate) struct StepCalls<'a> {
    pub(crate) calls: &'a [Call],
    pub(crate) extent: Extent,
}

impl StepCalls<'_> {
    pub(crate) fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        for call in self.calls {
            if let Some(groups) = call.groups(&self.extent) {
                call.kernel.record(pass, &call.bindings, groups);
            }
        }
    }

    /// How many kernels it calls, and how many of them have to wait for one before.
    pub(crate) fn dispatches(&self) -> (usize, usize) {
        let all = || self.calls.iter().filter(|call| call.groups(&self.extent).is_some());
        (all().count(), all().filter(|call| !call.beside).count())
    }
}

impl Executable for GpuExecutable {
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        batch.check(&self.plan, &self.limits)?;
        let tiles = self.write_inputs(batch);
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for step in self.calls(batch, tiles) {
            step.record(&mut pass);
        }
        drop(pass);
        let len = batch.selected.len() * self.plan.vocab;
        if len > 0 {
            let logits = &self.buffers[self.plan.logits.0];
            encoder.copy_buffer_to_buffer(logits, 0, &self.readback, 0, 4 * len as u64);
        }
        self.device.queue.submit([encoder.finish()]);
        if len > 0 {
            let out = bytemuck::cast_slice_mut(&mut self.logits[..len]);
            self.device.read(&self.readback, out)?;
        } else {
            self.device.check()?;
        }
        Ok(&self.logits[..len])
    }

    fn chains(&self) -> bool {
        true
    }

    fn begin_chain(&mut self, row: Row, table: &[u32], choice: &Choice) -> Result<(), Error> {
        self.chain.end();
        let row = Row { sequence: 0, ..row };
        let batch = Batch { rows: &[row], tables: &[table.to_vec()], selected: &[0] };
        batch.check(&self.plan, &self.limits)?;
        self.write_inputs(&batch);
        let way = self.sample.begin(&self.device, choice);
        self.chain.begin(way, row.position as usize);
        Ok(())
    }

    fn extend_chain(&mut self, n: usize) -> Result<(), Error> {
        let Some(way) = self.chain.way else { return Err(Error::Chain("it was not begun")) };
        if !self.chain.has_room(n) {
            return Err(Error::Chain("it is too long, or too many parts of it wait"));
        }
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for position in self.chain.position..self.chain.position + n {
            let extent = Extent { rows: 1, bound: position + 1, tiles: 0 };
            for calls in &self.alone {
                StepCalls { calls, extent }.record(&mut pass);
            }
            self.sample.record(&mut pass, way);
        }
        drop(pass);
        self.chain.submit(&self.device, encoder, n);
        Ok(())
    }

    fn read_chain(&mut self) -> Result<&[u32], Error> {
        self.chain.read(&self.device)?.ok_or(Error::Chain("no part of it waits"))
    }

    fn end_chain(&mut self) {
        self.chain.end();
    }

    fn profile(&mut self, batch: &Batch<'_>, passes: usize) -> Result<Profile, Error> {
        batch.check(&self.plan, &self.limits)?;
        let tiles = self.write_inputs(batch);
        let steps: Vec<StepCalls<'_>> = self.calls(batch, tiles).collect();
        profile::measure(&self.device, &steps, passes)
    }
}

impl Drop for GpuExecutable {
    /// Leaves no work behind: a process that ends while the device runs can hang it.
    fn drop(&mut self) {
        let _ = self.device.wait();
    }
}

fn rows_of(rows: Rows, limits: &Limits) -> usize {
    match rows {
        Rows::All => limits.rows,
        Rows::Selected => limits.selected,
    }
}

/// The keys and values of all layers.
fn caches(device: &Device, plan: &Plan, limits: &Limits) -> Result<Vec<Cache>, Error> {
    let mut all = Vec::with_capacity(plan.caches.len());
    for cache in &plan.caches {
        let position = limits.kv.bytes(cache.heads * cache.head_dim) as u64;
        let bytes = position.saturating_mul(limits.pages.saturating_mul(PAGE) as u64);
        all.push(Cache {
            keys: device.buffer("keys", bytes)?,
            values: device.buffer("values", bytes)?,
        });
    }
    Ok(all)
}

/// Of the plan's attentions that which shares a key head among most queries.
fn attention_of(plan: &Plan, limits: &Limits, table: usize) -> Option<Attention> {
    let all = plan.steps.iter().filter_map(|step| match &step.op {
        Op::Attend(op) | Op::RopeAttend(_, op) => Some(op),
        _ => None,
    });
    let most = all.max_by_key(|op| op.heads / plan.caches[op.cache].heads)?;
    let pelton_graph::Cache { heads, head_dim } = plan.caches[most.cache];
    Some(Attention {
        heads: most.heads,
        head_dim,
        scale: most.scale,
        window: most.window,
        caches: Caches { kv_heads: heads, kv: limits.kv, table },
    })
}

/// Refuses caches that no kernel reads.
fn check_kv(kv: KvType) -> Result<(), Error> {
    match kv {
        KvType::F16 | KvType::F32 => Ok(()),
        KvType::Q8_0 => Err(Error::Kv {
            kv,
            what: "only on the processor; a GPU keeps them in f16 or f32".to_owned(),
        }),
    }
}

/// Refuses what cannot fit, with the numbers, before anything is uploaded.
fn check_memory(device: &Device, plan: &Plan, limits: &Limits) -> Result<(), Error> {
    const MIB: u64 = 1 << 20;
    let Some(available) = device.memory else { return Ok(()) };
    let weights = resident_bytes(plan);
    let position = limits.kv.bytes(plan.cache_len_per_position()) as u64;
    let cache = position.saturating_mul(limits.pages.saturating_mul(PAGE) as u64);
    let buffers: u64 =
        plan.buffers.iter().map(|b| 4 * (b.width * rows_of(b.rows, limits)) as u64).sum();
    let needed = weights.saturating_add(cache).saturating_add(buffers);
    if needed <= available {
        return Ok(());
    }
    let room = available.saturating_sub(weights + buffers) / position.max(1);
    let fits = room as usize / limits.sequences / PAGE * PAGE;
    Err(device.fail(format!(
        "the model needs {} MiB ({} for weights, {} for {} positions), and there are {}; {}",
        needed / MIB,
        weights / MIB,
        cache / MIB,
        limits.pages.saturating_mul(PAGE),
        available / MIB,
        match fits {
            0 => "no context would fit".to_owned(),
            fits => format!("a context of {fits} would fit"),
        }
    )))
}

#[cfg(test)]
mod tests;
