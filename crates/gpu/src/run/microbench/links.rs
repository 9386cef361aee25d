//! The links between the CPU and a GPU: how fast weights go up and results come down, and how
//! long a round trip takes.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use pelton_graph::Error;

use crate::device::{Adapter, Checks, Device};

/// Repetitions, of which the fastest counts.
const RUNS: usize = 5;
/// Round trips, of which the median counts.
const TRIPS: usize = 200;

/// A GPU, for measurements of its links.
#[derive(Debug)]
pub struct Links {
    device: Arc<Device>,
}

/// Bytes per second of the two parts of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The CPU's, between its memory and the buffer that both see.
    pub host: f64,
    /// The GPU's, between that buffer and its own memory.
    pub gpu: f64,
}

/// How the CPU waits for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The thread sleeps until the driver wakes it.
    Sleep,
    /// The thread asks again and again.
    Spin,
}

impl Links {
    /// Opens a GPU.
    ///
    /// # Errors
    ///
    /// As [`Gpu::open`](crate::Gpu::open).
    pub fn open(adapter: &Adapter) -> Result<Self, Error> {
        Ok(Self::of(Device::open(adapter, Checks::default())?))
    }

    pub(crate) const fn of(device: Arc<Device>) -> Self {
        Self { device }
    }

    /// Copies `bytes` from the CPU to the GPU through a mapped buffer, which
    /// `threads` threads fill.
    ///
    /// # Errors
    ///
    /// If the GPU refuses a buffer or is lost.
    pub fn up(&self, bytes: usize, threads: usize) -> Result<Rates, Error> {
        let device = &self.device;
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let staging = device.buffer_for("staging", bytes as u64, usage)?;
        let own = device.buffer("own memory", bytes as u64)?;
        let source = vec![1u8; bytes];
        let mut best = Rates { host: 0.0, gpu: 0.0 };
        for _ in 0..RUNS {
            let (sender, mapped) = mpsc::channel();
            staging.slice(..).map_async(wgpu::MapMode::Write, move |result| {
                let _ = sender.send(result.is_ok());
            });
            device.wait_for(&mapped)?;
            let begun = Instant::now();
            let part =
                bytes.div_ceil(threads.max(1)).next_multiple_of(wgpu::MAP_ALIGNMENT as usize);
            let fill = |(i, from): (usize, &[u8])| -> Result<(), Error> {
                let at = (i * part) as u64;
                let part = staging.slice(at..at + from.len() as u64);
                let view = part.get_mapped_range_mut();
                view.map_err(|error| device.fail(error.to_string()))?.copy_from_slice(from);
                Ok(())
            };
            thread::scope(|scope| {
                let parts = source.chunks(part).enumerate();
                let all: Vec<_> = parts.map(|part| scope.spawn(move || fill(part))).collect();
                let failed = || Err(device.fail("a thread has failed".into()));
                all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| failed()))
            })?;
            best.host = best.host.max(bytes as f64 / begun.elapsed().as_secs_f64());
            staging.unmap();
            let seconds = self.copy(&staging, &own)?;
            best.gpu = best.gpu.max(bytes as f64 / seconds);
        }
        Ok(best)
    }

    /// Copies `bytes` from the GPU to the CPU, on one thread.
    ///
    /// # Errors
    ///
    /// As [`up`](Self::up).
    pub fn down(&self, bytes: usize) -> Result<Rates, Error> {
        let device = &self.device;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let readback = device.buffer_for("readback", bytes as u64, usage)?;
        let own = device.buffer("own memory", bytes as u64)?;
        let mut to = vec![0u8; bytes];
        let mut best = Rates { host: 0.0, gpu: 0.0 };
        for _ in 0..RUNS {
            let seconds = self.copy(&own, &readback)?;
            best.gpu = best.gpu.max(bytes as f64 / seconds);
            let begun = Instant::now();
            device.read(&readback, &mut to)?;
            best.host = best.host.max(bytes as f64 / begun.elapsed().as_secs_f64());
        }
        Ok(best)
    }

    /// The seconds of a round trip of `bytes`: the CPU writes them, the GPU copies them, and
    /// the CPU has them again.
    ///
    /// # Errors
    ///
    /// As [`up`](Self::up).
    pub fn round_trip(&self, bytes: usize, waiting: Waiting) -> Result<f64, Error> {
        let device = &self.device;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let readback = device.buffer_for("readback", bytes as u64, usage)?;
        let own = device.buffer("own memory", bytes as u64)?;
        let mut values = vec![0u8; bytes];
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let begun = Instant::now();
            device.queue.write_buffer(&own, 0, &values);
            let mut encoder = device.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&own, 0, &readback, 0, bytes as u64);
            let index = device.queue.submit([encoder.finish()]);
            let (sender, mapped) = mpsc::channel();
            readback.slice(..).map_async(wgpu::MapMode::Read, move |result| {
                let _ = sender.send(result.is_ok());
            });
            match waiting {
                Waiting::Sleep => device.wait_until(&device.submission(index))?,
                Waiting::Spin => {
                    while mapped.try_recv().is_err() {
                        device
                            .device
                            .poll(wgpu::PollType::Poll)
                            .map_err(|error| device.fail(error.to_string()))?;
                    }
                }
            }
            let slice = readback.slice(..);
            let view = slice.get_mapped_range().map_err(|error| device.fail(error.to_string()))?;
            values.copy_from_slice(&view);
            drop(view);
            readback.unmap();
            trips.push(begun.elapsed().as_secs_f64());
        }
        trips.sort_by(f64::total_cmp);
        Ok(trips[TRIPS / 2])
    }

    /// The seconds of a copy between buffers of equal size.
    fn copy(&self, from: &wgpu::Buffer, to: &wgpu::Buffer) -> Result<f64, Error> {
        let device = &self.device;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
        let commands = encoder.finish();
        device.wait()?;
        let begun = Instant::now();
        device.queue.submit([commands]);
        device.wait()?;
        Ok(begun.elapsed().as_secs_f64())
    }
}
