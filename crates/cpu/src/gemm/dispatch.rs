//! Selects the function that is compiled for an instruction set and a format.

use std::ops::Range;

use pelton_graph::Phase;
use pelton_quant::DType;

use super::activations::{ActivationKind, Activations};
use super::float::{self, FloatKernels};
use super::float_decode::{self, DecodeKernel, DecodeKernels};
use super::float_kernels::{self, BF16, Element, F16, F32, FloatTile};
use super::formats::{
    Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4, Q1_0, Q2_0, Q2K,
    Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Tq1_0, Tq2_0,
};
#[cfg(target_arch = "x86_64")]
use super::formats::{PackedQ2K, PackedQ3K, PackedQ4K, PackedQ5K, PackedQ6K};
use super::job::{Job, MatrixRef, Output, Picked};
use super::kernels::{self, MOST_IN_TURN, TileJob};
use super::pack::Panels;
use super::prefetch::RangePrefetch;
use super::quantized::{self, JobFn, Kernels};
#[cfg(target_arch = "x86_64")]
use super::tile::Packed;
use super::tile::{BLOCK, CHUNK, Coding, Format, Tile};
use super::vectors::{Rows, Vectors};
use crate::isa::{InstructionSet, Isa};
#[cfg(target_arch = "aarch64")]
use crate::simd::NeonPair;
use crate::simd::{Portable8, Register};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Ymm, Zmm};

#[cfg(target_arch = "aarch64")]
use super::neon::{DotProd, I8mm, Widening};

/// The functions of one instruction set, into which all kernels are inlined.
trait Functions {
    /// The vectors of quantized products.
    type Vectors: Vectors;
    /// The functions of products in f32, of a set that has no less of what these use.
    type Floats: Functions;
    /// Whether formats get kernels that unpack into registers.
    const DIRECT: bool;

    unsafe fn direct<F: Format>(job: &Job<'_>);
    unsafe fn in_turn<F: Format>(job: &Job<'_>);
    unsafe fn unpack<F: Format>(
        rows: Rows,
        chunk: Range<usize>,
        to: *mut u8,
        prefetch: &mut RangePrefetch,
    );
    unsafe fn through<C: Coding, const NR: usize, const MR: usize, const MANY: bool>(
        job: &Job<'_>,
        tile_job: &TileJob,
    );
    unsafe fn float_direct<E: Element, const NR: usize, const MR: usize>(job: &Job<'_>);
    unsafe fn float_decode<E: Element, const NR: usize, const MR: usize>(
        job: &Job<'_>,
        rows: Range<usize>,
        x: usize,
        prefetch: &mut RangePrefetch,
    );
    unsafe fn float_pack<E: Element>(rows: Rows, cols: Range<usize>, to: *mut f32);
    unsafe fn float_through<const NR: usize, const MR: usize>(job: &Job<'_>, tile: &FloatTile);
}

/// Defines the functions of an instruction set; `$direct` gives block formats kernels that unpack
/// into registers.
macro_rules! functions {
    ($name:ident, $floats:ident, $simd:ty, $direct:literal $(, $features:literal)?) => {
        struct $name;

        impl Functions for $name {
            type Vectors = $simd;
            type Floats = $floats;
            const DIRECT: bool = $direct;

            $(#[target_feature(enable = $features)])?
            unsafe fn direct<F: Format>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { kernels::direct::<$simd, F>(job) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn in_turn<F: Format>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { kernels::in_turn::<$simd, F>(job) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn unpack<F: Format>(
                rows: Rows,
                chunk: Range<usize>,
                to: *mut u8,
                prefetch: &mut RangePrefetch,
            ) {
                // SAFETY: the caller's promise.
                unsafe { kernels::unpack::<$simd, F>(rows, chunk, to, prefetch) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn through<C: Coding, const NR: usize, const MR: usize, const MANY: bool>(
                job: &Job<'_>,
                tile_job: &TileJob,
            ) {
                // SAFETY: the caller's promise.
                unsafe { kernels::through::<$simd, C, NR, MR, MANY>(job, tile_job) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn float_direct<E: Element, const NR: usize, const MR: usize>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { float_kernels::direct::<$simd, E, NR, MR>(job) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn float_decode<E: Element, const NR: usize, const MR: usize>(
                job: &Job<'_>,
                rows: Range<usize>,
                x: usize,
                prefetch: &mut RangePrefetch,
            ) {
                // SAFETY: the caller's promise.
                unsafe { float_decode::rows::<$simd, E, NR, MR>(job, rows, x, prefetch) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn float_pack<E: Element>(rows: Rows, cols: Range<usize>, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { float_kernels::pack::<$simd, E>(rows, cols, to) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn float_through<const NR: usize, const MR: usize>(
                job: &Job<'_>,
                tile: &FloatTile,
            ) {
                // SAFETY: the caller's promise.
                unsafe { float_kernels::through::<$simd, NR, MR>(job, tile) }
            }
        }
    };
}

functions!(PortableFunctions, PortableFunctions, Portable8, false);
#[cfg(target_arch = "x86_64")]
functions!(Avx2Functions, Avx2Functions, Ymm<false>, true, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
functions!(AvxVnniFunctions, Avx2Functions, Ymm<true>, true, "avx2,fma,f16c,avxvnni");
#[cfg(target_arch = "x86_64")]
functions!(
    Avx512Functions,
    Avx512Functions,
    Zmm<false>,
    true,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
);
#[cfg(target_arch = "x86_64")]
functions!(
    Avx512VnniFunctions,
    Avx512Functions,
    Zmm<true>,
    true,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
);
#[cfg(target_arch = "aarch64")]
functions!(NeonFunctions, NeonFunctions, NeonPair<Widening>, true, "neon");
#[cfg(target_arch = "aarch64")]
functions!(NeonDotProdFunctions, NeonFunctions, NeonPair<DotProd>, true, "neon,dotprod");
#[cfg(target_arch = "aarch64")]
functions!(NeonI8mmFunctions, NeonFunctions, NeonPair<I8mm>, true, "neon,i8mm");

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
/// If the activations are of the wrong kind or have room for fewer than `batch` rows, `rows`
/// reaches beyond the matrix, or the output is too short. Also if the matrix is packed in other
/// [`Panels`] than those of the instruction set.
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
    let panels = matrix.panels();
    assert!(panels.is_none() || panels == Panels::of(isa), "panels of another instruction set");
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
        packed: panels.is_some(),
        cols: matrix.cols(),
        row_blocks: Activations::units(1, matrix.cols()),
        chunk_stride: activations.chunk_stride(),
        pitch: kind.pitch(),
        blocks: activations.blocks(),
        floats: activations.floats(),
        phase: matrix.phase(activations.phase()),
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
            InstructionSet::Avx2 if job.packed => run_packed::<Avx2Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => run_with::<Avx2Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::AvxVnni if job.packed => run_packed::<AvxVnniFunctions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::AvxVnni => run_with::<AvxVnniFunctions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 if job.packed => run_packed::<Avx512Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => run_with::<Avx512Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Vnni if job.packed => {
                run_packed::<Avx512VnniFunctions>(dtype, job)
            }
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

/// Computes a job of a block format.
///
/// # Safety
/// As for [`run`].
unsafe fn blocks<T: Functions, F: Format>(job: &Job<'_>) {
    const { assert!((CHUNK * BLOCK).is_multiple_of(F::DTYPE.block_len())) };
    let kernels = const {
        let wide = <T::Vectors as Register>::LANES == 16;
        // two scales for a block leave too few registers for two panels
        let pair = wide || !<F::Coding as Coding>::HALVES;
        let panels = if pair { <T::Vectors as Vectors>::PANELS } else { 1 };
        &Kernels {
            lanes: <T::Vectors as Register>::LANES,
            tile_bytes: size_of::<Tile<T::Vectors>>(),
            chunk_bytes: CHUNK * BLOCK / F::DTYPE.block_len() * F::DTYPE.block_bytes(),
            one: if T::DIRECT && F::DIRECT { Some(T::direct::<F> as JobFn) } else { None },
            in_turn: if F::PACKED { Some(T::in_turn::<F> as JobFn) } else { None },
            // products take half the time with VNNI, loads the same
            most_in_turn: match (<T::Vectors as Vectors>::I8_ZERO.is_some(), wide) {
                (true, false) => 3,
                (true, true) => 8,
                (false, _) => MOST_IN_TURN,
            },
            unpack: T::unpack::<F>,
            // Tiles of as many sums, in integers and in f32, as fit into registers: 32 with sixteen
            // lanes, else 16 or pairs.
            most_few: if wide { 8 } else { 12 },
            few: [
                (1, T::through::<F::Coding, 1, 1, false>),
                (2, T::through::<F::Coding, 1, 2, false>),
                if wide {
                    (4, T::through::<F::Coding, 1, 4, false>)
                } else {
                    (3, T::through::<F::Coding, 1, 3, false>)
                },
                if wide {
                    (8, T::through::<F::Coding, 1, 8, false>)
                } else {
                    (4, T::through::<F::Coding, 1, 4, false>)
                },
            ],
            many: if wide {
                [T::through::<F::Coding, 1, 6, true>, T::through::<F::Coding, 2, 6, true>]
            } else if panels == 2 {
                [T::through::<F::Coding, 1, 4, true>, T::through::<F::Coding, 2, 4, true>]
            } else {
                [T::through::<F::Coding, 1, 4, true>; 2]
            },
            many_panels: panels,
            many_rows: if wide { 6 } else { 4 },
        }
    };
    // SAFETY: the caller's promise.
    unsafe { quantized::run(job, kernels) }
}

/// Computes a job of an element type.
///
/// # Safety
/// As for [`run`].
unsafe fn floats<T: Functions, E: Element>(job: &Job<'_>) {
    // As many sums as fit into registers, 32 with sixteen lanes and else 16; and with one
    // activation row as many panels as it takes that sums do not wait for each other.
    let kernels = const {
        let wide = <T::Vectors as Register>::LANES == 16;
        &FloatKernels {
            lanes: <T::Vectors as Register>::LANES,
            bytes: E::BYTES,
            direct: if wide {
                [T::float_direct::<E, 2, 1>, T::float_direct::<E, 2, 2>, T::float_direct::<E, 2, 4>]
            } else {
                [T::float_direct::<E, 4, 1>, T::float_direct::<E, 2, 2>, T::float_direct::<E, 2, 4>]
            },
            pack: T::float_pack::<E>,
            rows: if wide { [12, 4] } else { [6, 2] },
            tiles: if wide {
                [
                    [T::float_through::<1, 12>, T::float_through::<2, 12>],
                    [T::float_through::<1, 4>, T::float_through::<2, 4>],
                ]
            } else {
                [
                    [T::float_through::<1, 6>, T::float_through::<2, 6>],
                    [T::float_through::<1, 2>, T::float_through::<2, 2>],
                ]
            },
        }
    };
    let decode = const {
        &DecodeKernels {
            narrow: [
                DecodeKernel { inputs: 1, rows: 1, run: T::float_decode::<E, 1, 1> },
                DecodeKernel { inputs: 2, rows: 1, run: T::float_decode::<E, 1, 2> },
            ],
            wide: if <T::Vectors as Register>::LANES == 16 {
                [
                    DecodeKernel { inputs: 4, rows: 4, run: T::float_decode::<E, 4, 4> },
                    DecodeKernel { inputs: 2, rows: 4, run: T::float_decode::<E, 4, 2> },
                    DecodeKernel { inputs: 1, rows: 8, run: T::float_decode::<E, 8, 1> },
                ]
            } else {
                [
                    DecodeKernel { inputs: 3, rows: 2, run: T::float_decode::<E, 2, 3> },
                    DecodeKernel { inputs: 2, rows: 2, run: T::float_decode::<E, 2, 2> },
                    DecodeKernel { inputs: 1, rows: 4, run: T::float_decode::<E, 4, 1> },
                ]
            },
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        match job.phase {
            Phase::Prompt | Phase::Mixed { .. } | Phase::Encode => float::run(job, kernels),
            Phase::Decode => float_decode::run(job, decode),
        }
    }
}

/// # Safety
/// As for [`run`].
unsafe fn run_with<T: Functions>(dtype: DType, job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F32 => floats::<T::Floats, F32>(job),
            DType::F16 => floats::<T::Floats, F16>(job),
            DType::BF16 => floats::<T::Floats, BF16>(job),
            DType::Q4_0 => blocks::<T, Q4_0>(job),
            DType::Q4_1 => blocks::<T, Q4_1>(job),
            DType::Q5_0 => blocks::<T, Q5_0>(job),
            DType::Q5_1 => blocks::<T, Q5_1>(job),
            DType::Q8_0 => blocks::<T, Q8_0>(job),
            DType::Q2_K => blocks::<T, Q2K>(job),
            DType::Q3_K => blocks::<T, Q3K>(job),
            DType::Q4_K => blocks::<T, Q4K>(job),
            DType::Q5_K => blocks::<T, Q5K>(job),
            DType::Q6_K => blocks::<T, Q6K>(job),
            DType::IQ4_NL => blocks::<T, Iq4Nl>(job),
            DType::IQ4_XS => blocks::<T, Iq4Xs>(job),
            DType::MXFP4 => blocks::<T, Mxfp4>(job),
            DType::IQ3_S => blocks::<T, Iq3S>(job),
            DType::IQ3_XXS => blocks::<T, Iq3Xxs>(job),
            DType::IQ2_S => blocks::<T, Iq2S>(job),
            DType::IQ2_XS => blocks::<T, Iq2Xs>(job),
            DType::IQ2_XXS => blocks::<T, Iq2Xxs>(job),
            DType::IQ1_S => blocks::<T, Iq1S>(job),
            DType::IQ1_M => blocks::<T, Iq1M>(job),
            DType::TQ1_0 => blocks::<T, Tq1_0>(job),
            DType::TQ2_0 => blocks::<T, Tq2_0>(job),
            DType::NVFP4 => blocks::<T, Nvfp4>(job),
            DType::Q2_0 => blocks::<T, Q2_0>(job),
            DType::Q1_0 => blocks::<T, Q1_0>(job),
        }
    }
}

/// Computes a job of packed rows.
///
/// # Safety
/// As for [`run`].
#[cfg(target_arch = "x86_64")]
unsafe fn run_packed<T: Functions>(dtype: DType, job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::Q4_0 => blocks::<T, Packed<Q4_0>>(job),
            DType::Q4_1 => blocks::<T, Packed<Q4_1>>(job),
            DType::Q5_0 => blocks::<T, Packed<Q5_0>>(job),
            DType::Q5_1 => blocks::<T, Packed<Q5_1>>(job),
            DType::Q8_0 => blocks::<T, Packed<Q8_0>>(job),
            DType::Q2_K => blocks::<T, PackedQ2K>(job),
            DType::Q3_K => blocks::<T, PackedQ3K>(job),
            DType::Q4_K => blocks::<T, PackedQ4K>(job),
            DType::Q5_K => blocks::<T, PackedQ5K>(job),
            DType::Q6_K => blocks::<T, PackedQ6K>(job),
            DType::IQ4_NL => blocks::<T, Packed<Iq4Nl>>(job),
            // `can_pack` is false for all others
            _ => {}
        }
    }
}
