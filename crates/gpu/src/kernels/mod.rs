//! Kernels: WGSL templates, and a module for each op that chooses the variant for a shape.

pub(crate) mod attention;
#[cfg(test)]
pub(crate) mod cached;
pub(crate) mod copy_pages;
pub(crate) mod cores_matmul;
pub(crate) mod experts;
pub(crate) mod live_product;
pub(crate) mod matvec;
pub(crate) mod matvec_rows;
pub(crate) mod ranking;
pub(crate) mod recurrent;
pub(crate) mod rope_store;
pub(crate) mod row_ops;
pub(crate) mod sample;
pub(crate) mod scan;
pub(crate) mod sum_splits;
pub(crate) mod template;
pub(crate) mod tiled_matmul;
pub(crate) mod to_f16;
pub(crate) mod to_q8;
