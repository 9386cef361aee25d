//! Speed of products with matrices in input-major order by effort, next to dense products.
//!
//! `cargo bench -p pelton-cpu --bench input_major -- [WORD]...` runs the formats and the instruction
//! sets that are among the words (`Q4_0`, `AVX2`, `AVX-512-VNNI`), or Q4_0, Q8_0 and Q4_K and all sets.
//!
//! One activation row through the layer matrices of TinyLlama-1.1B, over so many copies that no cache
//! holds them. Efforts take turns with the dense product of the same shape, each on the next copy.
//! Printed are microseconds of a product, and the dense time divided by it.

use std::hint::black_box;
use std::time::Instant;

use memmap2::MmapMut;
use pelton_cpu::gemm::input_major::{Chosen, InputMajor, LiveRows, OUTPUT_ALIGN, Task, multiply};
use pelton_cpu::gemm::{
    ActivationKind, Activations, MatrixRef, Output, Panels, ROW_ALIGN, can_pack, matmul,
};
use pelton_cpu::isa::Isa;
use pelton_cpu::pool::{Pool, SharedMut, default_threads};
use pelton_quant::DType;

/// Bytes of weights in each order.
const MEMORY: usize = 192 << 20;
/// Rows and columns.
const SHAPES: [(usize, usize); 4] = [(2048, 2048), (256, 2048), (5632, 2048), (2048, 5632)];
const EFFORTS: [f64; 5] = [1.0, 0.7, 0.5, 0.35, 0.25];
const TURNS: usize = 60;

/// The median of some times, in microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2] * 1e6
}

/// The matrices of a shape in both orders, and what products with them need.
struct Subject<'a> {
    pool: &'a Pool,
    isa: Isa,
    activations: &'a Activations,
    x: &'a [f32],
    lists: &'a LiveRows,
}

impl Subject<'_> {
    fn dense(&self, matrix: &MatrixRef<'_>, out: &mut [f32]) {
        let values = SharedMut::new(out);
        let output = Output { values, stride: matrix.rows(), bias: None, accumulate: false };
        self.pool.run(|worker| {
            let units = worker.split(Activations::units(1, matrix.cols()), 1);
            // SAFETY: partitions are disjoint, and a barrier lies between writes and reads.
            unsafe { self.activations.prepare(self.x, matrix.cols(), units) };
            worker.barrier();
            let rows = worker.split(matrix.rows(), ROW_ALIGN);
            // SAFETY: as above.
            unsafe { matmul(self.isa, matrix, self.activations, 1, rows, &output) };
        });
    }

    /// The product with an effort; without the product itself if `only_choose`.
    fn sparse(&self, matrix: &InputMajor, effort: f64, only_choose: bool, out: &mut [f32]) {
        let values = SharedMut::new(out);
        let output = Output { values, stride: matrix.rows(), bias: None, accumulate: false };
        let (cols, activations) = (matrix.cols(), self.activations);
        let mut scores: Vec<u32> =
            self.x.iter().zip(matrix.norms()).map(|(x, norm)| (x * norm).abs().to_bits()).collect();
        scores.sort_unstable_by(|a, b| b.cmp(a));
        let least = scores[((effort * cols as f64).ceil() as usize).clamp(1, cols) - 1];
        self.pool.run(|worker| {
            let units = worker.split(Activations::units(1, cols), 1);
            // SAFETY: partitions are disjoint, and a barrier lies between writes and reads.
            unsafe { activations.prepare(self.x, cols, units) };
            worker.barrier();
            let of_blocks = Some((activations, 0));
            let chosen = Chosen { x: self.x, matrix, least, activations: of_blocks };
            let units = worker.split(LiveRows::units(cols), 1);
            // SAFETY: as above.
            unsafe { self.lists.choose(self.isa, 0, &chosen, units) };
            worker.barrier();
            if !only_choose {
                let task = Task { matrix, activations, live: &[0], lists: (self.lists, 0), output };
                // SAFETY: as above.
                unsafe { multiply(self.isa, &task, worker.split(matrix.rows(), OUTPUT_ALIGN)) };
            }
        });
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let is_chosen = |name: &str, all: &[String], default: bool| match all
        .iter()
        .any(|name| words.contains(name))
    {
        true => words.iter().any(|word| word == name),
        false => default,
    };
    let sets: Vec<String> = Isa::available().map(|isa| isa.to_string().replace(' ', "-")).collect();
    let types = DType::ALL.map(|dtype| dtype.to_string());
    let pool = match Pool::new(default_threads()) {
        Ok(pool) => pool,
        Err(error) => return eprintln!("no threads: {error}"),
    };
    // in huge pages, as both orders are in a model
    let Ok(mut memory) = MmapMut::map_anon(MEMORY) else {
        return eprintln!("no memory");
    };
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    // codes and scales that are finite and normal in all formats
    memory.fill(0x2c);
    for dtype in DType::ALL {
        let default = matches!(dtype, DType::Q4_0 | DType::Q8_0 | DType::Q4_K);
        if !is_chosen(&dtype.to_string(), &types, default) {
            continue;
        }
        for (rows, cols) in SHAPES {
            let Some(len) = dtype.bytes_of(rows * cols) else { continue };
            let copies = (MEMORY / len).min(64);
            let (Ok(activations), Some(lists)) =
                (Activations::new(ActivationKind::I8, 1, cols), LiveRows::new(1, cols, 0))
            else {
                return eprintln!("no memory");
            };
            let matrices: Option<Vec<_>> = (0..copies)
                .map(|_| InputMajor::new(dtype, rows, cols, &memory[..len], &pool))
                .collect();
            let Some(matrices) = matrices else { continue };
            // heavy tails, in no order
            let x: Vec<f32> = (0..cols)
                .map(|i| {
                    let x = (i as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32 - 0.5;
                    x * x * x
                })
                .collect();
            let mut out = vec![0.0; rows];
            for isa in Isa::available() {
                if !is_chosen(&isa.to_string().replace(' ', "-"), &sets, true) {
                    continue;
                }
                let panels = Panels::of(isa).filter(|panels| can_pack(dtype, rows, *panels));
                let of_dense = |i: usize| {
                    let bytes = &memory[i * len..(i + 1) * len];
                    match panels {
                        // the bytes are all the same, so they are packed as they are
                        Some(panels) => MatrixRef::packed(dtype, rows, cols, bytes, panels),
                        None => MatrixRef::new(dtype, rows, cols, bytes),
                    }
                };
                let (pool, activations, x, lists) = (&pool, &activations, &x[..], &lists);
                let subject = Subject { pool, isa, activations, x, lists };
                let mut times = vec![Vec::new(); EFFORTS.len() + 2];
                for turn in 0..TURNS {
                    for (at, times) in times.iter_mut().enumerate() {
                        let copy = (turn * (EFFORTS.len() + 2) + at) % copies;
                        let Ok(dense) = of_dense(copy) else { continue };
                        let begun = Instant::now();
                        match at {
                            0 => subject.dense(&dense, &mut out),
                            1 => subject.sparse(&matrices[copy], 0.5, true, &mut out),
                            at => subject.sparse(&matrices[copy], EFFORTS[at - 2], false, &mut out),
                        }
                        times.push(begun.elapsed().as_secs_f64());
                        black_box(&mut out);
                    }
                }
                let times: Vec<f64> = times.into_iter().map(median).collect();
                let speed = len as f64 / times[0] / 1e3;
                print!("{dtype} {isa} {rows} x {cols}: dense {:.0} ({speed:.1} GB/s)", times[0]);
                print!(", choice {:.1}", times[1]);
                for (effort, time) in EFFORTS.iter().zip(&times[2..]) {
                    print!(", {effort}: {time:.0} ({:.2})", times[0] / time);
                }
                println!();
            }
        }
    }
}
