//! Products with matrices in input-major order, for rows of an effort below 1.
//!
//! The weights of one input lie side by side: a *line* `[outputs]`. A row multiplies only the lines of its
//! live inputs (`select.rs`), and neither reads nor multiplies the others. The integers and the scales are
//! those of the file, and a row all of whose inputs are live gets the results of
//! [`matmul`](super::matmul) bit for bit, floats those of its phase.
//!
//! Rows of an effort below 1 can also leave out the lower halves of codes of eight bits alone
//! (`nested.rs`), which then lie in lines of their own.
//!
//! `layout.rs` places lines, `repack.rs` makes them, `live.rs` compacts the inputs of a row,
//! `sweeps.rs` and `columns.rs` multiply, `dispatch.rs` chooses an instruction set.
//!
//! A slab has the outputs of a thread, up to 2,048. An input of a row is live if its score |x|·‖W‖
//! exceeds the matrix's threshold for the effort.

mod coded;
mod columns;
mod dispatch;
mod layout;
mod lines;
mod live;
mod nested;
mod repack;
mod select;
mod sweeps;
mod task;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dispatch::multiply;
pub use layout::{InputMajor, OUTPUT_ALIGN, has_lines};
pub use live::{Chosen, LiveRows};
pub use select::live_inputs;
pub use task::Task;
