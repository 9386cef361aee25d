//! `pelton devices`: the GPUs of this machine.

use std::io::{Write, stdout};

use anyhow::Result;
use pelton::gpu;
use serde_json::json;

use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write an array of objects
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let adapters = gpu::adapters();
    let mut out = stdout().lock();
    if args.json {
        let rows: Vec<_> = adapters
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let (narrowest, widest) = a.subgroup_widths();
                json!({
                    "device": format!("gpu:{i}"), "name": a.name(), "kind": a.kind().to_string(),
                    "interface": a.interface(), "driver": a.driver(), "memory_bytes": a.memory(),
                    "subgroup_widths": [narrowest, widest], "f16": a.has_f16(),
                    "matrix_cores": a.has_matrix_cores(),
                })
            })
            .collect();
        writeln!(out, "{:#}", serde_json::Value::from(rows))?;
        return Ok(());
    }
    if adapters.is_empty() {
        writeln!(out, "no GPU was found through Vulkan, Metal or DX12; models run on the cpu")?;
    }
    for (i, a) in adapters.iter().enumerate() {
        let (narrowest, widest) = a.subgroup_widths();
        writeln!(out, "gpu:{i}  {}", a.name())?;
        writeln!(out, "       {} through {}, driver {}", a.kind(), a.interface(), a.driver())?;
        let memory = a.memory().map_or_else(|| "unknown".to_owned(), output::bytes);
        let widths = match narrowest == widest {
            true => narrowest.to_string(),
            false => format!("{narrowest} to {widest}"),
        };
        writeln!(
            out,
            "       memory {memory}, subgroups of {widths}{}{}",
            if a.has_f16() { ", f16" } else { "" },
            if a.has_matrix_cores() { ", matrix cores" } else { "" },
        )?;
    }
    Ok(())
}
