//! Files of a model's weights sorted within buckets.
//!
//! A file is GGUF without a model's metadata but for a key of its matrices and the name of the
//! codes' format. For each matrix `NAME` `[outputs, inputs]`, the first dimension outermost, it has
//! these tensors. `NAME.buckets` `[ranks, inputs, outputs / 16]` has codes in words of 16 bits, so
//! that the first ranks are the first bytes. `NAME.bucket_means` `[ranks, inputs]` has the mean
//! magnitudes. Codes of eight bits have `NAME.bucket_levels` `[inputs, 2, ranks]`, the bases and
//! the steps. `NAME.bucket_probes` `[4096, 2]` has inputs and weights, and `NAME.bucket_unit` the
//! power of two that all are in units of. Each expert of a layer has all of these, one expert after
//! the other.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process,
};

use pelton_graph::{EffortMode, Plan, Weight, build};
use pelton_quant::{
    BUCKET, BucketFormat, BucketSource, DType, LevelRanks, PROBES, bucket_exponent, pack_buckets,
    pack_levels,
};
use pelton_weights::{
    BUCKETS_ARCHITECTURE, BUCKETS_FORMAT, BUCKETS_MODEL, BucketPart, Checkpoint, GgufWriter,
    Problem, bucket_tensor,
};

use super::effort::key;
use crate::Error;

/// Inputs that are decoded together: a block of Q8_0.
const INPUTS: usize = 32;

/// Files of a model's weights sorted within buckets of outputs, for [`EffortMode::Bucket`]. A load with
/// [`EffortOptions::buckets`](crate::EffortOptions::buckets) reads the ranks that it keeps.
#[derive(Debug)]
pub struct BucketFile;

impl BucketFile {
    /// Sorts the matrices that effort applies to, of experts too, and writes them with codes of a format.
    /// `progress` is called with the bytes of the codes that are done and of all. The file is replaced by a
    /// rename.
    ///
    /// # Errors
    ///
    /// If the model has no plan, a matrix is of a type that the format does not
    /// [read](BucketFormat::reads) or has no multiple of 16 outputs, or the file cannot be written.
    pub fn write(
        path: &Path,
        checkpoint: &Checkpoint,
        format: BucketFormat,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let mut plan = build(checkpoint)?.with_effort()?.with_expert_effort();
        plan.effort.mode = EffortMode::Bucket;
        plan.effort.buckets = format;
        let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
        let marked = || plan.weights.iter().filter(|weight| weight.effort);
        if let Some(weight) = marked()
            .find(|weight| !format.reads(weight.dtype) || !weight.rows.is_multiple_of(BUCKET))
        {
            let q8_0 = if format == BucketFormat::Q8 { ", Q8_0" } else { "" };
            return Err(refuse(format!(
                "tensor '{}' is {} x {} in {}, expected F16, BF16{q8_0} or F32 with a multiple of 16 \
                 outputs for buckets of {}",
                weight.name,
                weight.rows,
                weight.row_len,
                weight.dtype,
                format.name()
            )));
        }
        let bytes = |weight: &Weight| (weight.len() / BUCKET * 2 * format.ranks()) as u64;
        let (mut done, total) = (0, marked().map(bytes).sum());
        if let Some(folder) = path.parent() {
            let failed = |error| refuse(format!("could not be written: {error}"));
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = path.with_extension(process::id().to_string());
        let mut write = || -> Result<(), Problem> {
            let mut body = head(&plan, checkpoint)?
                .begin(BufWriter::new(File::create(&new).map_err(Problem::Write)?))?;
            for weight in marked() {
                // the parts lie one after the other, and each has all matrices
                let mut all: [Vec<u8>; 5] = Default::default();
                for index in 0..weight.count() {
                    let parts = sorted((weight, index), format, checkpoint);
                    all.iter_mut().zip(parts).for_each(|(all, part)| all.extend(part));
                }
                for part in all.iter().filter(|part| !part.is_empty()) {
                    body.write(part)?;
                }
                done += bytes(weight);
                progress(done, total);
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
    let (format, mut writer) = (plan.effort.buckets, GgufWriter::new());
    let ranks = format.ranks();
    writer.set("general.architecture", BUCKETS_ARCHITECTURE)?;
    writer.set(BUCKETS_MODEL, key(plan, checkpoint).as_str())?;
    writer.set(BUCKETS_FORMAT, format.name())?;
    for weight in plan.weights.iter().filter(|weight| weight.effort) {
        let &Weight { rows, row_len, .. } = weight;
        let mut declare = |part, dtype, shape: &[usize]| {
            let name = bucket_tensor(&weight.name, weight.first(), part);
            let of_experts = (weight.count() > 1).then_some(weight.count());
            let shape: Vec<usize> = shape.iter().copied().chain(of_experts).collect();
            writer.declare(&name, dtype, &shape)
        };
        declare(BucketPart::Codes, DType::F16, &[rows / BUCKET, row_len, ranks])?;
        declare(BucketPart::Means, DType::F16, &[row_len, ranks])?;
        if format == BucketFormat::Q8 {
            declare(BucketPart::Levels, DType::F16, &[ranks, 2, row_len])?;
        }
        declare(BucketPart::Probes, DType::F32, &[2, PROBES])?;
        declare(BucketPart::Unit, DType::F32, &[1])?;
    }
    Ok(writer)
}

/// The parts of matrix `index` of a weight, in the order of the file; empty if the format has no such part.
fn sorted(
    (weight, index): (&Weight, usize),
    format: BucketFormat,
    checkpoint: &Checkpoint,
) -> [Vec<u8>; 5] {
    let (rows, cols, ranks) = (weight.rows, weight.row_len, format.ranks());
    let bytes = |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let source = checkpoint.tensor(&weight.name).zip(weight.dtype.bytes_of(cols));
    let source = source.and_then(|(tensor, row)| {
        let first = (index * weight.tensor_rows() + weight.first()) * row;
        let bytes = tensor.bytes.get(first..first + rows * row)?;
        BucketSource::new(weight.dtype, (rows, cols), bytes)
    });
    // the plan's shapes are those of the checkpoint
    let Some(source) = source else { return Default::default() };
    let exponent = bucket_exponent(source.greatest(0..rows));
    let scale = 2.0_f32.powi(exponent);
    let words = rows / BUCKET;
    let (mut codes, mut means) = (vec![0; words * ranks * cols], vec![0; ranks * cols]);
    let (mut levels, mut packed) = (Vec::new(), vec![0; words * ranks]);
    for first in (0..cols).step_by(INPUTS) {
        let inputs = first..cols.min(first + INPUTS);
        let columns = source.columns(inputs.clone(), scale);
        for (input, column) in inputs.zip(columns.chunks_exact(rows)) {
            let of_ranks = match format {
                BucketFormat::F16 => pack_buckets(column, &mut packed).to_vec(),
                BucketFormat::Q8 => {
                    let LevelRanks { means, bases, steps } = pack_levels(column, &mut packed);
                    levels.extend(bases.iter().chain(&steps).map(|level| level.to_bits()));
                    means.to_vec()
                }
            };
            for (rank, mean) in of_ranks.into_iter().enumerate() {
                let at = rank * cols + input;
                means[at] = mean.to_bits();
                codes[at * words..][..words].copy_from_slice(&packed[rank * words..][..words]);
            }
        }
    }
    let pairs = source.probes(scale).flat_map(|(input, weight)| [input as f32, weight]);
    let probes = pairs.flat_map(f32::to_le_bytes).collect();
    let unit = 2.0_f32.powi(-exponent).to_le_bytes().to_vec();
    [bytes(&codes), bytes(&means), bytes(&levels), probes, unit]
}
