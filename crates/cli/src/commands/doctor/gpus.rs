//! The GPUs, and why one is not used.

use pelton::{
    Device, Engine,
    gpu::{self, Adapter, Kind},
};

use super::{loader, report::Report};
use crate::commands::devices;

/// Adds the adapters, or why there are none.
pub(super) fn add(report: &mut Report) {
    let adapters = gpu::adapters();
    if adapters.is_empty() {
        report.line("GPUs", "none", &loader::missing());
        return;
    }
    let chosen = adapters.iter().position(|adapter| adapter.kind() != Kind::Software);
    let of = |(number, adapter): (usize, &Adapter)| {
        let reason = unused(number, adapter, chosen);
        let state = match &reason {
            Some(reason) => format!("not used: {reason}"),
            None => "used by --device auto".to_owned(),
        };
        let mut object = devices::object(number, adapter);
        object["used"] = reason.is_none().into();
        object["reason"] = reason.into();
        let mut lines: Vec<_> =
            devices::lines(adapter).map(|line| (String::new(), line)).into_iter().collect();
        lines[0].0 = format!("gpu:{number}");
        lines.push((String::new(), state));
        (lines, object)
    };
    report.list("GPUs", adapters.iter().enumerate().map(of).collect());
}

/// Why `--device auto` does not take an adapter.
fn unused(number: usize, adapter: &Adapter, chosen: Option<usize>) -> Option<String> {
    let opened = Engine::builder().device(Device::Gpu(Some(number))).build();
    match (opened, chosen) {
        (Err(error), _) => Some(format!("it cannot be opened ({error})")),
        (Ok(_), _) if adapter.kind() == Kind::Software => Some(format!(
            "it is a driver in software, slower than the CPU; --device gpu:{number} runs on it"
        )),
        (Ok(_), Some(chosen)) if chosen == number => None,
        (Ok(_), Some(chosen)) => {
            Some(format!("gpu:{chosen} comes first; --device gpu:{number} runs on it"))
        }
        (Ok(_), None) => Some(format!("--device gpu:{number} runs on it")),
    }
}
