//! Speed of the matrix products by format and instruction set, beside what the memory gives.
//!
//! `cargo bench -p pelton-cpu --bench matmul -- [WORD]...` runs the lines whose format or
//! instruction set is one of the words (`Q4_0`, `AVX2`), or all.
//!
//! Decode: one activation row through the matrices of TinyLlama-1.1B in turn, over so many
//! copies that no cache holds them; GB/s of weights. Prefill: 512 rows; 10⁹ multiplications
//! and additions per second.

use std::hint::black_box;
use std::time::Instant;

use pelton_cpu::kernels::{ActivationKind, Activations, Isa, MatrixRef, Output, ROW_ALIGN, matmul};
use pelton_cpu::pool::{Pool, SharedMut, default_threads};
use pelton_quant::DType;

/// Bytes of weights walked through.
const MEMORY: usize = 1 << 30;
/// Rows and columns.
const SHAPES: [(usize, usize); 5] =
    [(2048, 2048), (256, 2048), (5632, 2048), (2048, 5632), (32000, 2048)];
const PREFILL: usize = 512;

/// Seconds that an item takes, of which there are many: the fastest tenth is quicker than this.
/// Not the mean, as a machine is rarely undisturbed for long; not the best, as that is luck.
fn seconds<T>(items: &[T], mut run: impl FnMut(&T)) -> f64 {
    let time = |item| {
        let start = Instant::now();
        run(item);
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = items.iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

/// Bytes per second that the threads read together, each in eight places at once: the processor
/// fetches ahead within each, which a single place does not bring to the memory's limit.
fn bandwidth(pool: &Pool, memory: &[u8]) -> f64 {
    const PART: usize = 4 << 20;
    const LINE: usize = 64;
    let (parts, _) = memory.as_chunks::<PART>();
    let read = |part: &[u8; PART]| {
        pool.run(|worker| {
            let part = &part[worker.split(PART, 8 * LINE)];
            let (lines, _) = part.as_chunks::<LINE>();
            let each = lines.len() / 8;
            let mut sums = [0_u64; LINE / 8];
            for i in 0..each {
                for place in 0..8 {
                    let (words, _) = lines[place * each + i].as_chunks();
                    for (sum, word) in sums.iter_mut().zip(words) {
                        *sum = sum.wrapping_add(u64::from_le_bytes(*word));
                    }
                }
            }
            black_box(sums);
        });
    };
    PART as f64 / seconds(parts, read)
}

/// One product, as an executable does it: prepare, meet, multiply.
fn product(
    pool: &Pool,
    isa: Isa,
    matrix: &MatrixRef<'_>,
    activations: &Activations,
    x: &[f32],
    out: &mut [f32],
) {
    let batch = x.len() / matrix.cols();
    let stride = matrix.rows();
    let output = Output { values: SharedMut::new(out), stride, bias: None, accumulate: false };
    pool.run(|worker| {
        let units = worker.split(Activations::units(batch, matrix.cols()), 1);
        // SAFETY: shares are disjoint, and a barrier lies between writing and reading.
        unsafe { activations.prepare(x, matrix.cols(), units) };
        worker.barrier();
        let rows = worker.split(matrix.rows(), ROW_ALIGN);
        // SAFETY: as above.
        unsafe { matmul(isa, matrix, activations, batch, rows, &output) };
    });
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = |names: &[String]| {
        words.is_empty() || words.iter().any(|word| names.iter().any(|name| name == word))
    };
    let threads = default_threads();
    let pool = match Pool::new(threads) {
        Ok(pool) => pool,
        Err(error) => return eprintln!("no threads: {error}"),
    };
    // Codes and scales of no importance, except that they are ordinary numbers in all formats.
    let memory = vec![0x2c_u8; MEMORY];
    let bandwidth = bandwidth(&pool, &memory) / 1e9;
    println!("{threads} threads read {bandwidth:.1} GB/s");
    print!("{:24}", "decode GB/s, prefill GOP/s");
    SHAPES.iter().for_each(|(rows, cols)| print!("{:>20}", format!("{rows} x {cols}")));
    println!("{:>18}", "decode, share");

    let (widest, most) = (5632, 32000);
    let x: Vec<f32> = (0..PREFILL * widest).map(|i| (i % 97) as f32 - 48.0).collect();
    let mut out = vec![0.0; PREFILL * most];
    for dtype in DType::ALL {
        let activations = Activations::new(ActivationKind::of(dtype), PREFILL, widest);
        for isa in Isa::available() {
            if !wanted(&[dtype.to_string(), isa.to_string().replace(' ', "-")]) {
                continue;
            }
            print!("{:24}", format!("{dtype} {isa}"));
            let (mut total_bytes, mut total_time) = (0.0, 0.0);
            for (rows, cols) in SHAPES {
                let Some(len) = dtype.bytes_of(rows * cols) else { continue };
                let matrices: Vec<_> = memory
                    .chunks_exact(len)
                    .filter_map(|bytes| MatrixRef::new(dtype, rows, cols, bytes).ok())
                    .collect();
                let decode = seconds(&matrices, |matrix| {
                    product(&pool, isa, matrix, &activations, &x[..cols], &mut out[..rows]);
                });
                total_bytes += len as f64;
                total_time += decode;
                let mut prefill = f64::NAN;
                if isa != Isa::Portable {
                    let (x, out) = (&x[..PREFILL * cols], &mut out[..PREFILL * rows]);
                    prefill = seconds(&[matrices[0]; 10], |matrix| {
                        product(&pool, isa, matrix, &activations, x, out);
                    });
                }
                let gop = 2.0 * (rows * cols * PREFILL) as f64 / prefill / 1e9;
                let gb = len as f64 / decode / 1e9;
                print!("{:>20}", format!("{gb:.1}, {gop:.0}"));
            }
            let rate = total_bytes / total_time / 1e9;
            println!("{:>18}", format!("{rate:.1}, {:.0} %", 100.0 * rate / bandwidth));
        }
    }
}
