//! Ids of element types in GGUF files (`enum ggml_type` in ggml.h).

use pelton_quant::DType;

/// The id of a type in a file.
pub(super) fn dtype_id(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q4_1 => 3,
        DType::Q5_0 => 6,
        DType::Q5_1 => 7,
        DType::Q8_0 => 8,
        DType::Q2_K => 10,
        DType::Q3_K => 11,
        DType::Q4_K => 12,
        DType::Q5_K => 13,
        DType::Q6_K => 14,
        DType::IQ2_XXS => 16,
        DType::IQ2_XS => 17,
        DType::IQ3_XXS => 18,
        DType::IQ1_S => 19,
        DType::IQ4_NL => 20,
        DType::IQ3_S => 21,
        DType::IQ2_S => 22,
        DType::IQ4_XS => 23,
        DType::IQ1_M => 29,
        DType::BF16 => 30,
        DType::TQ1_0 => 34,
        DType::TQ2_0 => 35,
        DType::MXFP4 => 39,
        DType::NVFP4 => 40,
        DType::Q1_0 => 41,
        DType::Q2_0 => 42,
    }
}

/// The type with this id, or its name for an error message.
pub(crate) fn dtype_of_id(id: u32) -> Result<DType, String> {
    DType::ALL.into_iter().find(|dtype| dtype_id(*dtype) == id).ok_or_else(
        || match unsupported_name(id) {
            Some(name) => name.to_owned(),
            None => format!("id {id}"),
        },
    )
}

/// Names of ggml's types that have no decoder here.
fn unsupported_name(id: u32) -> Option<&'static str> {
    Some(match id {
        4 => "Q4_2 (removed from GGUF)",
        5 => "Q4_3 (removed from GGUF)",
        9 => "Q8_1",
        15 => "Q8_K",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        31 => "Q4_0_4_4 (removed from GGUF)",
        32 => "Q4_0_4_8 (removed from GGUF)",
        33 => "Q4_0_8_8 (removed from GGUF)",
        36 => "IQ4_NL_4_4 (removed from GGUF)",
        37 => "IQ4_NL_4_8 (removed from GGUF)",
        38 => "IQ4_NL_8_8 (removed from GGUF)",
        _ => return None,
    })
}

/// List of the supported types for an error message.
pub(crate) fn supported() -> String {
    DType::ALL.map(DType::name).join(", ")
}
