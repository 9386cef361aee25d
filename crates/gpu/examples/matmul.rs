//! Compares products on matrix cores with f64, and measures them.
//!
//! Prints a line for each shape and tile, with `*` at the tile that a model would use. Exits with
//! status 1 if a result is wrong or no GPU has matrix cores. `matmul all` also measures tiles that
//! are not in use, `matmul few` measures tiles and K splits of passes of 64 to 512 rows. `matmul
//! check` runs only the small cases, with every index checked.

use std::{process::ExitCode, time::Instant};

use half::f16;
use pelton_gpu::{
    adapters,
    microbench::{Bench, BenchProduct, MatrixShape, Tile, Tiled},
};
use pelton_graph::Error;
use pelton_quant::{DType, decode};
use pelton_testing::Random;

/// Distinct rows of a matrix, which larger ones repeat. A prime, so that an offset by
/// a power of two shows.
const DISTINCT: usize = 61;

/// Outputs that are compared with f64.
const SAMPLES: usize = 4000;

/// The smallest tile with workgroup memory in single f16 values. If it alone is right, the GPU
/// loads vectors in another order than expected.
const NARROW: Tile = Tile { wide: 1, ..Tile::ALL[3] };

/// Further tiles to measure.
const CANDIDATES: [Tile; 10] = [
    NARROW,
    Tile::of([128, 128], [64, 64], 64),
    Tile::of([128, 128], [64, 64], 32),
    Tile::of([128, 128], [64, 32], 32),
    Tile::of([256, 128], [64, 64], 32),
    Tile::of([128, 256], [64, 64], 32),
    Tile::of([128, 64], [64, 32], 32),
    Tile::of([64, 128], [32, 64], 64),
    Tile::of([64, 128], [64, 32], 64),
    Tile::of([64, 64], [32, 32], 32),
];

/// Further tiles for few rows.
const FEW: [Tile; 12] = [
    Tile::of([128, 128], [64, 64], 64),
    Tile::of([128, 128], [64, 64], 32),
    Tile::of([128, 128], [64, 32], 32),
    Tile::of([128, 128], [32, 64], 64),
    Tile::of([64, 128], [32, 32], 64),
    Tile::of([64, 128], [64, 32], 64),
    Tile::of([64, 128], [64, 32], 32),
    Tile::of([64, 128], [32, 64], 64),
    Tile::of([64, 64], [32, 32], 32),
    Tile::of([64, 64], [64, 32], 64),
    Tile::of([64, 256], [64, 64], 32),
    Tile::of([256, 128], [64, 64], 32),
];

/// A product and samples of its expected outputs.
struct Case {
    shape: MatrixShape,
    product: BenchProduct,
    /// Row, output and value: all of a small product, else the corners and random ones.
    samples: Vec<(usize, usize, f64)>,
}

impl Case {
    fn new(bench: &Bench, shape: MatrixShape) -> Result<Self, Error> {
        let MatrixShape { dtype, rows, k, batch } = shape;
        let mut random = Random::new(7);
        let x = random.normals(k * batch, 0.0, 1.0);
        let distinct = rows.min(DISTINCT);
        let blocks = random.blocks(dtype, distinct * k, 0.0, 0.1);
        let mut weights = vec![0.0; distinct * k];
        decode(dtype, &blocks, &mut weights)
            .map_err(|e| Error::Kernel { kernel: "decode".into(), what: e.to_string() })?;
        let mut matrix = blocks.repeat(rows.div_ceil(distinct));
        matrix.truncate(blocks.len() / distinct * rows);

        let places: Vec<(usize, usize)> = match rows * batch <= SAMPLES {
            true => (0..batch).flat_map(|r| (0..rows).map(move |n| (r, n))).collect(),
            false => [(0, 0), (0, rows - 1), (batch - 1, 0), (batch - 1, rows - 1)]
                .into_iter()
                .chain((0..SAMPLES).map(|_| (random.below(batch), random.below(rows))))
                .collect(),
        };
        let rounded = |v: &f32| f64::from(f16::from_f32(*v));
        let value = |r: usize, n: usize| -> f64 {
            let w = &weights[n % distinct * k..][..k];
            w.iter().zip(&x[r * k..]).map(|(w, a)| rounded(w) * rounded(a)).sum()
        };
        let samples = places.into_iter().map(|(r, n)| (r, n, value(r, n))).collect();
        Ok(Self { shape, product: bench.product(&shape, &matrix, &x)?, samples })
    }

    /// The description of the first wrong output of a tile's product, if any.
    fn fault(&self, tiled: &Tiled<'_>) -> Result<Option<String>, Error> {
        let y = tiled.compute()?;
        let total = self.samples.len();
        let mean = self.samples.iter().map(|(.., e)| e * e).sum::<f64>() / total as f64;
        // a weight with a minimum of its own is rounded twice
        let unit = if matches!(self.shape.dtype, DType::Q4_K | DType::Q5_K) { 2e-3 } else { 1e-3 };
        let tolerance = unit * mean.sqrt();
        // false for a NaN
        let close = |got: f64, e: f64| (got - e).abs() <= tolerance;
        let got = |r: usize, n: usize| f64::from(y[r * self.shape.rows + n]);
        let mut wrong = self.samples.iter().filter(|(r, n, e)| !close(got(*r, *n), *e));
        let Some(&(r, n, e)) = wrong.next() else { return Ok(None) };
        // the place where the value belongs shows a mistake of the layout
        let home = self.samples.iter().find(|s| close(got(r, n), s.2));
        let home = home.map_or("nowhere".into(), |s| format!("at row {} output {}", s.0, s.1));
        Ok(Some(format!(
            "{} of {total} outputs are wrong, first row {r} output {n}: {} for {e}, \
             which belongs {home}",
            1 + wrong.count(),
            got(r, n)
        )))
    }

    /// Prints whether a tile's product is right.
    fn report(&self, tile: &Tile) -> Result<bool, Error> {
        let MatrixShape { dtype, rows, k, batch } = self.shape;
        let Tile { batch: b, rows: n, patch_batch, patch_rows, step, wide, .. } = *tile;
        let chosen = if *tile == self.product.tile() { '*' } else { ' ' };
        print!(
            "{:6} {batch:4} x {k:5} x {rows:5}  tile {b:3} x {n:3}, patch {patch_batch:2} x \
             {patch_rows:2}, step {step:2}, wide {wide} {chosen} ",
            dtype.name()
        );
        // other tiles may compile although this one does not
        let tiled = match self.product.by(tile, 1) {
            Ok(tiled) => tiled,
            Err(error) => {
                println!("WRONG: {error}");
                return Ok(false);
            }
        };
        if let Some(fault) = self.fault(&tiled)? {
            println!("WRONG: {fault}");
            return Ok(false);
        }
        println!("right");
        Ok(true)
    }

    /// Prints the speed of tiles with numbers of K splits, the best of some turns. All are
    /// compiled before, because a GPU that waits for a compiler lowers its clock, and raises it
    /// only in half a second of work.
    fn race(&self, tiles: &[Tile], splits: &[usize]) -> Result<bool, Error> {
        let mut all = Vec::new();
        let mut right = true;
        for tile in tiles {
            match self.product.by(tile, 1).and_then(|tiled| self.fault(&tiled)) {
                Ok(None) => {}
                Ok(Some(fault)) => {
                    println!("WRONG: {tile:?}: {fault}");
                    right = false;
                    continue;
                }
                Err(error) => {
                    println!("not compiled: {tile:?}: {error}");
                    continue;
                }
            }
            for &splits in splits {
                all.push((tile, splits, self.product.by(tile, splits)?, f64::MAX));
            }
        }
        let begin = Instant::now();
        while let Some((.., tiled, _)) = all.first()
            && begin.elapsed().as_secs_f64() < 0.7
        {
            tiled.seconds(50)?;
        }
        for _ in 0..3 {
            for (.., tiled, best) in &mut all {
                *best = tiled.seconds(20)?.min(*best);
            }
        }
        let MatrixShape { dtype, rows, k, batch } = self.shape;
        let operations = 2.0 * (rows * k * batch) as f64;
        for (tile, splits, _, best) in all {
            let Tile { batch: b, rows: n, patch_batch, patch_rows, step, .. } = *tile;
            let chosen = if *tile == self.product.tile() { '*' } else { ' ' };
            println!(
                "{:6} {batch:4} x {k:5} x {rows:5}  tile {b:3} x {n:3}, patch {patch_batch:2} x {patch_rows:2}, \
                 step {step:2} {chosen} {splits} splits {:8.1} µs {:6.1} TFLOP/s",
                dtype.name(),
                best * 1e6,
                operations / best / 1e12
            );
        }
        Ok(right)
    }
}

/// Shapes with edges, then every format.
fn small(bench: &Bench) -> Result<bool, Error> {
    let mut right = true;
    for (batch, k, rows) in [(16, 16, 16), (32, 64, 48), (19, 50, 131), (150, 200, 300)] {
        let case = Case::new(bench, MatrixShape { dtype: DType::F16, rows, k, batch })?;
        for tile in Tile::ALL.iter().chain([&NARROW]) {
            right &= case.report(tile)?;
        }
    }
    for dtype in DType::ALL {
        let k = if dtype.block_len() == 1 { 100 } else { 3 * dtype.block_len() };
        let case = Case::new(bench, MatrixShape { dtype, rows: 150, k, batch: 140 })?;
        right &= case.report(&Tile::ALL[0])?;
    }
    Ok(right)
}

/// The shapes of Llama 3.1 8B.
fn large(bench: &Bench, tiles: &[Tile]) -> Result<bool, Error> {
    let mut right = true;
    for dtype in [DType::Q4_0, DType::Q4_K, DType::Q6_K, DType::Q8_0, DType::F16] {
        let common = matches!(dtype, DType::Q4_0 | DType::Q4_K);
        let shapes = [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336)];
        let some = if common { &shapes[..] } else { &shapes[2..] };
        for &(rows, k) in some {
            let batches: &[usize] = if dtype == DType::Q4_0 { &[512, 128, 32] } else { &[512] };
            for &batch in batches {
                let case = Case::new(bench, MatrixShape { dtype, rows, k, batch })?;
                let tiles = if common && batch == 512 { tiles } else { &Tile::ALL };
                right &= case.race(tiles, &[1])?;
            }
        }
    }
    Ok(right)
}

/// Passes of few rows over the shapes of Llama 3.1 8B and Llama 3.2 1B, by tiles and K splits.
fn few(bench: &Bench) -> Result<(), Error> {
    let large = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)];
    let little = [(3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)];
    let six = [(4096, 14336), (128_256, 4096)];
    for (dtype, shapes) in [(DType::Q4_K, &large[..]), (DType::Q6_K, &six), (DType::Q4_0, &little)]
    {
        for &(rows, k) in shapes {
            for batch in [64, 96, 128, 256, 512] {
                if rows > 100_000 && batch > 128 {
                    continue;
                }
                let case = Case::new(bench, MatrixShape { dtype, rows, k, batch })?;
                case.race(&[&Tile::ALL[..], &FEW].concat(), &[1, 2, 4])?;
            }
        }
    }
    Ok(())
}

fn run() -> Result<bool, Error> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let begin = Instant::now();
    let found = adapters();
    let adapter = found.iter().find(|adapter| adapter.has_matrix_cores());
    let Some(adapter) = adapter else {
        println!("no GPU has matrix cores that the kernels support");
        return Ok(false);
    };
    println!("{} through {}, {}", adapter.name(), adapter.interface(), adapter.driver());
    if what == "check" {
        return small(&Bench::open(adapter, true)?);
    }
    let bench = Bench::open(adapter, false)?;
    let mut tiles = Tile::ALL.to_vec();
    if what == "all" {
        tiles.extend(CANDIDATES);
    }
    if what == "few" {
        few(&bench)?;
        return Ok(true);
    }
    let right = small(&bench)? & large(&bench, &tiles)?;
    println!(
        "{:.0} s, {}",
        begin.elapsed().as_secs_f64(),
        if right { "all right" } else { "WRONG" }
    );
    Ok(right)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
