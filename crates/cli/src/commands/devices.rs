//! `pelton devices`: the GPUs of this machine.

use std::io::Write;

use anyhow::Result;
use pelton::gpu::{self, Adapter};
use pelton_printable as printable;
use serde_json::{Value, json};

use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write an array of objects
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let adapters = gpu::adapters();
    let mut out = output::stdout();
    if args.json {
        let rows: Vec<Value> = adapters.iter().enumerate().map(|(i, a)| object(i, a)).collect();
        writeln!(out, "{:#}", Value::from(rows))?;
        return Ok(());
    }
    if adapters.is_empty() {
        writeln!(
            out,
            "no GPU was found through Vulkan, Metal or DX12; models run on the cpu (`pelton doctor` shows why)"
        )?;
    }
    for (i, adapter) in adapters.iter().enumerate() {
        let [first, rest @ ..] = lines(adapter);
        writeln!(out, "gpu:{i}  {}", printable::line(&first))?;
        for line in rest {
            writeln!(out, "       {}", printable::line(&line))?;
        }
    }
    Ok(())
}

/// The facts about the adapter with a number.
pub(super) fn object(number: usize, adapter: &Adapter) -> Value {
    let (narrowest, widest) = adapter.subgroup_widths();
    json!({
        "device": format!("gpu:{number}"), "name": adapter.name(), "kind": adapter.kind().to_string(),
        "interface": adapter.interface(), "driver": adapter.driver(), "memory_bytes": adapter.memory(),
        "subgroup_widths": [narrowest, widest], "f16": adapter.has_f16(),
        "matrix_cores": adapter.has_matrix_cores(),
    })
}

/// The facts about an adapter: its name, its driver, its abilities.
pub(super) fn lines(adapter: &Adapter) -> [String; 3] {
    let (narrowest, widest) = adapter.subgroup_widths();
    let memory = adapter.memory().map_or_else(|| "unknown".to_owned(), output::bytes);
    let widths = match narrowest == widest {
        true => narrowest.to_string(),
        false => format!("{narrowest} to {widest}"),
    };
    let (kind, interface, driver) = (adapter.kind(), adapter.interface(), adapter.driver());
    let f16 = if adapter.has_f16() { ", f16" } else { "" };
    let cores = if adapter.has_matrix_cores() { ", matrix cores" } else { "" };
    [
        adapter.name().to_owned(),
        format!("{kind} through {interface}, driver {driver}"),
        format!("memory {memory}, subgroups of {widths}{f16}{cores}"),
    ]
}
