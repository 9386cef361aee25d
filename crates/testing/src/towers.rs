//! One test body for every backend: vision towers of `tests/fixtures/vision`, compared with what
//! transformers computes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_graph::{
    Backend, BuildOptions, Executable, Input, KvType, Limits, Pass, Phase, PictureRows, Place,
    Plan, Row, TableEdit, TowerInput, VisionTower, Want, build_tower, build_with, pages_for,
};
use pelton_weights::Checkpoint;

use crate::backend::relative_difference;
use crate::npy;

/// A tiny vision model of `tests/fixtures/vision`.
pub struct Model {
    /// Its folder.
    pub name: &'static str,
    /// The token that stands for an embedding.
    pub picture: u32,
    /// Whether llama.cpp has converted its tower.
    pub is_converted: bool,
}

const fn model(name: &'static str, picture: u32) -> Model {
    Model { name, picture, is_converted: false }
}

const fn converted(name: &'static str, picture: u32) -> Model {
    Model { name, picture, is_converted: true }
}

/// All of them.
pub const MODELS: [Model; 16] = [
    converted("gemma3", 109),
    model("gemma3-72", 109),
    converted("gemma4", 109),
    model("gemma4-88", 109),
    converted("gemma4-unified", 109),
    model("gemma4-whole", 109),
    converted("idefics3", 107),
    converted("internvl", 109),
    converted("mistral3", 107),
    converted("pixtral", 107),
    model("pixtral-80", 107),
    converted("qwen2-vl", 109),
    converted("qwen2.5-vl", 109),
    converted("qwen3-vl", 109),
    model("qwen3-vl-moe", 109),
    model("qwen3.5", 109),
];

/// The folder of a tiny vision model.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision").join(name)
}

/// A loaded tower.
pub struct Tower {
    /// Its plans.
    pub plans: VisionTower,
    tower: Box<dyn Executable>,
    projector: Box<dyn Executable>,
}

/// The results of a picture.
pub struct Seen {
    /// The tower's states.
    pub states: Vec<f32>,
    /// Embeddings of the text model.
    pub embeddings: Vec<f32>,
}

impl Tower {
    /// Loads a tower for pictures of at most this many rows.
    ///
    /// # Panics
    /// If the backend refuses it.
    pub fn load(backend: &dyn Backend, checkpoint: Checkpoint, rows: usize) -> Self {
        let checkpoint = Arc::new(checkpoint);
        let plans = build_tower(&checkpoint).unwrap();
        let load = |plan: &Plan| {
            let limits = Limits {
                rows,
                wants: 1,
                sequences: 1,
                context: rows.min(plan.context),
                pages: vec![pages_for(rows); plan.groups.len()],
                snapshots: 0,
                kv: KvType::F32,
                tokens: plan.vocab,
                bias: 0,
            };
            let plan = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
            backend.load(plan, Arc::clone(&checkpoint), limits, &mut |_, _| {}).unwrap()
        };
        let (tower, projector) = (load(&plans.tower), load(&plans.projector));
        Self { plans, tower, projector }
    }

    /// Runs a picture through the tower and the projector.
    ///
    /// # Panics
    /// If a pass fails.
    pub fn see(&mut self, pixels: &[f32], grid: [u32; 2]) -> Seen {
        let input = self.plans.input(pixels, grid).unwrap();
        let pages: Vec<u32> = (0..pages_for(input.rows.len()) as u32).rev().collect();
        let edit = TableEdit { group: 0, slot: 0, first: 0, pages: &pages };
        // a tower without layers has no cache
        let tables = vec![edit; self.plans.tower.groups.len().min(1)];
        let states = run(&mut *self.tower, &input, &tables);
        let between = self.plans.between(&states, grid).unwrap();
        let kept = run(&mut *self.projector, &between, &[]);
        Seen { embeddings: self.plans.embeddings(&kept, grid).unwrap(), states }
    }
}

fn run(of: &mut dyn Executable, input: &TowerInput, tables: &[TableEdit<'_>]) -> Vec<f32> {
    let ticket = of.submit(&input.pass(tables)).unwrap();
    of.take(ticket).unwrap().hidden.to_vec()
}

/// Compares all pictures of a model's folder, whose tower comes from `checkpoint`.
///
/// # Panics
/// If a state or an embedding differs by more than `tolerance` of the greatest.
pub fn equals_the_oracle(
    backend: &dyn Backend,
    name: &str,
    checkpoint: Checkpoint,
    tolerance: f32,
) {
    let folder = folder(name);
    let array = |file: &str| npy::floats(folder.join(file));
    let grids = npy::integers(folder.join("grids.npy"));
    let (pixels, states, rows) = (array("pixels.npy"), array("states.npy"), array("rows.npy"));
    let patches: u32 = grids.as_chunks::<2>().0.iter().map(|[high, wide]| high * wide).sum();
    let values = pixels.len() / patches as usize;
    let hidden = states.len() / patches as usize;
    let deepstack = folder.join("deepstack.npy");
    let deep = if deepstack.is_file() { npy::floats(deepstack) } else { Vec::new() };
    let mut tower = Tower::load(backend, checkpoint, 512);
    assert_eq!(tower.plans.width, npy::shaped_floats(folder.join("rows.npy")).0[1]);
    let (mut at, mut token) = (0, 0);
    for &grid in grids.as_chunks::<2>().0 {
        let patches = (grid[0] * grid[1]) as usize;
        let seen = tower.see(&pixels[at * values..][..patches * values], grid);
        let expected = &states[at * hidden..][..patches * hidden];
        let found = tower.plans.last_states(&seen.states, grid);
        let difference = relative_difference(expected, &found);
        assert!(difference < tolerance, "{name}: states of {grid:?} differ by {difference}");
        let (width, tokens) = (tower.plans.width, tower.plans.tokens(grid));
        let slices = 1 + tower.plans.deepstack;
        for slice in 0..slices {
            let all = seen.embeddings.chunks(slices * width);
            let found: Vec<f32> =
                all.flat_map(|row| &row[slice * width..][..width]).copied().collect();
            let expected = match slice {
                0 => &rows[token * width..][..tokens * width],
                _ => &deep[(slice - 1) * rows.len() + token * width..][..tokens * width],
            };
            let difference = relative_difference(expected, &found);
            assert!(
                difference < tolerance,
                "{name}: slice {slice} of {grid:?} differs by {difference}"
            );
        }
        at += patches;
        token += tokens;
    }
    assert_eq!(token * tower.plans.width, rows.len());
    assert_eq!(tower.plans.deepstack * rows.len(), deep.len());
}

/// Compares the logits of a model's folder for its text with pictures, whose embeddings are those
/// of transformers. `picture` is the token that stands for an embedding, and `stand_in` the one
/// whose rows of other tables such a row reads.
///
/// # Panics
/// If a logit differs by more than `tolerance` of the greatest.
pub fn text_equals_the_oracle(
    backend: &dyn Backend,
    name: &str,
    [picture, stand_in]: [u32; 2],
    tolerance: f32,
) {
    let folder = folder(name);
    let checkpoint = Arc::new(Checkpoint::open(&folder).unwrap());
    let (shape, rows) = npy::shaped_floats(folder.join("rows.npy"));
    let [count, width] = shape[..] else { panic!("{name}: embeddings of shape {shape:?}") };
    let deepstack = folder.join("deepstack.npy");
    let deep = if deepstack.is_file() { npy::floats(deepstack) } else { Vec::new() };
    let all = [rows, deep].concat();
    let slices = all.len() / (count * width);
    let slice = |row: usize, slice: usize| &all[(slice * count + row) * width..][..width];
    let embeddings: Vec<f32> =
        (0..count).flat_map(|row| (0..slices).flat_map(move |i| slice(row, i))).copied().collect();
    let pictures = Some(PictureRows { slices, token: stand_in });
    let options = BuildOptions { pictures, ..BuildOptions::default() };
    let plan = build_with(&checkpoint, &options).unwrap();
    let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
    let ids = npy::integers(folder.join("ids.npy"));
    let pages: Vec<u32> = (0..pages_for(ids.len()) as u32).collect();
    let limits = Limits {
        rows: ids.len(),
        wants: ids.len(),
        sequences: 1,
        context: ids.len(),
        pages: vec![pages.len(); plan.groups.len()],
        snapshots: 0,
        kv: KvType::F32,
        tokens: plan.vocab,
        bias: 0,
    };
    let groups = plan.groups.len() as u32;
    let mut executable = backend.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap();

    let mut next = 0;
    let rows: Vec<Row> = (0..)
        .zip(&ids)
        .map(|(position, &id)| {
            let input = match id == picture {
                true => Input::Embedding(next),
                false => Input::Token(id),
            };
            next += u32::from(id == picture);
            Row { input, position, slot: 0 }
        })
        .collect();
    let coordinates = folder.join("coordinates.npy");
    let at = coordinates.is_file().then(|| npy::integers(coordinates));
    let mut places: Vec<Place> = (0..ids.len() as u32).map(Place::of).collect();
    let mut first = 0;
    for run in ids.chunk_by(|a, b| *a == picture && *b == picture) {
        let end = first + run.len();
        for (i, place) in places.iter_mut().enumerate().take(end).skip(first) {
            place.group = [first as u32, end as u32];
            if let Some(at) = &at {
                place.at = [0, 1, 2].map(|axis| at[axis * ids.len() + i]);
            }
        }
        first = end;
    }
    let wants: Vec<Want<'_>> = (0..ids.len() as u32).map(|row| Want::Logits { row }).collect();
    let edit = |group| TableEdit { group, slot: 0, first: 0, pages: &pages };
    let tables: Vec<_> = (0..groups).map(edit).collect();
    let pass = Pass {
        tables: &tables,
        places: &places,
        embeddings: &embeddings,
        ..Pass::new(Phase::Prompt, &rows, &wants)
    };
    let ticket = executable.submit(&pass).unwrap();
    let found = executable.take(ticket).unwrap().logits;
    let difference = relative_difference(&npy::floats(folder.join("logits.npy")), found);
    assert!(difference < tolerance, "{name}: logits differ by {difference}");
}
