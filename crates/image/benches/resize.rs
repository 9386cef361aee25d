//! The speed of a resize, in nanoseconds an output pixel on one core.
//!
//! ```console
//! $ cargo bench -p pelton-image --bench resize
//! ```
//!
//! Where `PELTON_PYTHON` or `python3` has Pillow, its time of the same resize is printed too.

#![allow(clippy::unwrap_used, reason = "a measurement ends by it")]
#![allow(missing_docs, reason = "a program")]

use pelton_image::{Filter, Job, Limits, Picture, resize};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const RUNS: usize = 15;

const PILLOW: &str = "
import os, sys, time
from PIL import Image
width, height, wide, high, runs = map(int, sys.argv[1:6])
picture = Image.frombytes('RGB', (width, height), os.urandom(width * height * 3))
times = []
for _ in range(runs):
    start = time.perf_counter()
    picture.resize((wide, high), Image.Resampling[sys.argv[6]])
    times.append(time.perf_counter() - start)
print(min(times))
";

fn main() {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let mut random = fastrand::Rng::with_seed(1);
    for (from, to, name, filter) in [
        ((1_092, 1_932), (896, 896), "BICUBIC", Filter::Bicubic),
        ((1_092, 1_932), (896, 896), "BILINEAR", Filter::Bilinear),
        ((4_000, 3_000), (1_536, 1_152), "LANCZOS", Filter::Lanczos),
        ((320, 240), (896, 896), "BICUBIC", Filter::Bicubic),
    ] {
        let bytes = (0..from.0 * from.1 * 3).map(|_| random.u8(..)).collect();
        let picture = Picture::new(from.0, from.1, bytes).unwrap();
        let mut best = f64::MAX;
        for _ in 0..RUNS {
            let start = Instant::now();
            let job = Job::new("noise", Limits::default(), &|| false);
            black_box(resize(&picture, to.0, to.1, filter, &job).unwrap());
            best = best.min(start.elapsed().as_secs_f64());
        }
        let arguments = [from.0, from.1, to.0, to.1, RUNS as u32].map(|number| number.to_string());
        let pillow = Command::new(&python).args(["-c", PILLOW]).args(arguments).arg(name).output();
        let pillow = pillow.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        let pillow = pillow.and_then(|text| text.trim().parse::<f64>().ok());
        let pixels = f64::from(to.0 * to.1);
        let report = |seconds: f64| {
            format!("{:.2} ms, {:.2} ns a pixel", seconds * 1e3, seconds * 1e9 / pixels)
        };
        println!(
            "{from:?} to {to:?}, {name}: {}; Pillow: {}",
            report(best),
            pillow.map_or_else(|| "not installed".to_owned(), report)
        );
    }
}
