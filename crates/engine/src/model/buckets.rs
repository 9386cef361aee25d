//! Files of a model's weights sorted within buckets.
//!
//! A file is GGUF without a model's metadata. For each matrix `NAME` `[outputs, inputs]` it has codes
//! `NAME.buckets` `[16, inputs, outputs / 16]`, so that the first ranks are the first bytes; the mean
//! magnitudes `NAME.bucket_means` `[16, inputs]`; `NAME.bucket_probes` `[4096, 2]`, inputs and weights;
//! and `NAME.bucket_unit`, the power of two that all three are in units of.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process,
};

use pelton_graph::{EffortMode, Plan, Weight, build};
use pelton_quant::{BUCKET, DType, PROBES, bucket_exponent, bucket_probe, decode, pack_buckets};
use pelton_weights::{BUCKETS_ARCHITECTURE, BUCKETS_MODEL, Checkpoint, GgufWriter, Problem};

use super::effort::key;
use crate::Error;

/// Files of a model's weights sorted within buckets of 16 outputs, for [`EffortMode::Bucket`]. A load with
/// [`LoadOptions::effort_buckets`](crate::LoadOptions::effort_buckets) reads the ranks that it keeps.
#[derive(Debug)]
pub struct BucketFile;

impl BucketFile {
    /// Sorts the matrices that effort applies to, and writes them. `progress` is called with the bytes of
    /// the matrices that are done and of all. The file is replaced by a rename.
    ///
    /// # Errors
    ///
    /// If the model has no plan, a matrix is neither F32 nor F16 nor BF16 or has no multiple of 16
    /// outputs, or the file cannot be written.
    pub fn write(
        path: &Path,
        checkpoint: &Checkpoint,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let mut plan = build(checkpoint)?.with_effort()?;
        plan.effort.mode = EffortMode::Bucket;
        let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
        let marked = || plan.weights.iter().filter(|weight| weight.effort);
        if let Some(weight) = marked()
            .find(|weight| weight.dtype.block_len() != 1 || !weight.rows.is_multiple_of(BUCKET))
        {
            return Err(refuse(format!(
                "tensor '{}' is {} x {} in {}, expected F16, BF16 or F32 with a multiple of 16 outputs",
                weight.name, weight.rows, weight.row_len, weight.dtype
            )));
        }
        let bytes = |weight: &Weight| 2 * weight.len() as u64;
        let (mut done, all) = (0, marked().map(bytes).sum());
        if let Some(folder) = path.parent() {
            let failed = |error| refuse(format!("could not be written: {error}"));
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = path.with_extension(process::id().to_string());
        let mut write = || -> Result<(), Problem> {
            let mut body = head(&plan, checkpoint)?
                .begin(BufWriter::new(File::create(&new).map_err(Problem::Write)?))?;
            for weight in marked() {
                for part in sorted(weight, checkpoint) {
                    body.write(&part)?;
                }
                done += bytes(weight);
                progress(done, all);
            }
            body.finish()?.flush().map_err(Problem::Write)?;
            fs::rename(&new, path).map_err(Problem::Write)
        };
        write().map_err(|problem| {
            let _ = fs::remove_file(&new);
            refuse(problem.to_string())
        })
    }
}

fn head(plan: &Plan, checkpoint: &Checkpoint) -> Result<GgufWriter, Problem> {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", BUCKETS_ARCHITECTURE)?;
    writer.set(BUCKETS_MODEL, key(plan, checkpoint).as_str())?;
    for Weight { name, rows, row_len, .. } in plan.weights.iter().filter(|weight| weight.effort) {
        let buckets = [rows / BUCKET, *row_len, BUCKET];
        writer.declare(&format!("{name}.buckets"), DType::F16, &buckets)?;
        writer.declare(&format!("{name}.bucket_means"), DType::F16, &[*row_len, BUCKET])?;
        writer.declare(&format!("{name}.bucket_probes"), DType::F32, &[2, PROBES])?;
        writer.declare(&format!("{name}.bucket_unit"), DType::F32, &[1])?;
    }
    Ok(writer)
}

/// The parts of a matrix, in the order of the file.
fn sorted(weight: &Weight, checkpoint: &Checkpoint) -> [Vec<u8>; 4] {
    let (rows, cols) = (weight.rows, weight.row_len);
    let mut values = vec![0.0; rows * cols];
    if let (Some(tensor), Some(row)) =
        (checkpoint.tensor(&weight.name), weight.dtype.bytes_of(cols))
    {
        let first = weight.first() * row;
        // the plan's shapes are those of the checkpoint
        let _ = tensor
            .bytes
            .get(first..first + rows * row)
            .map(|bytes| decode(weight.dtype, bytes, &mut values));
    }
    let greatest = values.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
    let exponent = bucket_exponent(greatest);
    let scale = 2.0_f32.powi(exponent);
    let buckets = rows / BUCKET;
    let (mut codes, mut means) = (vec![0; 2 * rows * cols], vec![0; 2 * BUCKET * cols]);
    let (mut column, mut packed) = (vec![0.0; rows], vec![0; rows]);
    for input in 0..cols {
        for (row, to) in column.iter_mut().enumerate() {
            *to = values[row * cols + input] * scale;
        }
        for (rank, mean) in pack_buckets(&column, &mut packed).into_iter().enumerate() {
            let at = rank * cols + input;
            means[2 * at..2 * at + 2].copy_from_slice(&mean.to_bits().to_le_bytes());
            let to = codes[2 * at * buckets..][..2 * buckets].chunks_exact_mut(2);
            for (to, code) in to.zip(&packed[rank * buckets..]) {
                to.copy_from_slice(&code.to_le_bytes());
            }
        }
    }
    let probe = |probe| {
        let (input, output) = bucket_probe(probe, rows, cols);
        [input as f32, values[output * cols + input] * scale]
    };
    let probes = (0..PROBES).flat_map(probe).flat_map(f32::to_le_bytes).collect();
    [codes, means, probes, 2.0_f32.powi(-exponent).to_le_bytes().to_vec()]
}
