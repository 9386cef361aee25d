//! The encoder's table of positions, which is a formula.

use bytes::Bytes;
use pelton_quant::DType;

use super::sizes::ARCHITECTURE;
use crate::Metadata;
use crate::gguf::TensorEntry;

const TABLE: &str = "encoder.positional_embedding";

/// The greatest number of values that are computed: four times those of the largest model.
const MOST: usize = 1 << 23;

/// Adds the encoder's positions to the tensors of a file without them.
pub(crate) fn complete(metadata: &Metadata, tensors: &mut Vec<TensorEntry>) {
    if metadata.string("general.architecture").ok() != Some(ARCHITECTURE)
        || tensors.iter().any(|tensor| tensor.name == TABLE)
    {
        return;
    }
    let size = |key: &str| metadata.usize(&format!("{ARCHITECTURE}.encoder.{key}")).ok();
    // A file whose keys are missing or invalid is rejected by the reader of its keys.
    let sizes = size("context_length").zip(size("embedding_length"));
    if let Some((context, width)) = sizes {
        tensors.extend(sinusoids(context, width));
    }
}

/// The table `[context, width]` in F32: row `t` has `sin(t · r)` and then `cos(t · r)`, where the
/// rates `r` fall from 1 to 1/10,000 in a geometric sequence. `None` for a width that is odd or
/// below 4, and for more values than any model has.
pub(crate) fn sinusoids(context: usize, width: usize) -> Option<TensorEntry> {
    let half = width / 2;
    let fits = context.checked_mul(width).is_some_and(|values| (1..=MOST).contains(&values));
    if half < 2 || !width.is_multiple_of(2) || !fits {
        return None;
    }
    // Rates and angles are rounded to f32, as those of the stored tables were.
    let step = (10_000f64.ln() / (half - 1) as f64) as f32;
    let rates: Vec<f32> = (0..half).map(|i| f64::from(-step * i as f32).exp() as f32).collect();
    let mut bytes = Vec::with_capacity(context * width * 4);
    for t in 0..context {
        for function in [f64::sin, f64::cos] {
            for rate in &rates {
                let value = function(f64::from(t as f32 * rate)) as f32;
                bytes.extend(value.to_le_bytes());
            }
        }
    }
    TensorEntry::new(TABLE.to_owned(), DType::F32, &[width, context], Bytes::from(bytes))
}
