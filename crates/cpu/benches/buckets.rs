//! Speed of products with sorted buckets (bucketMul) by effort, next to dense
//! products of the same size.
//!
//! `[PELTON_ISA=avx2] cargo bench -p pelton-cpu --bench buckets -- [THREADS]`: one activation row
//! through the layer matrices of Mistral-7B, whose published curve is twice the speed of dense F16
//! at 25 %. Efforts take turns with the dense product in F16. Printed are microseconds of a
//! product, selection included, and the dense time divided by it; last the sum over a layer.

use std::hint::black_box;
use std::time::Instant;

use pelton_cpu::gemm::buckets::{BUCKET_OUTPUTS, Buckets, Selections, multiply};
use pelton_cpu::gemm::{ActivationKind, Activations, MatrixRef, Output, ROW_ALIGN, matmul};
use pelton_cpu::isa::Isa;
use pelton_cpu::pool::{Pool, SharedMut, default_threads};
use pelton_graph::{Effort, Phase};
use pelton_quant::{BUCKET, DType};

/// Rows and columns, and how many of them a layer has.
const SHAPES: [(usize, usize, usize); 4] =
    [(4096, 4096, 2), (1024, 4096, 2), (14336, 4096, 2), (4096, 14336, 1)];
const EFFORTS: [f64; 7] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1];
const TURNS: usize = 15;

/// The median of some times, in microseconds.
fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2] * 1e6
}

/// Values of a normal distribution, as far as the sum of four uniform ones is one.
fn normals(count: usize, seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(move |_| next() + next() + next() + next())
}

fn main() {
    let threads = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let Ok(pool) = Pool::new(threads.unwrap_or_else(default_threads)) else {
        return eprintln!("no threads");
    };
    let dtype = DType::F16;
    let isa = match Isa::chosen() {
        Ok(isa) => isa,
        Err(error) => return eprintln!("{error}"),
    };
    let mut sums = [0.0; EFFORTS.len() + 1];
    for (rows, cols, count) in SHAPES {
        let values: Vec<f32> = normals(rows * cols, 1).map(|weight| weight * 0.02).collect();
        let mut weights = Vec::new();
        if let Err(error) = pelton_quant::encode(dtype, &values, &mut weights) {
            return eprintln!("{error}");
        }
        drop(values);
        let x: Vec<f32> = normals(cols, 2).map(|x| x * x * x).collect();
        let (Some(buckets), Ok(matrix), Ok(mut activations)) = (
            Buckets::new(dtype, (rows, cols), &weights, BUCKET, &pool),
            MatrixRef::new(dtype, rows, cols, &weights),
            Activations::new(ActivationKind::of(dtype), 1, cols),
        ) else {
            return eprintln!("no memory");
        };
        activations.set_phase(Phase::Decode);
        let selections = Selections::new(1, cols, pool.threads());
        let mut out = vec![0.0; rows];
        let mut times = vec![Vec::new(); EFFORTS.len() + 1];
        for _ in 0..TURNS {
            for (at, times) in times.iter_mut().enumerate() {
                let values = SharedMut::new(&mut out);
                let output = Output { values, stride: rows, bias: None, accumulate: false };
                let begun = Instant::now();
                pool.run(|worker| {
                    // SAFETY: partitions are disjoint, and a barrier lies between writes and reads.
                    unsafe {
                        let Some(effort) = at.checked_sub(1).and_then(|i| Effort::new(EFFORTS[i]))
                        else {
                            let units = worker.split(Activations::units(1, cols), 1);
                            activations.prepare(&x, cols, units);
                            worker.barrier();
                            let part = worker.split(rows, ROW_ALIGN);
                            return matmul(isa, &matrix, &activations, 1, part, &output);
                        };
                        if worker.index() == 0 {
                            selections.select(0, 0, &buckets, &x, effort);
                        }
                        worker.barrier();
                        let part = worker.split(rows, BUCKET_OUTPUTS);
                        multiply(isa, &buckets, (&selections, 0), 0, part, &output);
                    }
                });
                times.push(begun.elapsed().as_secs_f64());
                black_box(&mut out);
            }
        }
        let times: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
        let speed = weights.len() as f64 / times[0] / 1e3;
        print!("{isa} {rows} x {cols}: dense {dtype} {:.0} ({speed:.1} GB/s)", times[0]);
        for (effort, time) in EFFORTS.iter().zip(&times[1..]) {
            print!(", {effort}: {time:.0} ({:.2})", times[0] / time);
        }
        println!();
        for (sum, time) in sums.iter_mut().zip(&times) {
            *sum += count as f64 * time;
        }
    }
    print!("a layer: dense {dtype} {:.0}", sums[0]);
    for (effort, time) in EFFORTS.iter().zip(&sums[1..]) {
        print!(", {effort}: {time:.0} ({:.2})", sums[0] / time);
    }
    println!();
}
