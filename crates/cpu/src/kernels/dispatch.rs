//! From an instruction set and a format to the function compiled for both.

use pelton_quant::DType;

use super::Job;
use super::float::{self, BF16, F16, F32, Number};
use super::formats::{Iq4Nl, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::isa::Isa;
use super::portable::Portable;
use super::quantized;
use super::tile::Format;

#[cfg(target_arch = "aarch64")]
use super::neon::{DotProd, I8mm, Neon, Widening};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};

/// The functions of one instruction set: everything below is inlined into them.
trait Functions {
    unsafe fn quantized<F: Format>(job: &Job<'_>);
    unsafe fn float<E: Number>(job: &Job<'_>);
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
            unsafe fn float<E: Number>(job: &Job<'_>) {
                // SAFETY: the caller's promise.
                unsafe { float::run::<$simd, E, $vectors>(job) }
            }
        }
    };
}

functions!(PortableFunctions, Portable, 2);
#[cfg(target_arch = "x86_64")]
functions!(Avx2Functions, Avx2, 2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
functions!(Avx512Functions, Avx512<false>, 1, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");
#[cfg(target_arch = "x86_64")]
functions!(
    Avx512VnniFunctions,
    Avx512<true>,
    1,
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
);
#[cfg(target_arch = "aarch64")]
functions!(NeonFunctions, Neon<Widening>, 2, "neon");
#[cfg(target_arch = "aarch64")]
functions!(NeonDotProdFunctions, Neon<DotProd>, 2, "neon,dotprod");
#[cfg(target_arch = "aarch64")]
functions!(NeonI8mmFunctions, Neon<I8mm>, 2, "neon,i8mm");

/// Does the job.
///
/// # Safety
/// The processor has `isa`, and the job's promises hold for that type.
pub(super) unsafe fn run(isa: Isa, dtype: DType, job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => run_with::<Avx2Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => run_with::<Avx512Functions>(dtype, job),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => run_with::<Avx512VnniFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => run_with::<NeonFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDotProd => run_with::<NeonDotProdFunctions>(dtype, job),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => run_with::<NeonI8mmFunctions>(dtype, job),
            // `Portable`, and the sets of other processors.
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
        }
    }
}
