//! The way of weights to the GPU: threads repack rows into staging buffers, from
//! which the GPU copies.
//!
//! A thread packs a block of rows that its cache holds and copies it to the staging buffer, whose
//! memory may combine writes and must not be read. Several buffers are filled at the same time, so
//! no thread waits for the last one of a buffer.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};

use pelton_graph::{Error, Weight};
use pelton_weights::Checkpoint;

use crate::{
    device::{Device, Submission},
    weights::{layout::Layout, matrix::Shard, source::Source},
};

/// Bytes of a staging buffer.
pub(super) const STAGING: usize = 32 << 20;
/// Number of staging buffers: threads fill some while the GPU copies from the others.
const STAGES: usize = 4;
/// Bytes of the staging buffers.
pub(crate) const STAGING_BYTES: u64 = (STAGES * STAGING) as u64;
/// Rows of a matrix are divided among threads in multiples of this, so that the parts of all planes
/// have the alignment of mappings.
const ROWS: usize = 8;
/// The most threads that pack weights: fewer fill the memory's channels.
const THREADS: usize = 16;
/// Bytes of packed rows that a thread copies at a time.
const BLOCK: usize = 128 << 10;

/// A weight of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    checkpoint: Arc<Checkpoint>,
    weight: Arc<Weight>,
}

impl Origin {
    pub(super) fn new(checkpoint: &Arc<Checkpoint>, weight: &Weight) -> Self {
        Self { checkpoint: Arc::clone(checkpoint), weight: Arc::new(weight.clone()) }
    }
}

/// Rows of a weight that one staging buffer holds, and their places in a buffer of the GPU.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    origin: Origin,
    layout: Layout,
    rows: Range<usize>,
    to: wgpu::Buffer,
    /// The offset of the rows in each plane.
    places: Vec<u64>,
}

impl Chunk {
    /// The chunks of the rows of a shard.
    pub(super) fn of_shard(
        device: &Device,
        origin: &Origin,
        layout: &Layout,
        shard: &Shard,
    ) -> Result<Vec<Self>, Error> {
        let row_len = origin.weight.row_len;
        // the places of planes in a staging buffer are rounded up
        let packed: u64 = layout.planes(ROWS, row_len).iter().sum::<u64>().max(1);
        let rows = (STAGING - 64) as u64 / packed * ROWS as u64;
        if rows == 0 {
            return Err(device
                .fail(format!("a row of {row_len} weights does not fit in the staging buffer")));
        }
        let chunk = |start: usize| {
            let end = shard.rows.len().min(start + rows as usize);
            let before = layout.planes(start, row_len);
            Self {
                origin: origin.clone(),
                layout: *layout,
                rows: shard.rows.start + start..shard.rows.start + end,
                to: shard.buffer.clone(),
                places: shard.planes.iter().zip(before).map(|((at, _), rows)| at + rows).collect(),
            }
        };
        Ok((0..shard.rows.len()).step_by(rows as usize).map(chunk).collect())
    }

    /// Its rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Rows of a chunk that one thread packs.
struct Job {
    origin: Origin,
    layout: Layout,
    rows: Range<usize>,
    stage: wgpu::Buffer,
    /// The offsets of its part of each plane in the staging buffer.
    places: Vec<u64>,
    done: Sender<Result<(), Error>>,
}

impl Job {
    /// Packs the rows, through memory of the thread.
    fn run(self, block: &mut Vec<u8>) {
        let outcome = self.pack(block);
        // the receiver is dropped if another job has failed
        let _ = self.done.send(outcome);
    }

    fn pack(&self, block: &mut Vec<u8>) -> Result<(), Error> {
        let Self { origin: Origin { checkpoint, weight }, layout, rows, stage, .. } = self;
        let source = Source::new(weight, weight.tensor(checkpoint)?.bytes)?;
        let row_len = weight.row_len;
        let mut views = Vec::with_capacity(self.places.len());
        for (&at, bytes) in self.places.iter().zip(layout.planes(rows.len(), row_len)) {
            let range = at..at + bytes.next_multiple_of(4);
            views.push(stage.slice(range).get_mapped_range_mut().map_err(|error| {
                Error::Kernel { kernel: "weights".into(), what: error.to_string() }
            })?);
        }
        let packed: u64 = layout.planes(ROWS, row_len).iter().sum();
        let count = (BLOCK / packed.max(1) as usize).max(1) * ROWS;
        for start in (0..rows.len()).step_by(count) {
            let end = rows.len().min(start + count);
            let bytes = source.rows(rows.start + start..rows.start + end)?;
            let sizes = layout.planes(end - start, row_len);
            block.resize(sizes.iter().sum::<u64>() as usize, 0);
            let mut rest = block.as_mut_slice();
            let mut planes: Vec<&mut [u8]> = Vec::with_capacity(sizes.len());
            for &size in &sizes {
                let (plane, others) = rest.split_at_mut(size as usize);
                planes.push(plane);
                rest = others;
            }
            layout.pack(&bytes, row_len, &mut planes);
            let before = layout.planes(start, row_len);
            for ((view, plane), before) in views.iter_mut().zip(planes).zip(before) {
                let at = before as usize;
                view.slice(at..at + plane.len()).copy_from_slice(plane);
            }
        }
        Ok(())
    }
}

/// Threads that pack weights.
struct Packers {
    /// `None` when they are to end.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    /// The memory of a caller that packs, where there are no threads.
    block: Vec<u8>,
}

impl Packers {
    /// Starts up to [`THREADS`] threads. Where the system has none, the caller packs.
    fn new() -> Self {
        let count = match thread::available_parallelism() {
            Ok(cores) if cores.get() > 1 => cores.get().min(THREADS),
            _ => 0,
        };
        let (jobs, receiver) = mpsc::channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let spawn = |i| {
            let receiver = Arc::clone(&receiver);
            let work = move || {
                let mut block = Vec::new();
                loop {
                    // the lock is free again before the job runs
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match job {
                        Ok(job) => job.run(&mut block),
                        Err(_) => break,
                    }
                }
            };
            thread::Builder::new().name(format!("pelton weights {i}")).spawn(work).ok()
        };
        let threads: Vec<_> = (0..count).map_while(spawn).collect();
        Self { jobs: Some(jobs), threads, block: Vec::new() }
    }

    fn give(&mut self, job: Job) {
        match &self.jobs {
            Some(jobs) if !self.threads.is_empty() => {
                // a job that no thread takes drops its sender, which the receiver reports
                let _ = jobs.send(job);
            }
            _ => job.run(&mut self.block),
        }
    }
}

impl Drop for Packers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A ring of staging buffers through which weights are copied to the GPU.
pub(super) struct Ring {
    stages: Vec<Stage>,
    /// The stage that is filled next.
    next: usize,
    /// The stages that threads fill, the oldest first.
    filling: VecDeque<Filling>,
    packers: Packers,
}

struct Stage {
    buffer: wgpu::Buffer,
    /// The mapping that follows the last copy; `None` while the buffer is mapped.
    emptied: Option<Emptied>,
}

/// A mapping that was requested.
struct Emptied {
    mapped: Receiver<bool>,
    /// The copy from the buffer before, if there was one.
    copied: Option<Submission>,
}

/// A stage that threads fill.
struct Filling {
    stage: usize,
    to: wgpu::Buffer,
    /// The regions `(offset, bytes)` of the buffer, one after the other.
    regions: Vec<(u64, u64)>,
    done: Receiver<Result<(), Error>>,
    jobs: usize,
}

impl Ring {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let mut stages = Vec::with_capacity(STAGES);
        for _ in 0..STAGES {
            let buffer = device.buffer_for("staging", STAGING as u64, usage)?;
            let emptied = Some(Emptied { mapped: map(&buffer), copied: None });
            stages.push(Stage { buffer, emptied });
        }
        let packers = Packers::new();
        Ok(Self { stages, next: 0, filling: VecDeque::with_capacity(STAGES), packers })
    }

    /// The number of stages that are filled at this time.
    pub(super) fn filling(&self) -> usize {
        self.filling.len()
    }

    /// Whether a stage can be filled without a wait.
    pub(super) fn is_ready(&mut self, device: &Device) -> Result<bool, Error> {
        if self.filling.len() == STAGES {
            return Ok(false);
        }
        device.advance()?;
        let stage = &mut self.stages[self.next];
        if let Some(emptied) = &stage.emptied
            && emptied.mapped.try_recv() == Ok(true)
        {
            stage.emptied = None;
        }
        Ok(stage.emptied.is_none())
    }

    /// Lets threads fill the next stage with a chunk. It waits for a stage where none is free.
    pub(super) fn fill(&mut self, device: &Device, chunk: &Chunk) -> Result<(), Error> {
        if self.filling.len() == STAGES {
            self.copy_oldest(device)?;
        }
        let stage = self.free_stage(device)?;
        let Chunk { origin, layout, rows, to, places } = chunk;
        let row_len = origin.weight.row_len;
        let mut firsts = Vec::with_capacity(places.len());
        let mut regions = Vec::with_capacity(places.len());
        let mut end = 0;
        for (&place, bytes) in places.iter().zip(layout.planes(rows.len(), row_len)) {
            firsts.push(end);
            regions.push((place, bytes.next_multiple_of(4)));
            end += bytes.next_multiple_of(wgpu::MAP_ALIGNMENT);
        }
        let each = rows.len().div_ceil(self.packers.threads.len().max(1)).next_multiple_of(ROWS);
        let (sender, done) = mpsc::channel();
        let mut jobs = 0;
        for start in (0..rows.len()).step_by(each) {
            let end = rows.len().min(start + each);
            let before = layout.planes(start, row_len);
            self.packers.give(Job {
                origin: origin.clone(),
                layout: *layout,
                rows: rows.start + start..rows.start + end,
                stage: self.stages[stage].buffer.clone(),
                places: firsts.iter().zip(before).map(|(first, rows)| first + rows).collect(),
                done: sender.clone(),
            });
            jobs += 1;
        }
        self.filling.push_back(Filling { stage, to: to.clone(), regions, done, jobs });
        Ok(())
    }

    /// Waits until the oldest stage is filled, and submits the copies from it.
    pub(super) fn copy_oldest(&mut self, device: &Device) -> Result<(), Error> {
        let Some(Filling { stage, to, regions, done, jobs }) = self.filling.pop_front() else {
            return Ok(());
        };
        let ended = || Err(device.fail("a thread that packs weights has failed".to_owned()));
        // all of them, as a buffer that is being filled cannot be unmapped
        let mut outcome = Ok(());
        for _ in 0..jobs {
            outcome = done.recv().unwrap_or_else(|_| ended()).and(outcome);
        }
        let mut at = 0;
        let regions = regions.into_iter().map(|(place, bytes)| {
            let from = at;
            at += bytes.next_multiple_of(wgpu::MAP_ALIGNMENT);
            (from, place, bytes)
        });
        // planes of a chunk that was not packed are not copied
        let regions: Vec<_> = regions.filter(|_| outcome.is_ok()).collect();
        outcome.and(self.copy(device, stage, &to, &regions))
    }

    /// Submits the copies from all stages that are filled.
    pub(super) fn copy_all(&mut self, device: &Device) -> Result<(), Error> {
        let mut outcome = Ok(());
        while !self.filling.is_empty() {
            outcome = self.copy_oldest(device).and(outcome);
        }
        outcome
    }

    /// Copies bytes to a place of a buffer.
    pub(super) fn whole(
        &mut self,
        device: &Device,
        bytes: &[u8],
        to: &wgpu::Buffer,
        first: usize,
    ) -> Result<(), Error> {
        self.copy_all(device)?;
        for (i, bytes) in bytes.chunks(STAGING).enumerate() {
            let stage = self.free_stage(device)?;
            let slice = self.stages[stage].buffer.slice(..bytes.len() as u64);
            let view = slice.get_mapped_range_mut();
            view.map_err(|error| device.fail(error.to_string()))?.copy_from_slice(bytes);
            let place = (first + i * STAGING) as u64;
            self.copy(device, stage, to, &[(0, place, bytes.len() as u64)])?;
        }
        Ok(())
    }

    /// The next stage, once the GPU has copied from it.
    fn free_stage(&mut self, device: &Device) -> Result<usize, Error> {
        let index = self.next;
        let stage = &mut self.stages[index];
        if let Some(Emptied { mapped, copied }) = stage.emptied.take() {
            // later work of the GPU may take long
            if let Some(copied) = copied {
                device.wait_until(&copied)?;
            }
            device.wait_for(&mapped)?;
        }
        self.next = (index + 1) % STAGES;
        Ok(index)
    }

    /// Submits copies `(from, to, bytes)` from a stage, which is mapped again afterwards.
    fn copy(
        &mut self,
        device: &Device,
        stage: usize,
        to: &wgpu::Buffer,
        regions: &[(u64, u64, u64)],
    ) -> Result<(), Error> {
        let stage = &mut self.stages[stage];
        stage.buffer.unmap();
        let mut encoder = device.device.create_command_encoder(&Default::default());
        for &(from, place, bytes) in regions {
            encoder.copy_buffer_to_buffer(&stage.buffer, from, to, place, bytes);
        }
        let index = device.queue.submit([encoder.finish()]);
        let mapped = map(&stage.buffer);
        stage.emptied = Some(Emptied { mapped, copied: Some(device.submission(index)) });
        device.check()
    }
}

/// Maps a staging buffer as soon as the GPU has copied from it.
fn map(buffer: &wgpu::Buffer) -> Receiver<bool> {
    let (sender, receiver) = mpsc::channel();
    buffer.slice(..).map_async(wgpu::MapMode::Write, move |mapped| {
        // the receiver is dropped if the load has failed
        let _ = sender.send(mapped.is_ok());
    });
    receiver
}
