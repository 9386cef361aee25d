//! One test body for every backend: what each must give, held against the plain path.

use std::sync::Arc;

use pelton_graph::{
    Backend, Batch, Error, Executable, Fusion, KvType, Limits, Row, build, pages_for,
};
use pelton_quant::DType;

use crate::{ModelSpec, Random};

/// For how much the models of these tests are loaded.
pub const LIMITS: Limits =
    Limits { rows: 96, selected: 96, sequences: 4, pages: 16, kv: KvType::F16 };

/// A backend under test.
pub struct Subject<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// The specification: runs plans that are not fused.
    pub plain: &'a dyn Backend,
    /// How far the same rows may differ when they are run in other batches; 0 for not at all.
    pub tolerance: f32,
}

/// Loads a random model; `fusions` are those of the plan.
pub fn load(
    backend: &dyn Backend,
    spec: &ModelSpec,
    fusions: &[Fusion],
    limits: Limits,
) -> Box<dyn Executable> {
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(fusions);
    backend.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap()
}

/// Random tokens of a model.
pub fn tokens(spec: &ModelSpec, n: usize) -> Vec<u32> {
    let mut random = Random::new(7);
    (0..n).map(|_| random.below(spec.vocab) as u32).collect()
}

/// The logits of all tokens of one sequence, run in parts of these lengths.
pub fn logits(executable: &mut dyn Executable, tokens: &[u32], parts: &[usize]) -> Vec<f32> {
    // pages out of order, so that a mistake in the table shows
    let tables = vec![Vec::new(), (0..pages_for(tokens.len()) as u32).rev().collect()];
    let mut all = Vec::new();
    let mut position = 0;
    for &part in parts {
        let rows: Vec<Row> = (position..position + part)
            .map(|p| Row { token: tokens[p], position: p as u32, sequence: 1 })
            .collect();
        let selected: Vec<u32> = (0..part as u32).collect();
        let batch = Batch { rows: &rows, tables: &tables, selected: &selected };
        all.extend_from_slice(executable.forward(&batch).unwrap());
        position += part;
    }
    assert_eq!(position, tokens.len());
    all
}

/// The greatest difference between two lists of finite numbers.
pub fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().chain(b).all(|v| v.is_finite()), "a number is missing");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// By what share of its norm a list differs from another.
fn share(expected: &[f32], got: &[f32]) -> f32 {
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|v| v * v).sum::<f32>().sqrt();
    let difference = norm(&mut expected.iter().zip(got).map(|(a, b)| a - b));
    difference / norm(&mut expected.iter().copied())
}

/// Models whose shapes differ in every way that a plan can.
pub fn specs() -> Vec<ModelSpec> {
    let base = ModelSpec::default();
    vec![
        base.clone(),
        ModelSpec { architecture: "qwen2", kv_heads: 4, tied: true, ..base.clone() },
        ModelSpec { architecture: "qwen3", kv_heads: 1, head_dim: 24, ..base.clone() },
        ModelSpec { window: Some(10), rope_divisors: true, ..base.clone() },
        // odd widths: no multiple of a vector, of a block, of a tile
        ModelSpec { hidden: 36, heads: 6, kv_heads: 2, head_dim: 6, ffn: 50, vocab: 33, ..base },
    ]
}

impl Subject<'_> {
    fn load(&self, spec: &ModelSpec, limits: Limits) -> Box<dyn Executable> {
        load(self.backend, spec, self.backend.fusions(), limits)
    }

    fn assert_same(&self, a: &[f32], b: &[f32], what: &str) {
        match self.tolerance {
            0.0 => assert!(a == b, "{what}: not the same bits"),
            tolerance => {
                let difference = greatest_difference(a, b);
                assert!(difference <= tolerance, "{what}: {difference}");
            }
        }
    }

    /// With weights in f32 only the order of sums differs from the plain path; in an f16 cache
    /// that can tip a rounding.
    pub fn equals_plain(&self) {
        for spec in specs() {
            let tokens = tokens(&spec, 70);
            for (kv, tolerance) in [(KvType::F16, 2e-3), (KvType::F32, 3e-5)] {
                let limits = Limits { kv, ..LIMITS };
                let plain = logits(&mut *load(self.plain, &spec, &[], limits), &tokens, &[70]);
                for parts in [&[70][..], &[1; 70]] {
                    let got = logits(&mut *self.load(&spec, limits), &tokens, parts);
                    let difference = greatest_difference(&plain, &got);
                    assert!(difference < tolerance, "{spec:?} {kv:?} {parts:?}: {difference}");
                }
            }
        }
    }

    /// Caches of these types equal those of the plain path within a share of the logits' norm,
    /// over so many positions that attention takes them in parts.
    pub fn far_positions(&self, types: &[(KvType, f32)]) {
        const LEN: usize = 600;
        for window in [None, Some(300)] {
            let spec = ModelSpec { window, context: LEN, ..ModelSpec::wide(DType::F32) };
            let tokens = tokens(&spec, LEN);
            for &(kv, tolerance) in types {
                let limits = Limits { rows: LEN, selected: LEN, kv, ..LIMITS };
                let plain = logits(&mut *load(self.plain, &spec, &[], limits), &tokens, &[LEN]);
                let mut executable = self.load(&spec, limits);
                let whole = logits(&mut *executable, &tokens, &[LEN]);
                let share = share(&plain, &whole);
                assert!(share < tolerance, "{kv} with window {window:?}: {share}");
                // few rows, then one at a time, after many
                for parts in [&[500, 1, 3, 16, 1, 79][..], &[250, 7, 255, 88]] {
                    let got = logits(&mut *executable, &tokens, parts);
                    self.assert_same(&got, &whole, &format!("{kv} {window:?} {parts:?}"));
                }
            }
        }
    }

    /// Each fused op means what its elementary ops mean.
    pub fn fused_equals_unfused(&self) {
        for spec in specs() {
            let tokens = tokens(&spec, 40);
            for parts in [&[40][..], &[3, 33, 1, 1, 2]] {
                let [fused, unfused] = [self.backend.fusions(), &[]].map(|fusions| {
                    logits(&mut *load(self.backend, &spec, fusions, LIMITS), &tokens, parts)
                });
                self.assert_same(&fused, &unfused, &format!("{spec:?} {parts:?}"));
            }
        }
    }

    /// Each fusion alone, too: a plan may have any of them.
    pub fn each_fusion_alone(&self) {
        let spec = ModelSpec { architecture: "qwen3", ..ModelSpec::default() };
        let tokens = tokens(&spec, 20);
        let run = |fusions: &[Fusion]| {
            logits(&mut *load(self.backend, &spec, fusions, LIMITS), &tokens, &[19, 1])
        };
        let unfused = run(&[]);
        for &fusion in self.backend.fusions() {
            self.assert_same(&run(&[fusion]), &unfused, &format!("{fusion:?}"));
        }
    }

    /// What a row gets does not depend on its batch.
    pub fn any_split(&self, dtypes: &[DType]) {
        for &dtype in dtypes {
            let spec = ModelSpec { window: Some(50), ..ModelSpec::wide(dtype) };
            let tokens = tokens(&spec, 64);
            let mut executable = self.load(&spec, LIMITS);
            let whole = logits(&mut *executable, &tokens, &[64]);
            for parts in [&[1, 63][..], &[17, 47], &[1; 64], &[5, 1, 30, 28]] {
                let got = logits(&mut *executable, &tokens, parts);
                let what = format!("{dtype} in parts {parts:?}");
                match self.tolerance > 0.0 && dtype.block_len() > 1 {
                    // a last bit that differs tips the rounding of an activation to 8 bits
                    true => assert!(share(&whole, &got) < 0.03, "{what}"),
                    false => self.assert_same(&got, &whole, &what),
                }
            }
        }
    }

    /// Weights in blocks: kernels may round activations to 8 bits, which the plain path does not.
    pub fn every_type(&self) {
        for dtype in DType::ALL {
            let spec = ModelSpec::wide(dtype);
            let tokens = tokens(&spec, 9);
            let plain = logits(&mut *load(self.plain, &spec, &[], LIMITS), &tokens, &[9]);
            for parts in [&[9][..], &[1; 9]] {
                let got = logits(&mut *self.load(&spec, LIMITS), &tokens, parts);
                let share = share(&plain, &got);
                let limit = if dtype.block_len() > 1 { 0.03 } else { 1e-3 };
                assert!(share < limit, "{dtype} {parts:?}: {share}");
            }
        }
    }

    /// Sequences in one batch get what each gets alone.
    pub fn sequences_do_not_mix(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, LIMITS);
        let texts = [tokens(&spec, 30), tokens(&spec, 50)[15..].to_vec()];
        let alone = texts.clone().map(|text| logits(&mut *executable, &text, &[text.len()]));
        let tables = [vec![3], vec![1]];
        let row = |s: usize, p: usize| {
            let token = *texts[s].get(p)?;
            Some(Row { token, position: p as u32, sequence: s as u32 })
        };
        // all at once, turn and turn about; then two rows a batch
        let turns: Vec<Row> =
            (0..35).flat_map(|p| [row(0, p), row(1, p)].into_iter().flatten()).collect();
        for size in [turns.len(), 2] {
            for rows in turns.chunks(size) {
                let selected: Vec<u32> = (0..rows.len() as u32).collect();
                let batch = Batch { rows, tables: &tables, selected: &selected };
                let together = executable.forward(&batch).unwrap();
                for (row, got) in rows.iter().zip(together.chunks(spec.vocab)) {
                    let begin = row.position as usize * spec.vocab;
                    let expected = &alone[row.sequence as usize][begin..begin + spec.vocab];
                    self.assert_same(got, expected, &format!("{row:?}"));
                }
            }
        }
    }

    /// Logits come for the selected rows only, in the order asked for.
    pub fn only_selected_rows(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, LIMITS);
        let tokens = tokens(&spec, 5);
        let all = logits(&mut *executable, &tokens, &[5]);
        let rows: Vec<Row> =
            (0..5).map(|p| Row { token: tokens[p], position: p as u32, sequence: 0 }).collect();
        let (tables, selected) = ([vec![2]], [3, 0]);
        let batch = Batch { rows: &rows, tables: &tables, selected: &selected };
        let got = executable.forward(&batch).unwrap();
        let row = |i: usize| &all[i * spec.vocab..(i + 1) * spec.vocab];
        self.assert_same(got, &[row(3), row(0)].concat(), "selected");
        let none = Batch { selected: &[], ..batch };
        assert!(executable.forward(&none).unwrap().is_empty());
        let one = Batch { rows: &rows[..1], selected: &[], ..batch };
        assert!(executable.forward(&one).unwrap().is_empty());
    }

    /// Indices that fit neither plan nor limits are refused.
    pub fn hostile_batches(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, LIMITS);
        let good = Row { token: 0, position: 0, sequence: 0 };
        let mut refuse = |rows: &[Row], tables: &[Vec<u32>], selected: &[u32], what: &str| {
            let outcome = executable.forward(&Batch { rows, tables, selected });
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        let tables = [vec![0u32]];
        refuse(&[], &tables, &[], "0 rows");
        refuse(&[good; 97], &tables, &[], "97 rows");
        refuse(&[Row { token: 80, ..good }], &tables, &[], "token 80");
        refuse(&[Row { position: 512, ..good }], &tables, &[], "position 512");
        refuse(&[Row { position: 64, ..good }], &tables, &[], "past the 1 pages");
        refuse(&[Row { sequence: 1, ..good }], &tables, &[], "sequence 1");
        refuse(&[good], &[vec![16]], &[], "page 16");
        refuse(&[good], &tables, &[1], "selected row 1");
        refuse(&[good], &vec![vec![0]; 5], &[], "5 page tables");
    }

    /// Memory that is not there is an error that says so.
    pub fn memory_that_is_not_there(&self) {
        let spec = ModelSpec::default();
        let checkpoint = Arc::new(spec.checkpoint());
        let limits = Limits { pages: usize::MAX >> 8, ..LIMITS };
        let plan = build(&checkpoint).unwrap().fuse(self.backend.fusions());
        let loaded = self.backend.load(plan, checkpoint, limits, &mut |_, _| {});
        let error = loaded.err().unwrap();
        assert!(matches!(error, Error::Memory { .. } | Error::Device { .. }), "{error}");
    }
}
