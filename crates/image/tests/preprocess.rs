//! Preprocessing, compared with transformers: `tests/fixtures/make_preprocess.py`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

#[path = "common/noise.rs"]
mod noise;

use noise::{digest, noise};
use pelton_image::{Bounds, ImageError, Job, Limits, Picture, Preprocessor, Tower};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/preprocess")
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// The models, the towers of their files, and the two last columns of `sizes.tsv`.
fn models() -> Vec<(String, Tower, usize, String)> {
    let table = text("sizes.tsv");
    let model = |line: &str| {
        let [name, patch, merge, count, digest] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let tower = Tower { patch: patch.parse().unwrap(), merge: merge.parse().unwrap() };
        (name.to_owned(), tower, count.parse().unwrap(), digest.to_owned())
    };
    let models: Vec<_> = table.lines().map(model).collect();
    assert!(models.len() > 10);
    models
}

fn preprocessor(name: &str, tower: Tower) -> Preprocessor {
    let file = format!("{name}.json");
    Preprocessor::from_json(&file, &text(&file), tower).unwrap_or_else(|error| panic!("{error}"))
}

/// The sizes of a picture, as the script writes them.
fn line(
    preprocessor: &Preprocessor,
    name: &str,
    width: u32,
    height: u32,
    bounds: Bounds,
) -> String {
    let Ok(plan) = preprocessor.plan(width, height, bounds, "it") else {
        return format!("{width}\t{height}\trefused\n");
    };
    let last = plan.views.last().unwrap().size;
    let (rows, columns) = plan.tiles;
    let is_cut = rows > 0 && !name.starts_with("gemma");
    let base = plan.base.last().filter(|_| is_cut).map_or((0, 0), |size| (size.width, size.height));
    format!(
        "{width}\t{height}\t{}\t{}\t{}\t{rows}\t{columns}\t{}\t{}\t{}\n",
        plan.views.len(),
        last.width,
        last.height,
        base.0,
        base.1,
        plan.tokens()
    )
}

#[test]
fn sizes_are_those_of_transformers() {
    for (name, tower, ..) in models() {
        let preprocessor = preprocessor(&name, tower);
        for expected in text(&format!("{name}.sizes.tsv")).lines() {
            let [width, height] =
                [0, 1].map(|i| expected.split('\t').nth(i).unwrap().parse().unwrap());
            let found = line(&preprocessor, &name, width, height, Bounds::default());
            assert_eq!(found.trim_end(), expected, "{name}");
        }
    }
}

#[test]
fn sizes_of_all_lengths_are_those_of_transformers() {
    for (name, tower, count, expected) in models() {
        let preprocessor = preprocessor(&name, tower);
        let (mut sum, mut state, mut lines) = (Sha256::new(), 1_u64, 0);
        for width in 1..=4_096 {
            for shift in [52, 54, 57] {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let height = ((state >> shift) % 4_096) as u32 + 1;
                for (width, height) in [(width, height), (height, width)] {
                    sum.update(line(&preprocessor, &name, width, height, Bounds::default()));
                    lines += 1;
                }
            }
        }
        let found: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((lines, found), (count, expected), "{name}");
    }
}

/// Bounds of embeddings are limits of transformers' processors: the nearest that a family has.
#[test]
fn bounded_sizes_are_those_of_transformers() {
    let models = models();
    let table = text("bounds.tsv");
    let (mut smaller, mut larger) = (0, 0);
    for expected in table.lines() {
        let [name, least, most, sizes] =
            expected.splitn(4, '\t').collect::<Vec<_>>().try_into().unwrap();
        let (_, tower, ..) = models.iter().find(|(model, ..)| model == name).unwrap();
        let preprocessor = preprocessor(name, *tower);
        let [width, height] = [0, 1].map(|i| sizes.split('\t').nth(i).unwrap().parse().unwrap());
        let bounds = Bounds { least: least.parse().unwrap(), most: most.parse().unwrap() };
        let found = line(&preprocessor, name, width, height, bounds);
        assert_eq!(found.trim_end(), sizes, "{expected}");
        let tokens = |bounds| preprocessor.plan(width, height, bounds, "it").map(|it| it.tokens());
        if let (Ok(own), Ok(bounded)) = (tokens(Bounds::default()), tokens(bounds)) {
            smaller += usize::from(bounded < own);
            larger += usize::from(bounded > own);
        }
    }
    assert!(table.lines().count() > 1_000 && smaller > 100 && larger > 50, "{smaller} {larger}");
}

/// The plan of a picture in its family's own bounds.
fn own_plan(preprocessor: &Preprocessor, picture: &Picture) -> pelton_image::Plan {
    preprocessor.plan(picture.width(), picture.height(), Bounds::default(), "it").unwrap()
}

/// A plan for another size is an error, or its parts exist in this picture too.
#[test]
fn plans_of_other_sizes_are_no_panic() {
    let mut refused = 0;
    for (name, tower, ..) in models() {
        let preprocessor = preprocessor(&name, tower);
        let job = Job::new("it", Limits::default(), &|| false);
        for (width, height) in [(2_000, 300), (40, 900), (640, 480)] {
            let plan = own_plan(&preprocessor, &noise(width, height));
            refused += usize::from(preprocessor.prepare(&noise(30, 20), &plan, &job).is_err());
        }
    }
    assert!(refused > 0);
}

#[test]
fn patches_are_those_of_transformers() {
    let models = models();
    let table = text("pixels.tsv");
    assert!(table.lines().count() > 60);
    for expected in table.lines() {
        let [name, width, height, rows, sum] =
            expected.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (_, tower, ..) = models.iter().find(|(model, ..)| model == name).unwrap();
        let preprocessor = preprocessor(name, *tower);
        let picture = noise(width.parse().unwrap(), height.parse().unwrap());
        let job = Job::new("it", Limits::default(), &|| false);
        let plan = own_plan(&preprocessor, &picture);
        let prepared = preprocessor.prepare(&picture, &plan, &job).unwrap();
        let count = prepared.pixels.len() / prepared.width;
        assert_eq!(count.to_string(), rows, "{expected}");
        let patches: usize = prepared.grids.iter().map(pelton_image::Grid::patches).sum();
        assert_eq!(patches, count, "{expected}");
        let bytes: Vec<u8> = prepared.pixels.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(digest(&bytes), sum, "{expected}");
    }
}

#[test]
fn a_grid_lists_its_patches_in_blocks() {
    let tower = Tower { patch: 14, merge: 2 };
    let plan = preprocessor("qwen2.5-vl", tower).plan(84, 56, Bounds::default(), "it").unwrap();
    let grid = plan.grids()[0];
    assert_eq!((grid.rows, grid.columns, grid.merge, plan.tokens()), (4, 6, 2, 6));
    let places: Vec<_> = grid.places().collect();
    assert_eq!(places[..6], [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]);
    assert_eq!(places[23], (3, 5));
}

#[test]
fn settings_are_read_strictly() {
    let tower = Tower { patch: 14, merge: 2 };
    let settings = text("qwen2.5-vl.json");
    for (from, to, expected) in [
        ("\"min_pixels\": 3136", "\"x\": 1", "it has no field min_pixels"),
        ("\"min_pixels\": 3136", "\"min_pixels\": -1", "min_pixels is -1: expected a whole number"),
        ("\"min_pixels\": 3136", "\"min_pixels\": 99999999", "expected a whole number of 1 to"),
        ("\"min_pixels\": 3136", "\"min_pixels\": 16777216", "it has 16777216 pixels at least"),
        (
            "\"merge_size\": 2",
            "\"merge_size\": 2, \"tint\": 1",
            "tint is 1, which is not supported",
        ),
        ("\"merge_size\": 2", "\"merge_size\": 4", "merge_size is 4: expected 2"),
        ("\"merge_size\": 2", "\"merge_size\": 2, \"do_resize\": false", "do_resize is false"),
        ("\"merge_size\": 2", "\"merge_size\": 2, \"resample\": 0", "resample is 0: expected 1"),
        ("\"merge_size\": 2", "\"merge_size\": 2, \"do_center_crop\": true", "not supported"),
        ("Qwen2VLImageProcessor", "ViTImageProcessor", "\"ViTImageProcessor\" is not supported"),
        ("image_processor_type", "auto_map", "it has no field image_processor_type"),
        ("image_mean", "disable_grouping", "it has no field image_mean"),
        ("0.26862954", "0.0", "image_std has 0"),
        ("0.26862954", "1e-50", "make -inf of a byte"),
        ("{", "[", "expected"),
    ] {
        assert!(settings.contains(from), "{from}");
        let changed = settings.replacen(from, to, 1);
        let error = Preprocessor::from_json("p.json", &changed, tower).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ImageError::Settings { .. }));
        assert!(text.starts_with("p.json cannot be used: ") && text.contains(expected), "{text}");
    }
    let none = Tower { patch: 0, merge: 2 };
    assert!(Preprocessor::from_json("p.json", &settings, none).is_err());
    let nested = format!("{}1{}", "[".repeat(9_999), "]".repeat(9_999));
    assert!(Preprocessor::from_json("p.json", &nested, tower).is_err());
}

#[test]
fn a_result_beyond_the_limit_is_refused() {
    let preprocessor = preprocessor("qwen2.5-vl", Tower { patch: 14, merge: 2 });
    let limits = Limits { memory: 100_000, ..Limits::default() };
    let picture = noise(200, 100);
    let plan = own_plan(&preprocessor, &picture);
    let error = preprocessor.prepare(&picture, &plan, &Job::new("it", limits, &|| false));
    let text = error.unwrap_err().to_string();
    assert!(text.contains("bytes of patches: expected at most 100000"), "{text}");
}
