//! Pictures that state absurd sizes, counts and tables stay within bounds of memory and time.
//!
//! `PELTON_FUZZ_RUNS=N` makes N files in place of 3,000, from `PELTON_FUZZ_SEED` on.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/absurd.rs"]
mod absurd;
#[path = "common/exercise.rs"]
mod exercise;

use absurd::{Choices, chunk, extended, jpeg_of, lossless, png_head, riff, scan, webp_of, zeros};
use exercise::{LIMITS, exercise};
use pelton_image::{Job, Limits, Picture, decode};
use pelton_watchdog::{Budget, Counting, within};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Memory is counted over all threads: one input at a time.
fn one() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A refusal by the header takes next to nothing, whatever the size of the file.
fn refusal(bytes: &[u8], name: &str) -> String {
    let _one = one();
    let budget = Budget { bytes: 1 << 20, time: Duration::from_millis(100) };
    within(budget, name, || decode(bytes, &Job::new("it", Limits::default(), &|| false)))
        .unwrap_err()
        .to_string()
}

/// Decodes with the default limits, in the memory of a few bytes a pixel.
fn decoded(bytes: &[u8], pixels: usize, each: usize, name: &str) -> Picture {
    let _one = one();
    let budget = Budget { bytes: pixels * each + (1 << 20), time: Duration::from_secs(5) };
    within(budget, name, || decode(bytes, &Job::new("it", Limits::default(), &|| false))).unwrap()
}

#[test]
fn sizes_beyond_limits_are_refused_by_the_header() {
    for kind in [[8, 2, 0], [16, 6, 1], [1, 0, 0]] {
        let size = "has 2147483647 x 2147483647 pixels";
        let bytes = png_head(0x7fff_ffff, 0x7fff_ffff, kind);
        assert!(refusal(&bytes, "png").contains(size));
        assert!(refusal(&png_head(16_384, 16_384, kind), "png").contains("64000000 in all"));
        assert!(refusal(&png_head(4_000, 10, kind), "png").contains("200 times"));
    }
    // 64 million pixels of 16 bits would fit, interlaced files of several scans do not
    let scans = vec![scan(&[1], [0, 0, 0], &[0]); 17];
    let text = refusal(&jpeg_of(0xc2, 8_000, 8_000, [0x11; 3], &scans), "scans");
    assert!(text.contains("has 17 scans of 8000 x 8000 pixels"), "{text}");
    let text = refusal(&jpeg_of(0xc0, 65_535, 65_535, [0x11; 3], &scans), "jpeg");
    assert!(text.contains("65535 x 65535"), "{text}");
    let text = refusal(&webp_of(&[extended(0, 1 << 24, 1 << 24)]), "canvas");
    assert!(text.contains("16777216 x 16777216"), "{text}");
    let data = riff(b"VP8L", &[lossless(16_383, 16_383), vec![0; 20]].concat());
    assert!(refusal(&webp_of(std::slice::from_ref(&data)), "lossless").contains("16383 x 16383"));
    let text = refusal(&webp_of(&[extended(0, 10, 10), data.clone()]), "two sizes");
    assert!(text.contains("have 16383 x 16383 pixels: expected 10 x 10"), "{text}");
    let frame = [vec![0; 6], vec![9, 0, 0, 9, 0, 0, 1, 0, 0, 0], data].concat();
    let animation = [extended(2, 10, 10), riff(b"ANIM", &[0; 6]), riff(b"ANMF", &frame)];
    let text = refusal(&webp_of(&animation), "frame");
    assert!(text.contains("have 16383 x 16383 pixels: expected 10 x 10"), "{text}");
    let mut long = webp_of(&[extended(8, 10, 10), riff(b"EXIF", &[0; 4])]);
    let place = long.len() - 8;
    long[place..place + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let text = refusal(&long, "chunk");
    assert!(text.contains("its chunk \"EXIF\" has 4294967280 bytes, but 4 follow"), "{text}");
    let gif = [&b"GIF89a"[..], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x2c], &[0; 4], &[9, 0, 9, 0]];
    assert!(refusal(&gif.concat(), "gif").contains("65535 x 65535"));
    let gif = [&b"GIF89a"[..], &[9, 0, 9, 0, 0, 0, 0, 0x2c], &[0; 4], &[0xff; 4]].concat();
    assert!(refusal(&gif, "frame").contains("65535 x 65535 pixels at 0, 0 is not within 9 x 9"));
    let sides = [40_u32, 0x7fff_ffff, 0x8000_0000].map(u32::to_le_bytes).concat();
    let bmp = [&b"BM"[..], &[0; 12], &sides, &[1, 0, 24, 0], &[0; 24]].concat();
    assert!(refusal(&bmp, "bmp").contains("2147483647 x 2147483648"));
}

/// A decoder gives up in the middle of a picture whose colours are finer than its brightness.
#[test]
fn samples_that_no_program_writes_are_refused_by_the_header() {
    let scans = [scan(&[1, 2, 3], [0, 63, 0], &[0x55; 300])];
    let cases = [
        ([0x14, 0x21, 0x12], "component 2 of its frame has 2 x 1 samples"),
        ([0x11, 0x11, 0x12], "component 3 of its frame has 1 x 2 samples"),
        ([0x31, 0x11, 0x11], "component 1 of its frame has 3 x 1 samples"),
        ([0x22, 0x10, 0x11], "component 2 of its frame has 1 x 0 samples"),
        ([0x51, 0x11, 0x11], "component 1 of its frame has 5 x 1 samples"),
    ];
    for (sampling, expected) in cases {
        let text = refusal(&jpeg_of(0xc0, 300, 200, sampling, &scans), "samples");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn counts_beyond_limits_are_refused_by_the_header() {
    let many = vec![scan(&[1], [1, 63, 0], &[0]); 1_500_000];
    let text = refusal(&jpeg_of(0xc2, 9, 9, [0x11; 3], &many), "scans");
    assert!(text.contains("has more than 4096 segments"), "{text}");
    let many = vec![scan(&[1], [1, 63, 0], &[0]); 101];
    let text = refusal(&jpeg_of(0xc2, 9, 9, [0x11; 3], &many), "scans");
    assert!(text.contains("has 101 scans of 9 x 9 pixels: expected at most 100"), "{text}");
    let long = vec![scan(&[1], [1, 63, 0], &vec![0; 19_000_000])];
    let mut bytes = jpeg_of(0xc2, 9, 9, [0x11; 3], &long);
    bytes.truncate(bytes.len() - 2);
    assert!(refusal(&bytes, "long").contains("cut off before its end marker"));
    let mut chunks = vec![extended(0, 9, 9)];
    chunks.resize(2_000_000, riff(b"JUNK", &[]));
    let text = refusal(&webp_of(&chunks), "chunks");
    assert!(text.contains("more than 100000 chunks"), "{text}");
    let gif = [&b"GIF89a"[..], &[9, 0, 9, 0, 0, 0, 0], &[0x21, 0xfe, 1, 7, 0].repeat(3_000_000)];
    assert!(refusal(&gif.concat(), "gif").contains("within its header"));
    assert!(refusal(&vec![0; 20_000_001], "bytes").contains("20000001 bytes: expected at most"));
}

#[test]
fn memory_is_what_the_header_promises() {
    let side = 1_500;
    let pixels = side * side;
    for (kind, each, values) in
        [([8, 2, 0], 7, 3), ([8, 6, 1], 7, 4), ([16, 6, 0], 11, 8), ([8, 0, 0], 7, 1)]
    {
        let head = png_head(side as u32, side as u32, kind);
        let data = chunk(b"IDAT", &zeros((side * values + 1) * side + 65_536));
        let bytes = [head, data, chunk(b"IEND", &[])].concat();
        let picture = decoded(&bytes, pixels, each, &format!("png {kind:?}"));
        assert_eq!(picture.width() as usize, side);
    }
    for (name, each) in
        [("great_lossless.webp", 11), ("great_lossy.webp", 11), ("great_alpha.webp", 15)]
    {
        let file = format!("{}/tests/fixtures/pictures/{name}", env!("CARGO_MANIFEST_DIR"));
        decoded(&std::fs::read(file).unwrap(), pixels, each, name);
    }
    // a second scan keeps all coefficients, and a block of both takes a bit
    let blocks = side.div_ceil(8).pow(2);
    let data = |components: usize| vec![0; (blocks * components).div_ceil(8)];
    let scans = [scan(&[1, 2, 3], [0, 0, 0], &data(3)), scan(&[1], [1, 63, 0], &data(1))];
    let bytes = jpeg_of(0xc2, side as u16, side as u16, [0x11; 3], &scans);
    decoded(&bytes, pixels, 13, "progressive");
}

#[test]
fn profiles_and_texts_are_not_unpacked_beyond_a_bound() {
    let bomb = chunk(b"iCCP", &[&b"name\0\0"[..], &zeros(1 << 30)].concat());
    let text = chunk(b"zTXt", &[&b"name\0\0"[..], &zeros(1 << 30)].concat());
    let data = chunk(b"IDAT", &zeros(4 * 9));
    let bytes = [png_head(9, 1, [8, 2, 0]), bomb, text, data, chunk(b"IEND", &[])].concat();
    let _one = one();
    let budget = Budget { bytes: 96 << 20, time: Duration::from_millis(1_500) };
    let job = Job::new("it", Limits::default(), &|| false);
    let result = within(budget, "profile", || decode(&bytes, &job));
    if let Err(error) = result {
        assert!(error.to_string().contains("its decoder says"), "{error}");
    }
}

#[test]
fn random_headers_stay_within_bounds() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let runs = number("PELTON_FUZZ_RUNS").unwrap_or(3_000);
    let seed = number("PELTON_FUZZ_SEED").unwrap_or(1);
    let budget =
        Budget { bytes: LIMITS.memory as usize + (64 << 20), time: Duration::from_millis(1_500) };
    let mut pictures = 0;
    for seed in seed..seed + runs {
        let mut random = fastrand::Rng::with_seed(seed);
        let choices: Vec<u8> = (0..random.usize(..4_000)).map(|_| random.u8(..)).collect();
        let bytes = absurd::file(&mut Choices(&choices));
        let _one = one();
        let is_picture = within(budget, &format!("the file of seed {seed}"), || exercise(&bytes));
        pictures += u64::from(is_picture);
    }
    println!("{runs} files, {pictures} pictures");
    assert!(runs < 1_000 || pictures > runs / 20, "{pictures} of {runs} are pictures");
}
