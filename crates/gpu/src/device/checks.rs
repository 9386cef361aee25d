//! How the tests run kernels.

use std::ffi::OsStr;

/// The environment variable of [`Checks::of_environment`].
const VARIABLE: &str = "PELTON_TEST_GPU";

/// The differences between tests and production, where nothing is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    /// Kernels check every index, and workgroup memory begins with zeros.
    pub(crate) indices: bool,
    /// Workgroup memory begins with NaN.
    pub(crate) poison: bool,
    /// A kernel binds at most as many buffers as WebGPU guarantees.
    pub(crate) few_buffers: bool,
}

impl Checks {
    /// The storage buffers of a stage that WebGPU guarantees.
    pub(crate) const FEW_BUFFERS: u32 = 8;

    /// Checked indices, unless the environment variable `PELTON_TEST_GPU` lists other words:
    /// `unchecked`, `poisoned` and `few-buffers`, separated by commas.
    ///
    /// # Errors
    /// If it has any other word.
    pub(crate) fn of_environment() -> Result<Self, String> {
        Self::of(std::env::var_os(VARIABLE).as_deref())
    }

    fn of(value: Option<&OsStr>) -> Result<Self, String> {
        let mut checks = Self { indices: true, ..Self::default() };
        let value = value.map(OsStr::to_string_lossy).unwrap_or_default();
        for word in value.split(',').filter(|word| !word.is_empty()) {
            match word {
                "unchecked" => checks.indices = false,
                "poisoned" => checks.poison = true,
                "few-buffers" => checks.few_buffers = true,
                _ => {
                    return Err(format!(
                        "{VARIABLE} has '{word}', expected unchecked, poisoned or few-buffers"
                    ));
                }
            }
        }
        Ok(checks)
    }
}

/// A kernel that first fills its workgroup memory: floats with NaN, integers with the bits of one.
/// Variables of a struct stay as they are.
pub(super) fn poisoned(source: &str) -> String {
    let aliases: Vec<(&str, &str)> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("alias ")?.strip_suffix(';')?.split_once(" = "))
        .collect();
    let fills: String = source
        .lines()
        .filter_map(|line| {
            let (name, of) =
                line.trim().strip_prefix("var<workgroup> ")?.strip_suffix(';')?.split_once(": ")?;
            match of.strip_prefix("array<").and_then(|of| of.strip_suffix('>')?.rsplit_once(", ")) {
                Some((element, len)) => {
                    let fill = fill(&format!("{name}[poison_i]"), element, &aliases)?;
                    let each = "for (var poison_i = poison_begin; poison_i < u32(";
                    Some(format!("{each}{len}); poison_i += POISON_THREADS) {{ {fill} }}\n"))
                }
                None => {
                    Some(format!("if (poison_begin == 0u) {{ {} }}\n", fill(name, of, &aliases)?))
                }
            }
        })
        .collect();
    let threads = source.split_once("@workgroup_size(").and_then(|(_, rest)| rest.split_once(')'));
    let main = source.find("fn main(").map(|at| at + "fn main(".len());
    let body = main.and_then(|at| Some(at + source[at..].find(") {")? + ") {".len()));
    let (Some((threads, _)), Some(main), Some(body)) = (threads, main, body) else {
        return source.to_owned();
    };
    if fills.is_empty() {
        return source.to_owned();
    }
    const INDEX: &str = "@builtin(local_invocation_index) ";
    let parameters = &source[main..body];
    let index = parameters.split_once(INDEX).and_then(|(_, rest)| rest.split_once(':'));
    let (first, index) = match index {
        Some((index, _)) => (String::new(), index),
        None => (format!("{INDEX}poison_at: u32, "), "poison_at"),
    };
    let threads: Vec<String> = threads.split(',').map(|n| format!("u32({})", n.trim())).collect();
    format!(
        "{}{first}{parameters}\nlet poison_begin = {index};\nlet poison = 0x7fc00000u | (poison_begin & \
         0u);\n{fills}workgroupBarrier();\n{}\nconst POISON_THREADS = {};\n",
        &source[..main],
        &source[body..],
        threads.join(" * ")
    )
}

/// The statement that fills a place of a type; `None` for a struct.
fn fill(place: &str, of: &str, aliases: &[(&str, &str)]) -> Option<String> {
    if let Some(of) = of.strip_prefix("atomic<").and_then(|of| of.strip_suffix('>')) {
        return Some(format!("atomicStore(&{place}, {of}(poison));"));
    }
    Some(format!("{place} = {};", value(of, aliases)?))
}

fn value(of: &str, aliases: &[(&str, &str)]) -> Option<String> {
    if let Some((_, of)) = aliases.iter().find(|(name, _)| *name == of) {
        return value(of, aliases);
    }
    match of {
        "f32" => Some("bitcast<f32>(poison)".to_owned()),
        "f16" => Some("f16(bitcast<f32>(poison))".to_owned()),
        "u32" | "i32" => Some(format!("{of}(poison)")),
        _ => {
            let element = of.strip_prefix("vec")?.split_once('<')?.1.strip_suffix('>')?;
            Some(format!("{of}({})", value(element, aliases)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adapters,
        device::{Device, KernelSource},
        testing::compiled,
    };
    use pelton_testing::{Need, skip};

    #[test]
    fn modes_by_name() {
        let of = |value: &str| Checks::of(Some(OsStr::new(value)));
        let checked = Checks { indices: true, ..Checks::default() };
        assert_eq!((Checks::of(None), of("")), (Ok(checked), Ok(checked)));
        assert_eq!(of("few-buffers"), Ok(Checks { few_buffers: true, ..checked }));
        assert_eq!(of("unchecked,poisoned"), Ok(Checks { poison: true, ..Checks::default() }));
        assert!(of("checked").is_err());
    }

    /// Memory that a kernel has not written reads as NaN.
    #[test]
    fn unwritten_memory_is_seen() {
        let Some(adapter) = adapters().into_iter().next() else {
            skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
            return;
        };
        let checks = Checks { poison: true, ..Checks::default() };
        let device = Device::open(&adapter, checks).unwrap();
        let source = "
            alias Two = vec2<f32>;
            var<storage, read_write> y: array<u32>;
            var<workgroup> a: array<f32, 100>;
            var<workgroup> b: array<Two, 3>;
            var<workgroup> c: array<atomic<i32>, 9>;
            var<workgroup> d: u32;
            @compute @workgroup_size(8, 4)
            fn main(@builtin(workgroup_id) group: vec3<u32>) {
                y[0] = bitcast<u32>(a[99]);
                y[1] = bitcast<u32>(b[2].y);
                y[2] = u32(atomicLoad(&c[8]));
                y[3] = d;
            }";
        let kernel = compiled(&device, &KernelSource::new(source));
        let y = device.with(&[0u32; 4]);
        device.run(&kernel, &[&y], [1, 1, 1]);
        assert_eq!(device.content::<u32>(&y), [0x7fc0_0000; 4]);
    }
}
