//! The WGSL templates: one file for each op, and included files for block formats and common
//! functions.
//!
//! Templates unroll loops and write shapes as constants, because not every driver unrolls the loops
//! that the translators of WGSL write.
//!
//! minijinja's `include` joins a file for the op with those for the formats (blocks, codebooks,
//! floats), and its loops unroll them. The tools for WGSL modules import and compile conditionally
//! (`naga_oil` 0.23 on naga 30; `wesl` 0.4) but do not unroll. Bindings, register arrays and the
//! shape of a reduction also follow from the format and the GPU.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, Value, context, syntax::SyntaxConfig};
use pelton_graph::{Error, Gating};
use pelton_quant::{DType, FP4_LEVELS, IQ4_NL_LEVELS};

use crate::{device::KernelSource, weights::Layout};

/// Every WGSL file, by its path in `kernels/`.
const FILES: &[(&str, &str)] = &[
    ("activation.wgsl", include_str!("activation.wgsl")),
    ("add_table.wgsl", include_str!("add_table.wgsl")),
    ("gating.wgsl", include_str!("gating.wgsl")),
    ("pooling.wgsl", include_str!("pooling.wgsl")),
    ("sum.wgsl", include_str!("sum.wgsl")),
    ("attend_cores.wgsl", include_str!("attend_cores.wgsl")),
    ("attend_decode.wgsl", include_str!("attend_decode.wgsl")),
    ("attend_prompt.wgsl", include_str!("attend_prompt.wgsl")),
    ("copy_pages.wgsl", include_str!("copy_pages.wgsl")),
    ("ranking_merge.wgsl", include_str!("ranking_merge.wgsl")),
    ("ranking_order.wgsl", include_str!("ranking_order.wgsl")),
    ("ranking_parts.wgsl", include_str!("ranking_parts.wgsl")),
    ("spin.wgsl", include_str!("spin.wgsl")),
    ("bandwidth.wgsl", include_str!("bandwidth.wgsl")),
    ("cache.wgsl", include_str!("cache.wgsl")),
    ("elementwise.wgsl", include_str!("elementwise.wgsl")),
    ("experts.wgsl", include_str!("experts.wgsl")),
    ("live_product.wgsl", include_str!("live_product.wgsl")),
    ("live_sums.wgsl", include_str!("live_sums.wgsl")),
    ("rows_below.wgsl", include_str!("rows_below.wgsl")),
    ("route.wgsl", include_str!("route.wgsl")),
    ("sort_experts.wgsl", include_str!("sort_experts.wgsl")),
    ("delta_layout.wgsl", include_str!("delta_layout.wgsl")),
    ("delta_operands.wgsl", include_str!("delta_operands.wgsl")),
    ("gated_delta.wgsl", include_str!("gated_delta.wgsl")),
    ("scan_steps.wgsl", include_str!("scan_steps.wgsl")),
    ("selective_scan.wgsl", include_str!("selective_scan.wgsl")),
    ("softplus.wgsl", include_str!("softplus.wgsl")),
    ("short_conv.wgsl", include_str!("short_conv.wgsl")),
    ("embed.wgsl", include_str!("embed.wgsl")),
    ("formats/blocks.wgsl", include_str!("formats/blocks.wgsl")),
    ("formats/codebooks.wgsl", include_str!("formats/codebooks.wgsl")),
    ("formats/floats.wgsl", include_str!("formats/floats.wgsl")),
    ("formats/halves.wgsl", include_str!("formats/halves.wgsl")),
    ("formats/values.wgsl", include_str!("formats/values.wgsl")),
    ("half_range.wgsl", include_str!("half_range.wgsl")),
    ("heads.wgsl", include_str!("heads.wgsl")),
    ("lanes.wgsl", include_str!("lanes.wgsl")),
    ("matvec.wgsl", include_str!("matvec.wgsl")),
    ("kv_splits.wgsl", include_str!("kv_splits.wgsl")),
    ("cores_matmul.wgsl", include_str!("cores_matmul.wgsl")),
    ("block_products.wgsl", include_str!("block_products.wgsl")),
    ("matvec_rows.wgsl", include_str!("matvec_rows.wgsl")),
    ("q8_codes.wgsl", include_str!("q8_codes.wgsl")),
    ("quantize.wgsl", include_str!("quantize.wgsl")),
    ("squares.wgsl", include_str!("squares.wgsl")),
    ("tiled_matmul.wgsl", include_str!("tiled_matmul.wgsl")),
    ("to_q8.wgsl", include_str!("to_q8.wgsl")),
    ("merge.wgsl", include_str!("merge.wgsl")),
    ("norm.wgsl", include_str!("norm.wgsl")),
    ("block_codes.wgsl", include_str!("block_codes.wgsl")),
    ("encode_blocks.wgsl", include_str!("encode_blocks.wgsl")),
    ("half_bits.wgsl", include_str!("half_bits.wgsl")),
    ("store_block.wgsl", include_str!("store_block.wgsl")),
    ("store_q8.wgsl", include_str!("store_q8.wgsl")),
    ("store.wgsl", include_str!("store.wgsl")),
    ("sum_splits.wgsl", include_str!("sum_splits.wgsl")),
    ("to_f16.wgsl", include_str!("to_f16.wgsl")),
    ("persistent.wgsl", include_str!("persistent.wgsl")),
    ("grid_probe.wgsl", include_str!("grid_probe.wgsl")),
    ("attention_products.wgsl", include_str!("attention_products.wgsl")),
    ("rms.wgsl", include_str!("rms.wgsl")),
    ("rope_store.wgsl", include_str!("rope_store.wgsl")),
    ("sample/adjust.wgsl", include_str!("sample/adjust.wgsl")),
    ("sample/argmax.wgsl", include_str!("sample/argmax.wgsl")),
    ("sample/best.wgsl", include_str!("sample/best.wgsl")),
    ("sample/count.wgsl", include_str!("sample/count.wgsl")),
    ("sample/cut.wgsl", include_str!("sample/cut.wgsl")),
    ("sample/drawn.wgsl", include_str!("sample/drawn.wgsl")),
    ("sample/enough.wgsl", include_str!("sample/enough.wgsl")),
    ("sample/few.wgsl", include_str!("sample/few.wgsl")),
    ("sample/float.wgsl", include_str!("sample/float.wgsl")),
    ("sample/kernel.wgsl", include_str!("sample/kernel.wgsl")),
    ("sample/key.wgsl", include_str!("sample/key.wgsl")),
    ("sample/likeliest.wgsl", include_str!("sample/likeliest.wgsl")),
    ("sample/log_sum.wgsl", include_str!("sample/log_sum.wgsl")),
    ("sample/logits.wgsl", include_str!("sample/logits.wgsl")),
    ("sample/many.wgsl", include_str!("sample/many.wgsl")),
    ("sample/maxima.wgsl", include_str!("sample/maxima.wgsl")),
    ("sample/noise.wgsl", include_str!("sample/noise.wgsl")),
    ("sample/numbers.wgsl", include_str!("sample/numbers.wgsl")),
    ("sample/params.wgsl", include_str!("sample/params.wgsl")),
    ("sample/pick.wgsl", include_str!("sample/pick.wgsl")),
    ("sample/record.wgsl", include_str!("sample/record.wgsl")),
    ("sample/resolve.wgsl", include_str!("sample/resolve.wgsl")),
    ("sample/state.wgsl", include_str!("sample/state.wgsl")),
    ("sample/sum64.wgsl", include_str!("sample/sum64.wgsl")),
    ("sample/top.wgsl", include_str!("sample/top.wgsl")),
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_syntax(syntax());
    for (name, text) in FILES {
        // a file that does not parse is missing, which is an error when it is rendered
        let _ = environment.add_template(name, text);
    }
    environment
});

/// Lines that have only tags leave no empty lines in the output.
fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default()
}

/// The WGSL of the kernel file `name` with the values of `parameters`.
pub(crate) fn render(name: &str, parameters: Value) -> Result<KernelSource, Error> {
    let failed = |error: minijinja::Error| Error::Kernel {
        kernel: name.to_owned(),
        what: format!("{error:#}"),
    };
    let text = TEMPLATES.get_template(name).and_then(|t| t.render(parameters));
    text.map(|text| KernelSource::new(&text)).map_err(failed)
}

/// An f32 literal of WGSL.
pub(crate) fn float(value: f32) -> String {
    // the shortest digits of the greatest number are above it
    match value.abs() == f32::MAX {
        true => format!("{:?}f", f64::from(value)),
        false => format!("{value:?}f"),
    }
}

/// The parameters of `gating.wgsl`.
pub(crate) fn gating(gating: &Gating) -> Value {
    match *gating {
        Gating::Product(activation) => {
            context! { clamped => false, activation => activation.name() }
        }
        Gating::Clamped { alpha, limit } => {
            context! { clamped => true, alpha => float(alpha), limit => float(limit) }
        }
    }
}

/// The parameters of the files in `formats/`.
pub(crate) fn format(layout: &Layout) -> Value {
    let dtype = layout.dtype;
    // stored codes are unsigned: code = value + zero
    let zero = match dtype {
        DType::Q4_0 => 8,
        DType::Q5_0 => 16,
        DType::Q3_K => 4,
        DType::Q6_K => 32,
        DType::IQ1_S | DType::IQ1_M => 16,
        DType::TQ1_0 | DType::TQ2_0 | DType::Q2_0 | DType::Q1_0 => 1,
        _ => 0,
    };
    let scales = match (layout.sub, layout.d) {
        (0, 2) if dtype == DType::NVFP4 => "e4m3",
        (0, 2) if layout.d_units > 1 => "super_alone",
        (0, 1) => "power",
        (0, 2) => "block",
        (0, _) => "block_min",
        (1, _) => "super_signed",
        _ => "super",
    };
    let levels = match dtype {
        DType::IQ4_NL | DType::IQ4_XS => words(&IQ4_NL_LEVELS),
        DType::MXFP4 | DType::NVFP4 => words(&FP4_LEVELS),
        _ => Vec::new(),
    };
    // units whose scales are in one word of `d`, as a power of two
    let d_shift = (4 * layout.d_units / layout.d.max(1)).max(1).ilog2();
    context! {
        format => dtype.name(),
        family => if layout.blocks() { "formats/blocks.wgsl" } else { "formats/floats.wgsl" },
        blocks => layout.blocks(),
        unit => layout.unit,
        low_bits => layout.low / 4,
        low_type => match layout.low {
            4 => "u32",
            8 => "vec2<u32>",
            _ => "vec4<u32>",
        },
        high_bits => layout.high / 4,
        high_bytes => layout.high,
        // bytes of an entry of the codebook
        entry => layout.codebook().map_or(0, |codebook| codebook.entry),
        scales => scales,
        levels => levels,
        sub_bytes => layout.sub,
        d_shift => d_shift,
        zero => zero,
        has_min => matches!(dtype, DType::Q4_1 | DType::Q5_1 | DType::Q2_K | DType::Q4_K | DType::Q5_K),
        split => matches!(
            dtype,
            DType::Q2_K | DType::Q3_K | DType::Q6_K | DType::IQ2_S | DType::IQ2_XS | DType::IQ1_M | DType::NVFP4
        ),
        joined => layout.joined,
        // the suffix of its names in WGSL, and whether this use declares them
        kind => "",
        defines => true,
    }
}

/// The matrices of a kernel with several: the parameters of each one's format, the suffix of its
/// names, and whether it is the first of its format.
pub(crate) fn matrices(layouts: &[Layout]) -> Vec<Value> {
    let matrix = |(i, layout): (usize, &Layout)| {
        let first = layouts.iter().position(|other| other == layout).unwrap_or(i);
        let kind = if first == 0 { String::new() } else { first.to_string() };
        context! { kind, defines => first == i, of => format(layout) }
    };
    layouts.iter().enumerate().map(matrix).collect()
}

/// Sixteen signed bytes as four words, in WGSL.
fn words(levels: &[i8; 16]) -> Vec<String> {
    let words = levels.as_chunks().0.iter();
    words.map(|word| format!("{:#010x}", u32::from_le_bytes(word.map(|l| l as u8)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses() {
        for (name, text) in FILES {
            let mut environment = Environment::new();
            environment.set_syntax(syntax());
            environment.add_template(name, text).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        }
    }
}
