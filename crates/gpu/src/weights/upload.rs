//! The upload of a plan's tensors to the GPU.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, mpsc},
    thread,
};

use pelton_graph::{Error, Plan, Weight, WeightId};
use pelton_quant::BucketSource;
use pelton_weights::Checkpoint;

use crate::{
    device::Device,
    weights::{
        Sources,
        buckets::{self, SortedBuckets, buckets_of, has_buckets, is_partial},
        input_major::{self, InputMajor, all_groups, lines_of, places},
        layout::Layout,
        matrix::{Matrix, Shard},
        source::{Source, decoded},
    },
};

/// Bytes of a staging buffer.
const STAGING: usize = 32 << 20;
/// Number of staging buffers: the CPU fills one while the GPU copies from the others.
const STAGES: usize = 3;

/// A weight on the GPU.
#[derive(Debug)]
pub(crate) enum Resident {
    /// A norm's weight, a bias or another small tensor, in f32.
    Vector(wgpu::Buffer),
    /// A matrix, or several of equal shape one after the other, in the stored format.
    Matrix(Arc<Matrix>),
    /// A matrix of which sorted buckets alone are kept.
    Buckets,
}

/// All weights of a plan.
#[derive(Debug)]
pub(crate) struct Weights {
    all: Vec<Resident>,
    /// The matrices in input-major order, of each group of a step.
    lines: Vec<InputMajor>,
    /// The matrices with sorted buckets.
    buckets: Vec<Option<SortedBuckets>>,
}

impl Weights {
    /// Repacks and uploads every weight that no loaded plan of the checkpoint has: of a fused tensor its
    /// own rows. `progress` is called with the uploaded bytes of the file and the total of bytes.
    pub(crate) fn load(
        device: &Device,
        plan: &Plan,
        sources: Sources<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let Sources { checkpoint, matrices: shared } = sources;
        let all: u64 = plan
            .weights
            .iter()
            .filter_map(|w| w.dtype.bytes_of(w.len()))
            .map(|bytes| bytes as u64)
            .sum();
        let mut done = 0;
        let mut upload = Upload::new(device)?;
        let decoded = decoded(plan);
        let mut residents = Vec::with_capacity(plan.weights.len());
        let mut buckets: Vec<Option<SortedBuckets>> = Vec::with_capacity(plan.weights.len());
        buckets.resize_with(plan.weights.len(), || None);
        for ((i, weight), decoded) in plan.weights.iter().enumerate().zip(decoded) {
            let tensor = weight.tensor(checkpoint)?;
            let rows = weight.rows * weight.count();
            if decoded {
                residents.push(Resident::Vector(new_vector(device, weight, &tensor.decode())?));
                continue;
            }
            if weight.effort && has_buckets(plan) {
                let shape = buckets_of(plan, weight)?;
                if checkpoint.tensor(&format!("{}.buckets", weight.name)).is_some() {
                    return Err(Error::Effort(
                        "a file of buckets is read on the CPU alone, expected none: a GPU sorts the \
                         weights at load"
                            .to_owned(),
                    ));
                }
                let rows = Source::new(weight, tensor.bytes)?.all()?;
                let source = BucketSource::new(weight.dtype, (shape.rows, shape.cols), &rows);
                let source = source.ok_or_else(|| unexpected("a matrix of another shape"))?;
                let matrix = SortedBuckets::new(device, &weight.name, shape)?;
                let words = shape.packed(&source, upload.threads);
                upload.whole(bytemuck::cast_slice(&words), &matrix.0, 0)?;
                buckets[i] = Some(matrix);
                if is_partial(plan) {
                    done += rows.len() as u64;
                    progress(done, all);
                    residents.push(Resident::Buckets);
                    continue;
                }
            }
            if let Some(matrix) = shared.find(checkpoint, weight) {
                residents.push(Resident::Matrix(matrix));
                done += weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64;
                continue;
            }
            let source = Source::new(weight, tensor.bytes)?;
            let matrix = upload.matrix(weight, &source, &mut |bytes| {
                progress(done + bytes, all);
            })?;
            done += (rows * source.row_len()) as u64;
            let matrix = Arc::new(matrix);
            residents.push(Resident::Matrix(matrix));
        }
        let lines = match has_buckets(plan) {
            true => Vec::new(),
            false => upload.input_major(plan, checkpoint)?,
        };
        upload.finish()?;
        share(plan, &residents, sources);
        Ok(Self { all: residents, lines, buckets })
    }

    /// The buffer of a weight in f32.
    pub(crate) fn vector(&self, id: WeightId) -> Result<&wgpu::Buffer, Error> {
        match &self.all[id.0] {
            Resident::Vector(buffer) => Ok(buffer),
            Resident::Matrix(_) | Resident::Buckets => {
                Err(unexpected("a matrix where a vector belongs"))
            }
        }
    }

    /// Matrices in input-major order that a step multiplies together; `None` if they have none.
    pub(crate) fn input_major(&self, group: &[WeightId]) -> Option<&InputMajor> {
        self.lines.iter().find(|of| of.weights == group)
    }

    /// A matrix with sorted buckets; `None` if it has none.
    pub(crate) fn buckets(&self, id: WeightId) -> Option<&SortedBuckets> {
        self.buckets[id.0].as_ref()
    }

    /// A matrix row by row.
    pub(crate) fn matrix(&self, id: WeightId) -> Result<&Matrix, Error> {
        match &self.all[id.0] {
            Resident::Matrix(matrix) => Ok(matrix),
            Resident::Vector(_) => Err(unexpected("a vector where a matrix belongs")),
            Resident::Buckets => Err(unexpected("sorted buckets where a matrix belongs")),
        }
    }
}

fn unexpected(what: &str) -> Error {
    Error::Kernel { kernel: "weights".into(), what: what.into() }
}

/// Bytes of a plan's weights on the GPU.
pub(crate) fn resident_bytes(device: &Device, plan: &Plan) -> u64 {
    let bytes = |(w, decoded): (&Weight, bool)| match decoded {
        true => 4 * w.len() as u64,
        false if w.effort && is_partial(plan) => 0,
        false => matrix_bytes(device, w),
    };
    let ordered = ordered_bytes(plan);
    plan.weights.iter().zip(decoded(plan)).map(bytes).fold(ordered, u64::saturating_add)
}

/// Bytes of the matrices in another order than the file's.
fn ordered_bytes(plan: &Plan) -> u64 {
    match has_buckets(plan) {
        true => buckets::resident_bytes(plan),
        false => input_major::resident_bytes(plan),
    }
}

/// The same, if the matrices in the file's order are kept too.
pub(crate) fn effort_bytes(plan: &Plan) -> u64 {
    if is_partial(plan) { 0 } else { ordered_bytes(plan) }
}

/// Bytes of the matrices of a plan that loaded plans of the checkpoint have.
pub(crate) fn shared_bytes(device: &Device, plan: &Plan, sources: Sources<'_>) -> u64 {
    let shared = |w: &&Weight| sources.matrices.find(sources.checkpoint, w).is_some();
    plan.weights.iter().filter(shared).map(|w| matrix_bytes(device, w)).sum()
}

/// Bytes of the staging buffers of an upload.
pub(crate) const STAGING_BYTES: u64 = (STAGES * STAGING) as u64;

/// The layout of a matrix on a GPU, and its shards.
fn laid_out(device: &Device, weight: &Weight) -> (Layout, Vec<Range<usize>>) {
    let layout = Layout::of(weight.dtype).joined(device.capabilities.joins_planes());
    let rows = weight.rows * weight.count();
    let whole = if weight.count() > 1 { weight.rows } else { 1 };
    let shards = shards_of(device, &layout, rows, weight.row_len, whole);
    (layout, shards)
}

/// Bytes of the shards of a matrix.
fn matrix_bytes(device: &Device, weight: &Weight) -> u64 {
    let (layout, shards) = laid_out(device, weight);
    shards.iter().map(|rows| layout.placed(rows.len(), weight.row_len).1).sum()
}

/// The rows of each shard of a matrix, such that every plane fits in a binding. A shard has a
/// multiple of `whole` rows.
fn shards_of(
    device: &Device,
    layout: &Layout,
    rows: usize,
    row_len: usize,
    whole: usize,
) -> Vec<Range<usize>> {
    let limit = device.capabilities.binding_bytes.min(device.capabilities.buffer_bytes / 2);
    /// Limit of bytes between joined planes, and of their places and codebook.
    const BETWEEN: u64 = 1 << 16;
    let (plane, limit) = match layout.joined {
        true => (layout.placed(rows, row_len).1, limit.saturating_sub(BETWEEN).max(1)),
        false => (layout.planes(rows, row_len).into_iter().max().unwrap_or(0), limit),
    };
    let count = plane.div_ceil(limit).max(1) as usize;
    // a multiple of 4, so that no shard begins within a word of scales
    let step = match whole % 4 {
        0 => whole,
        2 => 2 * whole,
        _ => 4 * whole,
    };
    let step = step.max(1);
    let each = rows.div_ceil(count).next_multiple_of(step);
    // the rounded size may not fit
    let fits = plane.div_ceil(rows.max(1) as u64) * each as u64 <= limit;
    let each = if fits { each } else { (each - step).max(step) };
    (0..rows).step_by(each).map(|start| start..rows.min(start + each)).collect()
}

fn new_shard(
    device: &Device,
    name: &str,
    layout: &Layout,
    rows: Range<usize>,
    row_len: usize,
) -> Result<Shard, Error> {
    let codebook = layout.codebook().map(|codebook| codebook.bytes);
    let (planes, end) = layout.placed(rows.len(), row_len);
    let buffer = device.buffer(name, end)?;
    if let (Some(bytes), Some(&(offset, _))) = (codebook, planes.last()) {
        device.queue.write_buffer(&buffer, offset, bytes);
    }
    if layout.joined {
        let places = layout.places(&planes);
        device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&places));
    }
    Ok(Shard { joined: layout.joined, ..Shard::new(rows, buffer, planes) })
}

/// A ring of staging buffers through which weights are copied to the GPU.
struct Upload<'a> {
    device: &'a Device,
    stages: Vec<Stage>,
    next: usize,
    packed: Vec<u8>,
    threads: usize,
}

struct Stage {
    buffer: wgpu::Buffer,
    /// Receives the result of the mapping, once the GPU has copied from the buffer; `None` while
    /// the buffer is mapped.
    emptied: Option<mpsc::Receiver<bool>>,
}

/// Shares matrices with later plans over the same checkpoint.
fn share(plan: &Plan, residents: &[Resident], Sources { checkpoint, matrices }: Sources<'_>) {
    for (weight, resident) in plan.weights.iter().zip(residents) {
        if let Resident::Matrix(matrix) = resident
            && matrices.find(checkpoint, weight).is_none()
        {
            matrices.add(checkpoint, weight, matrix);
        }
    }
}

/// A weight in f32.
fn new_vector(device: &Device, weight: &Weight, values: &[f32]) -> Result<wgpu::Buffer, Error> {
    let values = Source::new(weight, values)?.all()?;
    let buffer = device.buffer(&weight.name, 4 * values.len() as u64)?;
    device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
    Ok(buffer)
}

impl<'a> Upload<'a> {
    fn new(device: &'a Device) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let mut stages = Vec::with_capacity(STAGES);
        for _ in 0..STAGES {
            let buffer = device.buffer_for("staging", STAGING as u64, usage)?;
            let emptied = Some(map(&buffer));
            stages.push(Stage { buffer, emptied });
        }
        let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(8);
        Ok(Self { device, stages, next: 0, packed: vec![0; STAGING], threads })
    }

    /// Repacks and copies a matrix; `progress` is called with the number of its bytes that are done.
    fn matrix(
        &mut self,
        weight: &Weight,
        source: &Source<'_, u8>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Matrix, Error> {
        let (device, row_len) = (self.device, weight.row_len);
        let (layout, of_shards) = laid_out(device, weight);
        let (mut shards, mut done) = (Vec::new(), 0);
        for rows in of_shards {
            let shard = new_shard(device, &weight.name, &layout, rows, row_len)?;
            let shard_progress = &mut |bytes| progress(done + bytes);
            self.shard(&layout, row_len, source, &shard, shard_progress)?;
            done += (shard.rows.len() * source.row_len()) as u64;
            shards.push(shard);
        }
        Ok(Matrix { layout, row_len, shards })
    }

    /// Repacks and copies one shard; `progress` is called with the number of its bytes that are
    /// done.
    fn shard(
        &mut self,
        layout: &Layout,
        row_len: usize,
        source: &Source<'_, u8>,
        shard: &Shard,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        // maximum bytes of a packed row; planes are rounded up to words
        let packed_row: u64 = layout.planes(4, row_len).iter().sum::<u64>().div_ceil(4);
        let rows = ((STAGING - 64) as u64 / packed_row.max(1)).max(4) as usize & !3;
        for start in (0..shard.rows.len()).step_by(rows) {
            let rows = start..shard.rows.len().min(start + rows);
            let sizes = layout.planes(rows.len(), row_len);
            let padded: Vec<usize> =
                sizes.iter().map(|&n| (n as usize).next_multiple_of(4)).collect();
            let total: usize = padded.iter().sum();
            if total > self.packed.len() {
                return Err(self.device.fail(format!(
                    "a row of {row_len} weights does not fit in the staging buffer"
                )));
            }
            let first = shard.rows.start;
            let from: Cow<'_, [u8]> = source.rows(first + rows.start..first + rows.end)?;
            pack(layout, row_len, &from, &mut self.packed[..total], &padded, self.threads);
            let before = layout.planes(rows.start, row_len);
            let copies: Vec<(u64, u64)> = shard
                .planes
                .iter()
                .zip(before)
                .zip(&padded)
                .map(|((plane, before), &bytes)| (plane.0 + before, bytes as u64))
                .collect();
            self.send(&shard.buffer, &copies)?;
            progress((rows.end * source.row_len()) as u64);
        }
        Ok(())
    }

    /// The matrices of a plan in input-major order.
    fn input_major(
        &mut self,
        plan: &Plan,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<InputMajor>, Error> {
        // a weight without such an order is in no group
        plan.weights.iter().try_for_each(|weight| lines_of(plan, weight).map(drop))?;
        let mut all = Vec::new();
        for group in all_groups(plan) {
            let weights = || group.iter().map(|id| plan.weight(*id));
            let lines: Vec<_> =
                weights().map(|weight| lines_of(plan, weight)).collect::<Result<_, _>>()?;
            let lines: Vec<_> = lines.into_iter().flatten().collect();
            let joined = InputMajor::new(self.device, plan, group.clone())?;
            for ((weight, lines), first) in weights().zip(&lines).zip(places(&lines).0) {
                let rows = Source::new(weight, weight.tensor(checkpoint)?.bytes)?.all()?;
                let packed = lines.packed(&rows, self.threads);
                self.whole(&packed, &joined.buffer, first)?;
            }
            all.push(joined);
        }
        Ok(all)
    }

    /// Copies bytes to a place of a buffer.
    fn whole(&mut self, bytes: &[u8], to: &wgpu::Buffer, first: usize) -> Result<(), Error> {
        for (i, bytes) in bytes.chunks(STAGING).enumerate() {
            self.packed[..bytes.len()].copy_from_slice(bytes);
            self.send(to, &[((first + i * STAGING) as u64, bytes.len() as u64)])?;
        }
        Ok(())
    }

    /// Copies the packed bytes to regions `(offset, bytes)` of a buffer, one after the other.
    fn send(&mut self, to: &wgpu::Buffer, regions: &[(u64, u64)]) -> Result<(), Error> {
        let stage = &mut self.stages[self.next];
        self.next = (self.next + 1) % STAGES;
        let total: u64 = regions.iter().map(|r| r.1).sum();
        if let Some(emptied) = stage.emptied.take() {
            self.device.wait_for(&emptied)?;
        }
        let mut view = stage
            .buffer
            .slice(..total)
            .get_mapped_range_mut()
            .map_err(|error| self.device.fail(error.to_string()))?;
        view.copy_from_slice(&self.packed[..total as usize]);
        drop(view);
        stage.buffer.unmap();
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut at = 0;
        for &(offset, bytes) in regions {
            encoder.copy_buffer_to_buffer(&stage.buffer, at, to, offset, bytes);
            at += bytes;
        }
        self.device.queue.submit([encoder.finish()]);
        stage.emptied = Some(map(&stage.buffer));
        self.device.check()
    }

    fn finish(self) -> Result<(), Error> {
        self.device.queue.submit([]);
        self.device.wait()
    }
}

/// Maps a staging buffer as soon as the GPU has copied from it.
fn map(buffer: &wgpu::Buffer) -> mpsc::Receiver<bool> {
    let (sender, receiver) = mpsc::channel();
    buffer.slice(..).map_async(wgpu::MapMode::Write, move |mapped| {
        // the receiver is dropped if the load has failed
        let _ = sender.send(mapped.is_ok());
    });
    receiver
}

/// Packs whole rows into consecutive planes of `packed`, on several threads.
fn pack(
    layout: &Layout,
    row_len: usize,
    bytes: &[u8],
    packed: &mut [u8],
    planes: &[usize],
    threads: usize,
) {
    let rows = bytes.len() / layout_row_bytes(layout, row_len);
    let row_bytes = bytes.len() / rows;
    let mut rest: Vec<&mut [u8]> = Vec::with_capacity(planes.len());
    let mut packed = packed;
    for &plane in planes {
        let (head, tail) = packed.split_at_mut(plane);
        rest.push(head);
        packed = tail;
    }
    let each = rows.div_ceil(threads).next_multiple_of(2);
    thread::scope(|scope| {
        for start in (0..rows).step_by(each) {
            let count = each.min(rows - start);
            let from = &bytes[start * row_bytes..(start + count) * row_bytes];
            let sizes = layout.planes(count, row_len);
            let mut mine: Vec<&mut [u8]> = Vec::with_capacity(sizes.len());
            for (plane, &size) in rest.iter_mut().zip(&sizes) {
                let (head, tail) = std::mem::take(plane).split_at_mut(size as usize);
                mine.push(head);
                *plane = tail;
            }
            let work = move || layout.pack(from, row_len, &mut mine);
            match start + count < rows {
                true => {
                    scope.spawn(work);
                }
                // this thread packs the last rows itself
                false => {
                    let mut work = work;
                    work();
                }
            }
        }
    });
}

fn layout_row_bytes(layout: &Layout, row_len: usize) -> usize {
    row_len / layout.dtype.block_len() * layout.dtype.block_bytes()
}
