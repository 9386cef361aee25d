//! The program, the CPU and the memory.

use std::{collections::BTreeSet, env, fs, thread};

use pelton::cpu::gemm::{Panels, ROW_ALIGN, can_pack};
use pelton::cpu::{SystemMemory, isa::Isa, read_bandwidth};
use pelton::weights::DType;
use serde_json::{Value, json};

use super::report::Row;
use crate::output;

/// The version and the features of this build.
pub(super) fn program() -> Vec<Row> {
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{} {}", env::consts::ARCH, env::consts::OS);
    let features: Vec<&str> = if cfg!(feature = "gpu") { vec!["gpu"] } else { Vec::new() };
    let build = if cfg!(debug_assertions) { "debug, which is slow" } else { "release" };
    let named = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    vec![
        Row::new("version", "version", version, version),
        Row::new("built for", "target", &*target, &*target),
        Row::new("build", "build", build, if cfg!(debug_assertions) { "debug" } else { "release" }),
        Row::new("features", "features", named, features),
    ]
}

/// The CPU, its instruction sets and its cores.
pub(super) fn cpu() -> Vec<Row> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = field(&info, "model name").next();
    let sets: Vec<String> = Isa::available().map(|isa| isa.to_string()).collect();
    let used = Isa::chosen().map_or_else(|error| error, |isa| isa.to_string());
    let asked = env::var("PELTON_ISA").ok();
    let used_text = match &asked {
        Some(asked) => format!("{used} (PELTON_ISA={asked})"),
        None => used.clone(),
    };
    let may_use = thread::available_parallelism().map_or(1, usize::from);
    let all = field(&info, "processor").count().max(may_use);
    let cores = cores(&info);
    let threads = pelton::default_threads();
    let mut text = format!("{may_use} hardware threads");
    if let Some(cores) = cores {
        text = format!("{cores} cores, {text}");
    }
    if all > may_use {
        text = format!("{text}; {all} are there, affinity or a control group leaves {may_use}");
    }
    vec![
        Row::new("name", "name", name.unwrap_or("unknown"), name),
        Row::new("instruction sets", "instruction_sets", sets.join(", "), sets),
        Row::new("used", "used", used_text, used),
        weights_row(),
        Row::new("cores", "cores", text, cores),
        Row::new("threads", "threads", format!("{threads} without --threads"), threads),
        Row::new("hardware threads", "hardware_threads", may_use.to_string(), may_use),
    ]
}

/// The order in which the kernels of the instruction set read weights.
fn weights_row() -> Row {
    let panels = Isa::chosen().ok().and_then(Panels::of);
    let packs = |dtype: &DType| panels.is_some_and(|panels| can_pack(*dtype, ROW_ALIGN, panels));
    let packed: Vec<String> =
        DType::ALL.iter().filter(|dtype| packs(dtype)).map(|dtype| dtype.to_string()).collect();
    let rows = panels.map(Panels::rows);
    let text = match rows {
        Some(rows) => {
            format!("in panels of {rows} rows for {}; else as in the file", packed.join(", "))
        }
        None => "as in the file".to_owned(),
    };
    Row::new("weights", "weights", text, json!({ "panel_rows": rows, "packed": packed }))
}

/// The memory, its limits and its speed.
pub(super) fn memory() -> Vec<Row> {
    let memory = SystemMemory::read();
    let shown = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), output::bytes);
    let limit = memory.limit.map_or_else(|| "none".to_owned(), output::bytes);
    let threads = pelton::default_threads();
    let rate = read_bandwidth(threads, memory.available);
    let speed = rate.map_or_else(
        || "not measured: too little memory is free".to_owned(),
        |rate| format!("{:.1} GB/s read by {threads} threads", rate / 1e9),
    );
    vec![
        Row::new("total", "total_bytes", shown(memory.total), memory.total),
        Row::new("free", "free_bytes", shown(memory.available), memory.available),
        Row::new("control group", "control_group_limit_bytes", limit, memory.limit),
        Row::new("bandwidth", "bandwidth_bytes_per_second", speed, rate.map(f64::round)),
    ]
}

/// The values of a field of `/proc/cpuinfo`, for each hardware thread.
fn field<'a>(info: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    info.lines().filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

/// The physical cores that `/proc/cpuinfo` of x86 lists.
fn cores(info: &str) -> Option<usize> {
    let of = |thread: &'_ str| {
        let id = |name| field(thread, name).next().map(str::to_owned);
        Some((id("physical id")?, id("core id")?))
    };
    let distinct: BTreeSet<_> = info.split("\n\n").filter_map(of).collect();
    Some(distinct.len()).filter(|&count| count > 0)
}

/// Whether a variable of the environment is set, without its value.
pub(super) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// A finding that is a yes or a no.
pub(super) fn yes(name: &'static str, key: &'static str, is_so: bool) -> Row {
    Row::new(name, key, if is_so { "yes" } else { "no" }, Value::from(is_so))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of `/proc/cpuinfo` on x86 (`proc_cpuinfo(5)`): two cores with two threads each.
    #[test]
    fn hardware_threads_share_cores() {
        let thread = |n: usize, core: usize| {
            format!(
                "processor\t: {n}\nmodel name\t: A CPU\nphysical id\t: 0\ncore id\t\t: {core}\n"
            )
        };
        let info: Vec<String> = (0..4).map(|n| thread(n, n % 2)).collect();
        let info = info.join("\n");
        assert_eq!(cores(&info), Some(2));
        assert_eq!(field(&info, "processor").count(), 4);
        assert_eq!(field(&info, "model name").next(), Some("A CPU"));
        assert_eq!(cores("processor : 0\nBogoMIPS : 50\n"), None);
    }
}
