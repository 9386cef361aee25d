//! Products with weights that are sorted within buckets of 16 outputs (bucketMul). A row
//! multiplies only the weights whose product with its inputs is expected to exceed a cutoff.
//!
//! [`Buckets`] keeps a matrix in tiles of 256 outputs. [`Selections`] estimates for a row the
//! product above which a fraction of all weights is, from products with fixed weights, and has the
//! ranks of each input above it. No step depends on the number of threads.

mod float;
mod multiply;
mod pack;
mod select;
#[cfg(test)]
mod tests;
mod tile;

pub use multiply::multiply;
pub use pack::{BUCKET_OUTPUTS, BucketParts, Buckets};
pub use select::Selections;
