//! Products with matrices of Q8_0 in input-major order, for rows below 1.
//!
//! A code is 16 u + l, with u from -8 to 7 and l from 0 to 15. The halves of the codes of one input
//! lie side by side, each in a *line* `[outputs]`. A row multiplies of an input nothing, or the
//! upper halves, or both (`select.rs`), and reads no other line. A lower half that is not read
//! counts as its mean, 7.5. A row all of whose halves are live gets the results of
//! [`matmul`](super::matmul) bit for bit.
//!
//! `layout.rs` places lines, `repack.rs` makes them, `live.rs` compacts the inputs of a row,
//! `sweeps.rs` multiplies, `dispatch.rs` chooses an instruction set.
//!
//! A slab has the outputs of a thread, up to 2,048. An input of a row is live if its score |x|·‖W‖
//! exceeds the matrix's threshold for the row.

mod coded;
mod dispatch;
mod layout;
mod lines;
mod live;
mod repack;
mod select;
mod sweeps;
mod task;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dispatch::multiply;
pub use layout::{InputMajor, OUTPUT_ALIGN};
pub use live::{Chosen, LiveRows};
pub use task::Task;
