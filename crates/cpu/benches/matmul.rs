//! Speed of the matrix products by format and instruction set, and the share of the machine's
//! peaks.
//!
//! `cargo bench -p pelton-cpu --bench matmul -- [WORD]...` runs the formats and the
//! instruction sets that are among the words (`Q4_0`, `AVX2`, `AVX-512-VNNI`), or all
//! formats or sets if none is.
//!
//! Decode: one activation row through the matrices of TinyLlama-1.1B in turn, over so many copies
//! that no cache holds them; GB/s of weights. Few: 8 rows, likewise. Prefill: 512 rows; 10⁹
//! multiplications and additions per second. The last columns are shares over all shapes: of the
//! bandwidth that all threads reach when they only read, and of the peak rate of the instruction
//! that multiplies bytes or f32. Both are measured again before each shape, as a shared machine is
//! not equally fast all the time. Where the instruction set has kernels for packed rows, a second
//! line is for those. The last line of a format compares the set that a load chooses, the most
//! capable one, with the fastest line of each column: 1.00 if it is the fastest.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pelton_cpu::gemm::{
    ActivationKind, Activations, MatrixRef, Output, Panels, ROW_ALIGN, can_pack, matmul,
};
use pelton_cpu::isa::{InstructionSet, Isa};
use pelton_cpu::pool::{Pool, SharedMut, default_threads};
use pelton_cpu::pool_bandwidth;
use pelton_graph::Phase;
use pelton_quant::DType;

/// Bytes of weights that are read.
const MEMORY: usize = 1 << 30;
/// Rows and columns.
const SHAPES: [(usize, usize); 5] =
    [(2048, 2048), (256, 2048), (5632, 2048), (2048, 5632), (32000, 2048)];
/// The time of a measurement of the memory.
const READ: Duration = Duration::from_millis(100);
const FEW: usize = 8;
const PREFILL: usize = 512;
/// Prefill multiplies the output matrix, which is larger, with the last row only.
const MOST_PREFILL_ROWS: usize = 5632;

/// The first decile of the times of `run` over the items, in seconds: neither the mean, which
/// disturbances shift, nor the minimum, which varies.
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

/// One product as in an executable: prepare, barrier, multiply.
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
        // SAFETY: partitions are disjoint, and a barrier lies between writes and reads.
        unsafe { activations.prepare(x, matrix.cols(), units) };
        worker.barrier();
        let rows = worker.split(matrix.rows(), ROW_ALIGN);
        // SAFETY: as above.
        unsafe { matmul(isa, matrix, activations, batch, rows, &output) };
    });
}

/// 10⁹ multiplications and additions per second of the instruction set's multiplying
/// instruction: of bytes, and of f32.
#[cfg(target_arch = "x86_64")]
fn peak(pool: &Pool, isa: Isa) -> (f64, f64) {
    use std::arch::x86_64::*;

    const TIMES: usize = 200_000;
    const CHAINS: usize = 12;
    /// A function that runs `$next` on independent sums: more of them than the latency of the
    /// instruction times its throughput.
    macro_rules! chains {
        ($name:ident, $features:literal, $one:expr, |$sum:ident, $factor:ident| $next:expr) => {
            #[target_feature(enable = $features)]
            fn $name() {
                let $factor = $one;
                let mut sums = [$factor; CHAINS];
                for _ in 0..TIMES {
                    for $sum in &mut sums {
                        *$sum = $next;
                    }
                }
                black_box(sums);
            }
        };
    }
    chains!(bytes256, "avx2", _mm256_set1_epi8(1), |sum, x| _mm256_maddubs_epi16(x, *sum));
    chains!(bytes512, "avx512bw", _mm512_set1_epi8(1), |sum, x| _mm512_maddubs_epi16(x, *sum));
    chains!(vnni, "avx512vnni", _mm512_set1_epi8(1), |sum, x| _mm512_dpbusd_epi32(*sum, x, x));
    chains!(vnni256, "avxvnni", _mm256_set1_epi8(1), |sum, x| _mm256_dpbusd_avx_epi32(*sum, x, x));
    chains!(floats256, "avx2,fma", _mm256_set1_ps(0.5), |sum, x| _mm256_fmadd_ps(*sum, x, x));
    chains!(floats512, "avx512f", _mm512_set1_ps(0.5), |sum, x| _mm512_fmadd_ps(*sum, x, x));

    let rate = |lanes: usize, run: unsafe fn()| {
        let seconds = seconds(&[(); 20], |()| {
            // SAFETY: `isa` proves that the CPU has the instructions.
            pool.run(|_| unsafe { run() });
        });
        2.0 * (pool.threads() * TIMES * CHAINS * lanes) as f64 / seconds / 1e9
    };
    match isa.set() {
        InstructionSet::Avx2 => (rate(32, bytes256), rate(8, floats256)),
        InstructionSet::AvxVnni => (rate(32, vnni256), rate(8, floats256)),
        InstructionSet::Avx512 => (rate(64, bytes512), rate(16, floats512)),
        InstructionSet::Avx512Vnni => (rate(64, vnni), rate(16, floats512)),
        _ => (f64::NAN, f64::NAN),
    }
}

/// The peaks are measured on x86 only.
#[cfg(not(target_arch = "x86_64"))]
fn peak(_: &Pool, _: Isa) -> (f64, f64) {
    (f64::NAN, f64::NAN)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let name = |isa: Isa| isa.to_string().replace(' ', "-");
    let chosen = |names: &[String]| -> Vec<bool> {
        let any = names.iter().any(|name| words.contains(name));
        names.iter().map(|name| !any || words.contains(name)).collect()
    };
    let isas: Vec<_> = Isa::available().collect();
    let isas_chosen = chosen(&isas.iter().map(|&isa| name(isa)).collect::<Vec<_>>());
    let types_chosen = chosen(&DType::ALL.map(|dtype| dtype.to_string()));
    let threads = default_threads();
    let pool = match Pool::new(threads) {
        Ok(pool) => pool,
        Err(error) => return eprintln!("no threads: {error}"),
    };
    // codes and scales that are finite and normal in all formats
    let memory = vec![0x2c_u8; MEMORY];
    println!("{threads} threads read {:.1} GB/s", pool_bandwidth(&pool, &memory, READ) / 1e9);
    let peaks: Vec<_> = isas.iter().map(|&isa| peak(&pool, isa)).collect();
    for (isa, (bytes, floats)) in isas.iter().zip(&peaks).filter(|(_, peak)| !peak.0.is_nan()) {
        println!("{isa}: {bytes:.0} GOP/s of bytes, {floats:.0} GOP/s of f32");
    }
    print!("{:20}", "decode, few, prefill");
    SHAPES.iter().for_each(|(rows, cols)| print!("{:>20}", format!("{rows} x {cols}")));
    println!("{:>10}{:>10}{:>10}", "decode", "few", "prefill");

    let (widest, most) = (5632, 32000);
    let x: Vec<f32> = (0..PREFILL * widest).map(|i| (i % 97) as f32 - 48.0).collect();
    let mut out = vec![0.0; (FEW * most).max(PREFILL * MOST_PREFILL_ROWS)];
    for dtype in DType::ALL.into_iter().zip(types_chosen).filter(|pair| pair.1).map(|pair| pair.0) {
        let kind = ActivationKind::of(dtype);
        let mut activations = match Activations::new(kind, PREFILL, widest) {
            Ok(activations) => activations,
            Err(error) => return eprintln!("{error}"),
        };
        let lines = isas.iter().zip(&isas_chosen).filter(|pair| *pair.1);
        let panels = |isa| {
            let panels = Panels::of(isa).filter(|panels| can_pack(dtype, ROW_ALIGN, *panels));
            [None].into_iter().chain(panels.map(Some))
        };
        let mut all = Vec::new();
        for (isa, panels) in
            lines.flat_map(|(&isa, _)| panels(isa).map(move |panels| (isa, panels)))
        {
            let order = if panels.is_some() { " packed" } else { "" };
            print!("{:20}", format!("{dtype} {isa}{order}"));
            let (mut least, mut times) = ([0.0; 3], [0.0; 3]);
            for (rows, cols) in SHAPES {
                let Some(len) = dtype.bytes_of(rows * cols) else { continue };
                let matrices: Vec<_> = memory
                    .chunks_exact(len)
                    .filter_map(|bytes| match panels {
                        // the bytes are all the same, so they are packed as they are
                        Some(panels) => MatrixRef::packed(dtype, rows, cols, bytes, panels).ok(),
                        None => MatrixRef::new(dtype, rows, cols, bytes).ok(),
                    })
                    .collect();
                let time_to_read = len as f64 / pool_bandwidth(&pool, &memory, READ);
                least[0] += time_to_read;
                least[1] += time_to_read;
                let mut figures = Vec::new();
                activations.set_phase(Phase::Decode);
                for (time, batch) in times.iter_mut().zip([1, FEW]) {
                    let (x, out) = (&x[..batch * cols], &mut out[..batch * rows]);
                    let seconds = seconds(&matrices, |matrix| {
                        product(&pool, isa, matrix, &activations, x, out);
                    });
                    *time += seconds;
                    figures.push(format!("{:.1}", len as f64 / seconds / 1e9));
                }
                if isa != Isa::PORTABLE && rows <= MOST_PREFILL_ROWS {
                    activations.set_phase(Phase::Prompt);
                    let (x, out) = (&x[..PREFILL * cols], &mut out[..PREFILL * rows]);
                    let seconds = seconds(&[matrices[0]; 10], |matrix| {
                        product(&pool, isa, matrix, &activations, x, out);
                    });
                    let ops = 2.0 * (rows * cols * PREFILL) as f64;
                    let peak = peak(&pool, isa);
                    let peak = if kind == ActivationKind::F32 { peak.1 } else { peak.0 };
                    least[2] += ops / (peak * 1e9);
                    times[2] += seconds;
                    figures.push(format!("{:.0}", ops / seconds / 1e9));
                }
                print!("{:>20}", figures.join(" "));
            }
            for (least, time) in least.into_iter().zip(times) {
                print!("{:>10}", format!("{:.0} %", 100.0 * least / time));
            }
            println!();
            all.push(times);
        }
        if let (true, Some(chosen)) =
            (all.len() > 1 && isas_chosen.last() == Some(&true), all.last())
        {
            let timed =
                |i: usize| all.iter().map(move |times: &[f64; 3]| times[i]).filter(|t| *t > 0.0);
            let least = |i: usize| timed(i).fold(f64::INFINITY, f64::min);
            let shares: Vec<String> =
                (0..3).map(|i| format!("{:>10.2}", least(i) / chosen[i])).collect();
            println!("{:120}{}", format!("{dtype}, chosen against fastest"), shares.concat());
        }
    }
}
