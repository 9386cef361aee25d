//! The rates of the CPU: reads of memory by all threads, and the regions of a pool.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use memmap2::MmapMut;
use pelton_graph::{Error, Rates};

use crate::{
    memory::available,
    pool::{Pool, span},
};

/// Bytes that all threads read together: more than caches hold.
const BYTES: u64 = 1 << 30;
/// The least bytes of a measurement.
const LEAST: u64 = 64 << 20;
/// The share of the free memory that a measurement takes.
const SHARE: u64 = 4;
/// The time of a measurement.
const TIME: Duration = Duration::from_millis(700);
/// Regions, of whose times the first decile counts: disturbances are longer.
const REGIONS: usize = 1001;

/// Bytes a second that `threads` threads read together from memory in large pages, as copies of
/// weights are; `None` where too little of it is `available`, or threads cannot be started.
pub fn read_bandwidth(threads: usize, available: Option<u64>) -> Option<f64> {
    read_pages(threads, available, true)
}

/// As [`read_bandwidth`], in `large` pages or in those of the system, as the map of a file has
/// them.
fn read_pages(threads: usize, available: Option<u64>, large: bool) -> Option<f64> {
    let bytes = available.map_or(BYTES, |available| available / SHARE).min(BYTES);
    if bytes < LEAST {
        return None;
    }
    let mut memory = MmapMut::map_anon(usize::try_from(bytes).ok()?).ok()?;
    #[cfg(target_os = "linux")]
    if large {
        // a system without large pages refuses
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = large;
    // each page becomes memory of its own
    memory.fill(1);
    let pool = Pool::new(threads).ok()?;
    Some(pool_bandwidth(&pool, &memory, TIME))
}

/// Bytes a second that the threads of a pool read together in about `time`. Each reads one
/// stream or eight, whichever is faster: the prefetchers of some CPUs need several streams,
/// others a single one.
pub fn pool_bandwidth(pool: &Pool, memory: &[u8], time: Duration) -> f64 {
    f64::max(read::<1>(pool, memory, time / 2), read::<8>(pool, memory, time / 2))
}

/// Bytes per second that the threads read together, each from this many streams. They share the
/// parts of what they read, as products do.
fn read<const STREAMS: usize>(pool: &Pool, memory: &[u8], time: Duration) -> f64 {
    const PART: usize = 32 << 20;
    const LINE: usize = 64;
    let unit = STREAMS * LINE;
    let (parts, _) = memory.as_chunks::<PART>();
    let (mut bytes, begun) = (0, Instant::now());
    for part in parts.iter().cycle().take_while(|_| begun.elapsed() < time) {
        pool.run(|worker| {
            let parts = worker.parts(PART / unit, PART);
            worker.share(parts, |of| {
                let (lines, _) = part[span(PART, unit, &of, parts)].as_chunks::<LINE>();
                let each = lines.len() / STREAMS;
                let mut sums = [0_u64; LINE / 8];
                for i in 0..each {
                    for stream in 0..STREAMS {
                        let (words, _) = lines[stream * each + i].as_chunks();
                        for (sum, word) in sums.iter_mut().zip(words) {
                            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
                        }
                    }
                }
                black_box(sums);
            });
        });
        bytes += PART;
    }
    bytes as f64 / begun.elapsed().as_secs_f64()
}

/// The rates of so many threads, over weights in large pages or in the map of their file.
///
/// # Errors
///
/// [`Error::Device`] if too little memory is free, [`Error::Threads`] if the system
/// refuses to start one.
pub(crate) fn measure(threads: usize, large: bool) -> Result<Rates, Error> {
    let Some(read) = read_pages(threads, available(), large) else {
        let what =
            "too little memory is free to measure its speed, expected 256 MiB or more".into();
        return Err(Error::Device { device: "cpu".to_owned(), what });
    };
    let pool = Pool::new(threads).map_err(|error| Error::Threads { threads, error })?;
    let mut regions: Vec<f64> = (0..REGIONS)
        .map(|_| {
            let begun = Instant::now();
            pool.run(|_| {});
            begun.elapsed().as_secs_f64()
        })
        .collect();
    regions.sort_by(f64::total_cmp);
    Ok(Rates { step: regions[REGIONS / 10], ..Rates::reading(read) })
}

/// The CPU's name, its threads, and whether weights are in large pages.
pub(crate) fn key(threads: usize, large: bool) -> String {
    let named = |info: String| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(named);
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let pages = if large { "" } else { ", weights in the map of their file" };
    format!("cpu {name}, threads: {threads}{pages}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_left_alone() {
        assert_eq!(read_bandwidth(2, Some(LEAST)), None);
        // slower than any machine: a disk reads so
        assert!(read_bandwidth(1, Some(LEAST * SHARE)).unwrap() > 1e7);
    }
}
