//! The forms of activations.

use pelton_quant::DType;

use crate::{device::Capabilities, lower::dispatch::RowClass, weights::Matrix};

/// Elements of a row from which two to four rows are quantized once, not in each workgroup:
/// measured with rows of 4,096 and more.
const LONG: usize = 4096;

/// The form in which a product takes its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// As they are: the product quantizes or copies them itself.
    F32,
    /// In 8 bits, once for all products of several rows.
    Q8,
    /// In 16 bits, for matrix cores.
    F16,
    /// In f32 after the norm, for tiles of weights in floats.
    Normed,
}

impl Operand {
    /// The form for a matrix and rows of a class.
    pub(super) fn of(matrix: &Matrix, class: RowClass, capabilities: &Capabilities) -> Self {
        match class {
            // weights in f32 would lose 16 bits on matrix cores
            RowClass::Prompt | RowClass::Many | RowClass::ThirtyTwo
                if capabilities.matrix_cores && matrix.layout.dtype != DType::F32 =>
            {
                Self::F16
            }
            RowClass::Two | RowClass::Four if matrix.layout.blocks() && matrix.row_len >= LONG => {
                Self::Q8
            }
            RowClass::One | RowClass::Two | RowClass::Four => Self::F32,
            _ if matrix.layout.blocks() => Self::Q8,
            RowClass::Prompt if !capabilities.matrix_cores => Self::Normed,
            _ => Self::F32,
        }
    }
}
