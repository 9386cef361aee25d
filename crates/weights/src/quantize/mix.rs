//! Names of mixtures of types.

use std::str::FromStr;

use pelton_quant::DType;

/// A mixture of types for a model's matrices, as llama.cpp's quantizer names and mixes them
/// (`src/llama-quant.cpp` in the llama_cpp_python 0.3.36 source package).
///
/// [`base`](Self::base) is the type of most matrices. The output layer has Q6_K in all but the
/// float types, Q8_0 and `MXFP4_MOE`. K-quants have more bits for some matrices of attention and of
/// feed-forward networks: for most in `L`, for none or few in `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, missing_docs, reason = "the field writes these names so")]
pub enum Quantize {
    F32,
    F16,
    BF16,
    Q8_0,
    Q6_K,
    Q5_K_M,
    Q5_K_S,
    Q5_1,
    Q5_0,
    Q4_K_M,
    Q4_K_S,
    Q4_1,
    Q4_0,
    IQ4_NL,
    IQ4_XS,
    /// MXFP4 for experts, Q8_0 for all other matrices.
    MXFP4_MOE,
    Q3_K_L,
    Q3_K_M,
    Q3_K_S,
    Q2_K,
    Q2_K_S,
    Q2_0,
    Q1_0,
}

/// The names, the types of most matrices, and the numbers of `enum llama_ftype` in `llama.h`.
const TABLE: [(Quantize, &str, DType, u32); 23] = [
    (Quantize::F32, "F32", DType::F32, 0),
    (Quantize::F16, "F16", DType::F16, 1),
    (Quantize::BF16, "BF16", DType::BF16, 32),
    (Quantize::Q8_0, "Q8_0", DType::Q8_0, 7),
    (Quantize::Q6_K, "Q6_K", DType::Q6_K, 18),
    (Quantize::Q5_K_M, "Q5_K_M", DType::Q5_K, 17),
    (Quantize::Q5_K_S, "Q5_K_S", DType::Q5_K, 16),
    (Quantize::Q5_1, "Q5_1", DType::Q5_1, 9),
    (Quantize::Q5_0, "Q5_0", DType::Q5_0, 8),
    (Quantize::Q4_K_M, "Q4_K_M", DType::Q4_K, 15),
    (Quantize::Q4_K_S, "Q4_K_S", DType::Q4_K, 14),
    (Quantize::Q4_1, "Q4_1", DType::Q4_1, 3),
    (Quantize::Q4_0, "Q4_0", DType::Q4_0, 2),
    (Quantize::IQ4_NL, "IQ4_NL", DType::IQ4_NL, 25),
    (Quantize::IQ4_XS, "IQ4_XS", DType::IQ4_XS, 30),
    (Quantize::MXFP4_MOE, "MXFP4_MOE", DType::MXFP4, 38),
    (Quantize::Q3_K_L, "Q3_K_L", DType::Q3_K, 13),
    (Quantize::Q3_K_M, "Q3_K_M", DType::Q3_K, 12),
    (Quantize::Q3_K_S, "Q3_K_S", DType::Q3_K, 11),
    (Quantize::Q2_K, "Q2_K", DType::Q2_K, 10),
    (Quantize::Q2_K_S, "Q2_K_S", DType::Q2_K, 21),
    (Quantize::Q2_0, "Q2_0", DType::Q2_0, 41),
    (Quantize::Q1_0, "Q1_0", DType::Q1_0, 40),
];

impl Quantize {
    /// All mixtures, those of more bits first.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(mix, ..)| *mix)
    }

    fn row(self) -> &'static (Self, &'static str, DType, u32) {
        // the table has the order of the variants, as a test checks
        &TABLE[self as usize]
    }

    /// The name, such as `Q4_K_M`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type of most matrices.
    pub fn base(self) -> DType {
        self.row().2
    }

    /// The value of `general.file_type` in GGUF files of the mixture.
    pub fn file_type(self) -> u32 {
        self.row().3
    }

    /// The mixture with this name, such as `q8_0`, in any case. `Q3_K`, `Q4_K` and `Q5_K` stand for
    /// their `M`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name.to_ascii_uppercase() {
            short if ["Q3_K", "Q4_K", "Q5_K"].contains(&short.as_str()) => short + "_M",
            name => name,
        };
        Self::all().find(|mix| mix.name() == name)
    }

    /// The mixture with this number in `enum llama_ftype`.
    pub fn from_file_type(number: u32) -> Option<Self> {
        Self::all().find(|mix| mix.file_type() == number)
    }

    /// The names of all mixtures, for an error message.
    pub fn names() -> String {
        TABLE.map(|(_, name, ..)| name).join(", ")
    }
}

impl FromStr for Quantize {
    type Err = String;

    /// Parses a name as [`from_name`](Self::from_name).
    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| format!("expected one of {}", Self::names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_variants() {
        for (i, mix) in Quantize::all().enumerate() {
            assert_eq!(mix as usize, i);
            assert_eq!(Quantize::from_name(&mix.name().to_ascii_lowercase()), Some(mix));
        }
        assert_eq!(Quantize::from_name("q4_k"), Some(Quantize::Q4_K_M));
        assert_eq!(Quantize::from_name("Q4"), None);
    }
}
