//! The rates of a GPU.

use std::{sync::Arc, thread};

use pelton_graph::{Error, LinkRates, Rates};
use pelton_quant::DType;

use crate::{
    device::Device,
    run::{
        bandwidth,
        microbench::{
            Bench, MatrixShape,
            links::{Links, Waiting},
        },
    },
};

/// Bytes that go up to the GPU: a feed-forward network of 8 billion parameters has as many in 4
/// bits.
const BYTES: usize = 128 << 20;
/// Bytes of a row of 4,096 values.
const ROW: usize = 16 << 10;
/// Threads that pack weights for the GPU at most.
const THREADS: usize = 16;
/// Seconds of a step of a model beyond those of an empty dispatch that waits for the one before:
/// its loads begin and end. An H100 has 1.8 and 1.9 µs for an 8B in Q4_0 and Q8_0, 0.9 for a 1B and
/// 1.7 for a 30B-A3B. Their weights count as read at the rate of a kernel that only reads.
const RAMP: f64 = 1.7e-6;
/// Seconds of a hop next to an empty round trip, which takes 40 µs: the GPU's part waits for
/// its commands, and the CPU's threads start. An estimate: five models with 10 to 48
/// feed-forwards in RAM had hops of 110 to 167 µs next to an H100, 130 in the middle. Their
/// reads and steps are not in it.
const HOP: f64 = 90e-6;

/// Measures all rates.
pub(super) fn measure(device: &Arc<Device>) -> Result<Rates, Error> {
    let links = Links::of(Arc::clone(device));
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get()).min(THREADS);
    // the CPU fills one buffer while the GPU copies another
    let up = links.up(BYTES, threads)?;
    let link =
        LinkRates { up: up.host.min(up.gpu), hop: links.round_trip(ROW, Waiting::Spin)? + HOP };
    Ok(Rates {
        step: bandwidth::dispatch(device)? + RAMP,
        multiply: device.capabilities.matrix_cores.then(|| multiply(device)).transpose()?,
        link: Some(link),
        ..Rates::reading(bandwidth::read(device)?)
    })
}

/// Operations in a second of a product of 8 billion parameters' feed-forward
/// network, on matrix cores.
fn multiply(device: &Arc<Device>) -> Result<f64, Error> {
    const SHAPE: MatrixShape =
        MatrixShape { dtype: DType::Q4_0, rows: 14_336, k: 4096, batch: 2048 };
    const RUNS: u32 = 8;
    let MatrixShape { dtype, rows, k, batch } = SHAPE;
    // codes and scales that are finite and normal
    let matrix = vec![0x2c; dtype.bytes_of(rows * k).unwrap_or(0)];
    let bench = Bench::of(Arc::clone(device));
    let product = bench.product(&SHAPE, &matrix, &vec![1.0; batch * k])?;
    let tiled = product.by(&product.tile(), 1)?;
    tiled.seconds(RUNS)?;
    Ok(2.0 * (rows * k * batch) as f64 / tiled.seconds(RUNS)?)
}
