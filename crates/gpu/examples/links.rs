//! Measures what bounds a model in the memory of a GPU and of the CPU: the CPU's memory, the link
//! between both, and a round trip.
//!
//! usage: links [GPU]
//!
//! GPU is a number of `pelton devices`, 0 by default.

use std::{process::ExitCode, thread};

use pelton_cpu::read_bandwidth;
use pelton_gpu::{
    adapters,
    microbench::links::{Links, Waiting},
};
use pelton_graph::Error;

/// Bytes of a transfer: a layer's feed-forward network of 8 billion parameters has as many in 4
/// bits.
const BYTES: usize = 128 << 20;
/// Bytes of a row of 4,096 values.
const ROW: usize = 16 << 10;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let all = thread::available_parallelism().map_or(1, |n| n.get());
    let counts: Vec<usize> = [1, 2, 4, 8, 16, 32].into_iter().filter(|n| *n <= all).collect();
    for &threads in &counts {
        if let Some(rate) = read_bandwidth(threads, None) {
            println!("the CPU's memory, {threads} threads read: {:.1} GB/s", rate / 1e9);
        }
    }
    let number = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let Some(adapter) = adapters().into_iter().nth(number) else {
        return Err(Error::Device { device: format!("gpu:{number}"), what: "not found".into() });
    };
    println!("{}", adapter.name());
    let links = Links::open(&adapter)?;
    for &threads in &counts {
        let up = links.up(BYTES, threads)?;
        println!(
            "up, {threads} threads: the CPU fills the mapped buffer at {:.1} GB/s, the GPU copies it at {:.1} GB/s",
            up.host / 1e9,
            up.gpu / 1e9
        );
    }
    let down = links.down(BYTES)?;
    println!(
        "down: the GPU copies at {:.1} GB/s, the CPU reads at {:.1} GB/s",
        down.gpu / 1e9,
        down.host / 1e9
    );
    for rows in [1, 16] {
        for (waiting, name) in [(Waiting::Sleep, "asleep"), (Waiting::Spin, "spinning")] {
            let seconds = links.round_trip(rows * ROW, waiting)?;
            println!("round trip of {rows} rows of 4,096 values, {name}: {:.1} µs", seconds * 1e6);
        }
    }
    Ok(())
}
