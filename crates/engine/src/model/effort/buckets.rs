//! Files of a model's weights sorted within buckets.
//!
//! A file is GGUF without a model's metadata but for a key of its matrices. For each matrix `NAME`
//! `[outputs, inputs]`, the first dimension outermost, it has these tensors. `NAME.buckets`
//! `[16, inputs, outputs / 16]` has codes in f16, so that the first ranks are the first bytes.
//! `NAME.bucket_means` `[16, inputs]` has the mean magnitudes of the ranks. `NAME.bucket_probes`
//! `[4096, 2]` has inputs and weights, and `NAME.bucket_unit` the power of two that all are in
//! units of. Each expert of a layer has all of these, one expert after the other.

use std::{fs, io::BufWriter, path::Path};

use pelton_graph::{EffortForm, Plan, Weight, build};
use pelton_quant::{BUCKET, BucketSource, DType, PROBES, bucket_exponent, pack_buckets};
use pelton_records::Output;
use pelton_weights::{
    BUCKETS_ARCHITECTURE, BUCKETS_MODEL, BucketPart, Checkpoint, GgufWriter, Problem, bucket_tensor,
};

use super::key::key;
use crate::Error;

/// Inputs that are decoded together.
const INPUTS: usize = 32;

/// Files of a model's weights in F16, BF16 and F32, sorted within buckets of outputs. A load with
/// [`EffortOptions::buckets`](crate::EffortOptions::buckets) reads the ranks that it keeps.
#[derive(Debug)]
pub struct BucketFile;

impl BucketFile {
    /// Sorts the matrices that can be marked, of experts too, and writes them. `progress` is called
    /// with the bytes of the codes that are done and of all. A regular file is replaced whole.
    ///
    /// # Errors
    ///
    /// If the model has no plan, no matrix has weights of these formats and a multiple of 16
    /// outputs, or the file cannot be written.
    pub fn write(
        path: &Path,
        checkpoint: &Checkpoint,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let plan = build(checkpoint)?.with_effort(&|form| form == EffortForm::Bucket);
        let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
        let marked = || plan.weights.iter().filter(|weight| weight.marked);
        if !plan.has_effort() {
            let expected = "expected matrices in F16, BF16 or F32 with a multiple of 16 outputs";
            return Err(refuse(format!("{} has none to sort, {expected}", checkpoint.name())));
        }
        let bytes = |weight: &Weight| 2 * weight.len() as u64;
        let (mut done, total) = (0, marked().map(bytes).sum());
        if let Some(folder) = path.parent() {
            let failed = |error| refuse(format!("could not be written: {error}"));
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut write = || -> Result<(), Problem> {
            let output = Output::create(path, true).map_err(Problem::Write)?;
            let mut body = head(&plan, checkpoint)?.begin(BufWriter::new(output))?;
            for weight in marked() {
                // the parts lie one after the other, and each has all matrices
                let mut all: [Vec<u8>; 4] = Default::default();
                for index in 0..weight.count() {
                    let parts = sorted(weight, index, checkpoint);
                    all.iter_mut().zip(parts).for_each(|(all, part)| all.extend(part));
                }
                for part in &all {
                    body.write(part)?;
                }
                done += bytes(weight);
                progress(done, total);
            }
            let output = body.finish()?.into_inner().map_err(|e| Problem::Write(e.into_error()))?;
            output.finish().map_err(Problem::Write)
        };
        write().map_err(|problem| refuse(problem.to_string()))
    }
}

fn head(plan: &Plan, checkpoint: &Checkpoint) -> Result<GgufWriter, Problem> {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", BUCKETS_ARCHITECTURE)?;
    writer.set(BUCKETS_MODEL, key("bucket", plan, checkpoint).as_str())?;
    for weight in plan.weights.iter().filter(|weight| weight.marked) {
        let &Weight { rows, row_len, .. } = weight;
        let mut declare = |part, dtype, shape: &[usize]| {
            let name = bucket_tensor(&weight.name, weight.first(), part);
            let of_experts = (weight.count() > 1).then_some(weight.count());
            let shape: Vec<usize> = shape.iter().copied().chain(of_experts).collect();
            writer.declare(&name, dtype, &shape)
        };
        declare(BucketPart::Codes, DType::F16, &[rows / BUCKET, row_len, BUCKET])?;
        declare(BucketPart::Means, DType::F16, &[row_len, BUCKET])?;
        declare(BucketPart::Probes, DType::F32, &[2, PROBES])?;
        declare(BucketPart::Unit, DType::F32, &[1])?;
    }
    Ok(writer)
}

/// The parts of matrix `index` of a weight, in the order of the file.
fn sorted(weight: &Weight, index: usize, checkpoint: &Checkpoint) -> [Vec<u8>; 4] {
    let (rows, cols) = (weight.rows, weight.row_len);
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
    let (mut codes, mut means) = (vec![0; words * BUCKET * cols], vec![0; BUCKET * cols]);
    let mut packed = vec![0; words * BUCKET];
    for first in (0..cols).step_by(INPUTS) {
        let inputs = first..cols.min(first + INPUTS);
        let columns = source.columns(inputs.clone(), scale);
        for (input, column) in inputs.zip(columns.chunks_exact(rows)) {
            let of_ranks = pack_buckets(column, &mut packed);
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
    [bytes(&codes), bytes(&means), probes, unit]
}
