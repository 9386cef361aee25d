//! The test that every kernel is valid and translates to SPIR-V, MSL and HLSL, which needs no GPU.

use std::{path::Path, process::Command};

use naga::{
    back::{hlsl, msl, spv},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};

use pelton_testing::{Need, skip};

use crate::device::KernelSource;

/// The kernels of all modules, with labels.
fn sources() -> Vec<(String, KernelSource)> {
    [
        crate::kernels::attention::sources(),
        crate::kernels::experts::sources(),
        crate::kernels::recurrent::sources(),
        crate::kernels::scan::sources(),
        crate::kernels::matvec::sources(),
        crate::kernels::cores_matmul::sources(),
        crate::kernels::live_product::sources(),
        crate::kernels::matvec_rows::sources(),
        crate::kernels::tiled_matmul::sources(),
        crate::kernels::to_q8::sources(),
        crate::kernels::to_f16::sources(),
        crate::run::clock_keeper::sources(),
        crate::run::bandwidth::sources(),
        crate::kernels::rope_store::sources(),
        crate::kernels::copy_pages::sources(),
        crate::kernels::ranking::sources(),
        crate::kernels::sample::sources(),
        crate::kernels::row_ops::sources(),
        crate::kernels::sum_splits::sources(),
    ]
    .concat()
}

/// Only kernels for matrix cores may use 16-bit floats, which not every GPU has.
fn valid(label: &str, source: &str) -> (naga::Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|e| panic!("{label}: {}", e.emit_to_string(source)));
    let mut capabilities = Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if persistent(source) {
        capabilities |= Capabilities::MEMORY_DECORATION_COHERENT;
    }
    if for_matrix_cores(source) {
        capabilities |= Capabilities::SHADER_FLOAT16
            | Capabilities::COOPERATIVE_MATRIX
            | Capabilities::SUBGROUP_BARRIER;
    }
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|e| panic!("{label}: {}", e.emit_to_string(source)));
    (module, info)
}

/// Persistent kernels exchange data between workgroups, which is off on Metal.
fn persistent(source: &str) -> bool {
    source.contains("@coherent")
}

fn for_matrix_cores(source: &str) -> bool {
    source.contains("enable wgpu_cooperative_matrix")
}

/// As wgpu sets them without run-time checks.
const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

#[test]
fn every_kernel_translates() {
    for (label, source) in sources() {
        translate(&label, source.text());
    }
}

/// Translates a kernel to every language whose GPUs can run it.
pub(crate) fn translate(label: &str, source: &str) {
    let (module, info) = valid(label, source);
    let apple = source.contains("coop_mat8x8");
    let matrix_cores = for_matrix_cores(source);

    // only Apple has 8×8 matrix cores
    if !apple {
        let options = spv::Options {
            lang_version: (1, 4),
            bounds_check_policies: UNCHECKED,
            ..Default::default()
        };
        spv::write_vec(&module, &info, &options, None)
            .unwrap_or_else(|e| panic!("{label} to SPIR-V: {e}"));
    }

    // Apple has no 16×16 matrix cores
    if apple || !(matrix_cores || persistent(source)) {
        let options = msl::Options {
            lang_version: (2, 4),
            fake_missing_bindings: true,
            ..Default::default()
        };
        msl::write_string(&module, &info, &options, &Default::default())
            .unwrap_or_else(|e| panic!("{label} to MSL: {e}"));
    }

    // naga writes no matrix cores in HLSL
    if !matrix_cores {
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_0,
            fake_missing_bindings: true,
            ..Default::default()
        };
        hlsl::Writer::new(&mut String::new(), &options, &Default::default())
            .write(&module, &info, None)
            .unwrap_or_else(|e| panic!("{label} to HLSL: {e}"));
    }
}

/// The compiler of a browser takes every kernel that a browser can run: it checks more than naga
/// does. Left out are the kernels of matrix cores and persistent ones.
#[test]
fn every_kernel_compiles_in_a_browser() {
    const BROWSERS: [&str; 3] =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = root.join("tests/browser");
    let browser = BROWSERS.into_iter().find(|path| Path::new(path).exists());
    let (Some(browser), true) = (browser, packages.join("node_modules/playwright-core").exists())
    else {
        skip(Need::Capability, "there is no Chromium, or no playwright-core");
        return;
    };
    let kernels: Vec<_> = sources()
        .into_iter()
        .filter(|(_, source)| !for_matrix_cores(source.text()) && !persistent(source.text()))
        .map(|(label, source)| serde_json::json!({ "label": label, "text": source.text() }))
        .collect();
    assert!(kernels.len() > 2000, "{} kernels", kernels.len());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernels.json");
    let all = serde_json::json!({
        "prelude": crate::device::BROWSER_PRELUDE,
        "packages": packages,
        "kernels": kernels,
    });
    std::fs::write(&file, all.to_string()).unwrap();
    let script = packages.join("kernels.mjs");
    let output = Command::new("node").arg(script).arg(&file).arg(browser).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all kernels compile"), "{text}");
}
