//! Kernels are assembled from small WGSL files, one for each op and one for each block format.
//!
//! The files are templates: loops are unrolled and shapes become constants before a driver sees
//! them, because not every driver unrolls loops that WGSL's translators write.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, Value, context, syntax::SyntaxConfig};
use pelton_graph::Error;
use pelton_quant::DType;

use crate::repack::Layout;

/// Every file of `kernels/`, by its path there.
const FILES: &[(&str, &str)] = &[
    ("attend.wgsl", include_str!("kernels/attend.wgsl")),
    ("attend_many.wgsl", include_str!("kernels/attend_many.wgsl")),
    ("bandwidth.wgsl", include_str!("kernels/bandwidth.wgsl")),
    ("cache.wgsl", include_str!("kernels/cache.wgsl")),
    ("elementwise.wgsl", include_str!("kernels/elementwise.wgsl")),
    ("embed.wgsl", include_str!("kernels/embed.wgsl")),
    ("formats/blocks.wgsl", include_str!("kernels/formats/blocks.wgsl")),
    ("formats/floats.wgsl", include_str!("kernels/formats/floats.wgsl")),
    ("formats/halves.wgsl", include_str!("kernels/formats/halves.wgsl")),
    ("formats/values.wgsl", include_str!("kernels/formats/values.wgsl")),
    ("heads.wgsl", include_str!("kernels/heads.wgsl")),
    ("linear.wgsl", include_str!("kernels/linear.wgsl")),
    ("matmul.wgsl", include_str!("kernels/matmul.wgsl")),
    ("merge.wgsl", include_str!("kernels/merge.wgsl")),
    ("norm.wgsl", include_str!("kernels/norm.wgsl")),
    ("prepare.wgsl", include_str!("kernels/prepare.wgsl")),
    ("products.wgsl", include_str!("kernels/products.wgsl")),
    ("rms.wgsl", include_str!("kernels/rms.wgsl")),
    ("rope_store.wgsl", include_str!("kernels/rope_store.wgsl")),
    ("sample/argmax.wgsl", include_str!("kernels/sample/argmax.wgsl")),
    ("sample/best.wgsl", include_str!("kernels/sample/best.wgsl")),
    ("sample/count.wgsl", include_str!("kernels/sample/count.wgsl")),
    ("sample/cut.wgsl", include_str!("kernels/sample/cut.wgsl")),
    ("sample/enough.wgsl", include_str!("kernels/sample/enough.wgsl")),
    ("sample/few.wgsl", include_str!("kernels/sample/few.wgsl")),
    ("sample/logits.wgsl", include_str!("kernels/sample/logits.wgsl")),
    ("sample/many.wgsl", include_str!("kernels/sample/many.wgsl")),
    ("sample/maxima.wgsl", include_str!("kernels/sample/maxima.wgsl")),
    ("sample/noise.wgsl", include_str!("kernels/sample/noise.wgsl")),
    ("sample/numbers.wgsl", include_str!("kernels/sample/numbers.wgsl")),
    ("sample/pick.wgsl", include_str!("kernels/sample/pick.wgsl")),
    ("sample/record.wgsl", include_str!("kernels/sample/record.wgsl")),
    ("sample/search.wgsl", include_str!("kernels/sample/search.wgsl")),
    ("sample/types.wgsl", include_str!("kernels/sample/types.wgsl")),
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_syntax(syntax());
    for (name, text) in FILES {
        // a file that does not parse is missing, and found out where it is used
        let _ = environment.add_template(name, text);
    }
    environment
});

/// Lines of tags alone leave no empty lines behind.
fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default()
}

/// The WGSL of the kernel file `name` with the values of `parameters`.
pub(crate) fn render(name: &str, parameters: Value) -> Result<String, Error> {
    let failed = |error: minijinja::Error| Error::Kernel {
        kernel: name.to_owned(),
        what: format!("{error:#}"),
    };
    TEMPLATES.get_template(name).and_then(|t| t.render(parameters)).map_err(failed)
}

/// A number as WGSL writes it.
pub(crate) fn float(value: f32) -> String {
    format!("{value:?}f")
}

/// What the files of `formats/` need to know of a format.
pub(crate) fn format(layout: &Layout) -> Value {
    let dtype = layout.dtype;
    // codes are stored without a sign
    let zero = match dtype {
        DType::Q4_0 => 8,
        DType::Q5_0 => 16,
        DType::Q3_K => 4,
        DType::Q6_K => 32,
        _ => 0,
    };
    let scales = match (layout.sub, layout.d) {
        (0, 2) => "block",
        (0, _) => "block_min",
        _ => "super",
    };
    context! {
        format => dtype.name(),
        family => if layout.blocks() { "formats/blocks.wgsl" } else { "formats/floats.wgsl" },
        blocks => layout.blocks(),
        unit => layout.unit,
        low_bits => layout.low / 4,
        high_bits => layout.high / 4,
        scales => scales,
        zero => zero,
        has_min => matches!(dtype, DType::Q4_1 | DType::Q5_1 | DType::Q2_K | DType::Q4_K | DType::Q5_K),
        split => matches!(dtype, DType::Q2_K | DType::Q3_K | DType::Q6_K),
        sections => layout.planes(1, 256).len(),
        // what tells its names from another format's, and whether they are yet to be declared
        kind => "",
        defines => true,
    }
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
