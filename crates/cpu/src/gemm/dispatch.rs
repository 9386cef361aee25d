//! Selects the function that is compiled for an instruction set and a format.

use std::ops::Range;

use pelton_quant::DType;

use super::activations::{ActivationKind, Activations};
use super::float::{self, BF16, Element, F16, F32};
use super::formats::{
    Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4, Q2K, Q3K, Q4_0,
    Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Tq1_0, Tq2_0,
};
use super::job::{Job, MatrixRef, Output, Picked};
use super::quantized;
use super::tile::Format;
use crate::isa::{InstructionSet, Isa};
#[cfg(target_arch = "aarch64")]
use crate::simd::NeonPair;
use crate::simd::Portable8;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Ymm, Zmm};

#[cfg(target_arch = "aarch64")]
use super::neon::{DotProd, I8mm, Widening};

/// The functions of one instruction set, into which all kernels are inlined.
trait Functions {
    unsafe fn quantized<F: Format>(job: &Job<'_>);
    unsafe fn float<E: Element>(job: &Job<'_>);
}

/// `$vectors` vectors of `$simd` make 16 lanes.
macro_rules! functions {
    ($name:ident, $simd:ty, $vectors:literal $(, $features:literal)?) => {
        struct $name;

        impl Functions for $name {
            $(#[target_feature(enable = $features)])?
            unsafe fn quantized<F: Format>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { quantized::run::<$simd, F>(job) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn float<E: Element>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { float::run::<$simd, E, $vectors>(job) }
            }
        }
    };
}

functions!(PortableFunctions, Portable8, 2);
#[cfg(target_arch = "x86_64")]
functions!(Avx2Functions, Ymm, 2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
functions!(Avx512Functions, Zmm<false>, 1, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");
#[cfg(target_arch = "x86_64")]
functions!(
    Avx512VnniFunctions,
    Zmm<true>,
    1,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
);
#[cfg(target_arch = "aarch64")]
functions!(NeonFunctions, NeonPair<Widening>, 2, "neon");
#[cfg(target_arch = "aarch64")]
functions!(NeonDotProdFunctions, NeonPair<DotProd>, 2, "neon,dotprod");
#[cfg(target_arch = "aarch64")]
functions!(NeonI8mmFunctions, NeonPair<I8mm>, 2, "neon,i8mm");

/// Multiplies the first `batch` rows of activations with the rows `rows` of the matrix.
///
/// The activations must have been prepared in the form [`ActivationKind::of`] the matrix's type,
/// with as many columns as the matrix has. The results of a row of activations with an infinity or
/// a NaN are not finite.
///
/// # Safety
/// During the call no other thread writes these activations, nor accesses the results of `rows`.
///
/// # Panics
/// If the activations are of the wrong kind or have room for fewer than `batch` rows, `rows` reaches
/// beyond the matrix, or the output is too short.
pub unsafe fn matmul(
    isa: Isa,
    matrix: &MatrixRef<'_>,
    activations: &Activations,
    batch: usize,
    rows: Range<usize>,
    output: &Output<'_>,
) {
    // SAFETY: the caller's promise.
    unsafe { multiply(isa, matrix, activations, batch, None, rows, output) }
}

/// As [`matmul`], with picked rows of activations, the results of which go to picked rows of the
/// destination.
///
/// # Safety
/// As for [`matmul`].
///
/// # Panics
/// As [`matmul`], and if there are not as many results as activation rows.
pub unsafe fn matmul_picked(
    isa: Isa,
    matrix: &MatrixRef<'_>,
    activations: &Activations,
    picked: Picked<'_>,
    rows: Range<usize>,
    output: &Output<'_>,
) {
    let batch = picked.inputs.len();
    // SAFETY: the caller's promise.
    unsafe { multiply(isa, matrix, activations, batch, Some(picked), rows, output) }
}

/// [`matmul`] or [`matmul_picked`].
///
/// # Safety
/// As for these.
unsafe fn multiply(
    isa: Isa,
    matrix: &MatrixRef<'_>,
    activations: &Activations,
    batch: usize,
    picked: Option<Picked<'_>>,
    rows: Range<usize>,
    output: &Output<'_>,
) {
    assert!(rows.end <= matrix.rows(), "rows beyond the matrix");
    assert!(batch <= 1 || output.stride >= matrix.rows(), "results of different rows overlap");
    assert!(output.bias.is_none_or(|bias| bias.len() == matrix.rows()), "bias of another length");
    if rows.is_empty() || batch == 0 {
        return;
    }
    let kind = ActivationKind::of(matrix.dtype());
    assert_eq!(activations.kind(), kind, "activations of the wrong kind");
    let most = match picked {
        None => batch,
        Some(picked) => {
            assert_eq!(picked.inputs.len(), picked.outputs.len(), "results of another number");
            picked.inputs.iter().map(|&row| row as usize + 1).max().unwrap_or(0)
        }
    };
    assert!(activations.has_room(most, matrix.cols()), "more than the activations have room for");
    let job = Job {
        weights: matrix.bytes().as_ptr(),
        matrix_rows: matrix.rows(),
        row_bytes: matrix.bytes().len() / matrix.rows(),
        cols: matrix.cols(),
        row_blocks: Activations::units(1, matrix.cols()),
        chunk_stride: activations.chunk_stride(),
        blocks: activations.blocks(),
        floats: activations.floats(),
        batch,
        picked,
        rows,
        output: *output,
    };
    // SAFETY: the instructions exist, the promises of `Job` are checked above or in
    // `MatrixRef::new`, or the caller's.
    unsafe { run(isa, matrix.dtype(), &job) }
}

/// Computes a job.
///
/// # Safety
/// The job's promises hold for that type.
unsafe fn run(isa: Isa, dtype: DType, job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match isa.set() {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => run_with::<Avx2Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => run_with::<Avx512Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Vnni => run_with::<Avx512VnniFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => run_with::<NeonFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::NeonDotProd => run_with::<NeonDotProdFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::NeonI8mm => run_with::<NeonI8mmFunctions>(dtype, job),
            // `Portable`, and the sets of other architectures.
            _ => run_with::<PortableFunctions>(dtype, job),
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn run_with<T: Functions>(dtype: DType, job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F32 => T::float::<F32>(job),
            DType::F16 => T::float::<F16>(job),
            DType::BF16 => T::float::<BF16>(job),
            DType::Q4_0 => T::quantized::<Q4_0>(job),
            DType::Q4_1 => T::quantized::<Q4_1>(job),
            DType::Q5_0 => T::quantized::<Q5_0>(job),
            DType::Q5_1 => T::quantized::<Q5_1>(job),
            DType::Q8_0 => T::quantized::<Q8_0>(job),
            DType::Q2_K => T::quantized::<Q2K>(job),
            DType::Q3_K => T::quantized::<Q3K>(job),
            DType::Q4_K => T::quantized::<Q4K>(job),
            DType::Q5_K => T::quantized::<Q5K>(job),
            DType::Q6_K => T::quantized::<Q6K>(job),
            DType::IQ4_NL => T::quantized::<Iq4Nl>(job),
            DType::IQ4_XS => T::quantized::<Iq4Xs>(job),
            DType::MXFP4 => T::quantized::<Mxfp4>(job),
            DType::IQ3_S => T::quantized::<Iq3S>(job),
            DType::IQ3_XXS => T::quantized::<Iq3Xxs>(job),
            DType::IQ2_S => T::quantized::<Iq2S>(job),
            DType::IQ2_XS => T::quantized::<Iq2Xs>(job),
            DType::IQ2_XXS => T::quantized::<Iq2Xxs>(job),
            DType::IQ1_S => T::quantized::<Iq1S>(job),
            DType::IQ1_M => T::quantized::<Iq1M>(job),
            DType::TQ1_0 => T::quantized::<Tq1_0>(job),
            DType::TQ2_0 => T::quantized::<Tq2_0>(job),
            DType::NVFP4 => T::quantized::<Nvfp4>(job),
        }
    }
}
