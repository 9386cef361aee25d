//! One test body for every backend: what each must compute, compared with the reference path.

use std::sync::Arc;

use pelton_graph::Phase::{Decode, Prompt};
use pelton_graph::{
    Backend, Error, Executable, Input, KvType, Limits, Op, Pass, Phase, Plan, Row, TableEdit, Want,
    build, pages_for,
};
use pelton_quant::DType;

use crate::{ModelSpec, Random};

/// The sizes that the models of these tests are loaded for.
pub fn limits(spec: &ModelSpec) -> Limits {
    Limits {
        rows: 208,
        wants: 208,
        sequences: 16,
        context: spec.context,
        pages: vec![16],
        snapshots: 0,
        kv: KvType::F16,
        tokens: spec.vocab,
        bias: 16,
    }
}

/// A backend under test.
pub struct Subject<'a> {
    /// The backend.
    pub backend: &'a dyn Backend,
    /// The specification: runs elementary ops only.
    pub reference: &'a dyn Backend,
    /// How far logits of the two phases may differ for the same rows; 0 for not at all. Within a
    /// phase they never may.
    pub tolerance: f32,
}

/// Loads a random model, with the fused ops of the plan that `accepts` accepts.
pub fn load(
    backend: &dyn Backend,
    spec: &ModelSpec,
    accepts: &dyn Fn(&Op, &Plan) -> bool,
    limits: Limits,
) -> Box<dyn Executable> {
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(accepts);
    backend.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap()
}

/// Random tokens of a model.
pub fn tokens(spec: &ModelSpec, n: usize) -> Vec<u32> {
    let mut random = Random::new(7);
    (0..n).map(|_| random.below(spec.vocab) as u32).collect()
}

/// Rows of one slot with known tokens, from a position on.
pub fn rows(tokens: &[u32], position: usize, slot: u32) -> Vec<Row> {
    let row =
        |(i, &token)| Row { input: Input::Token(token), position: (position + i) as u32, slot };
    tokens.iter().enumerate().map(row).collect()
}

/// The logits of the rows that `selected` names, after changes of page tables.
pub fn forward(
    executable: &mut dyn Executable,
    phase: Phase,
    rows: &[Row],
    tables: &[TableEdit<'_>],
    selected: &[u32],
) -> Result<Vec<f32>, Error> {
    let wants: Vec<Want<'_>> = selected.iter().map(|&row| Want::Logits { row }).collect();
    let pass = Pass { tables, ..Pass::new(phase, rows, &wants) };
    let ticket = executable.submit(&pass)?;
    Ok(executable.take(ticket)?.logits.to_vec())
}

/// The logits of all tokens of one sequence, run in chunks of these phases and lengths.
pub fn logits(
    executable: &mut dyn Executable,
    tokens: &[u32],
    chunks: &[(Phase, usize)],
) -> Vec<f32> {
    // pages out of order, so that a mistake in the table shows
    let pages: Vec<u32> = (0..pages_for(tokens.len()) as u32).rev().collect();
    let mut edits = &[TableEdit { group: 0, slot: 1, first: 0, pages: &pages }][..];
    let mut all = Vec::new();
    let mut position = 0;
    for &(phase, len) in chunks {
        let rows = rows(&tokens[position..position + len], position, 1);
        let selected: Vec<u32> = (0..len as u32).collect();
        all.extend(forward(executable, phase, &rows, edits, &selected).unwrap());
        edits = &[];
        position += len;
    }
    assert_eq!(position, tokens.len());
    all
}

/// Chunks of one phase.
pub fn in_phase(phase: Phase, lens: &[usize]) -> Vec<(Phase, usize)> {
    lens.iter().map(|&len| (phase, len)).collect()
}

/// Accepts no fused op.
pub fn unfused(_: &Op, _: &Plan) -> bool {
    false
}

/// The greatest difference between two lists of finite values.
pub fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().chain(b).all(|v| v.is_finite()), "a value is not finite");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The norm of the difference of two lists of the same length, relative to the norm of the first. 0
/// for equal ones, of zeros too.
pub fn relative_difference(expected: &[f32], got: &[f32]) -> f32 {
    assert_eq!(expected.len(), got.len(), "lists of different lengths");
    if expected == got {
        return 0.0;
    }
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|v| v * v).sum::<f32>().sqrt();
    let difference = norm(&mut expected.iter().zip(got).map(|(a, b)| a - b));
    difference / norm(&mut expected.iter().copied())
}

/// Models of different architectures and shapes, even and odd.
pub fn specs() -> Vec<ModelSpec> {
    let base = ModelSpec::default();
    vec![
        base.clone(),
        ModelSpec { architecture: "qwen2", kv_heads: 4, tied: true, ..base.clone() },
        ModelSpec { architecture: "qwen3", kv_heads: 1, head_dim: 24, ..base.clone() },
        ModelSpec { window: Some(10), rope_divisors: true, ..base.clone() },
        // odd widths: no multiple of a vector, of a block, of a tile
        ModelSpec {
            hidden: 36,
            heads: 6,
            kv_heads: 2,
            head_dim: 6,
            ffn: 50,
            vocab: 33,
            ..base.clone()
        },
        // wide heads, many queries per key head
        ModelSpec { hidden: 128, heads: 7, kv_heads: 1, head_dim: 128, ffn: 96, ..base },
    ]
}

impl Subject<'_> {
    fn load(&self, spec: &ModelSpec, limits: Limits) -> Box<dyn Executable> {
        load(self.backend, spec, &|op, plan| self.backend.accepts(op, plan), limits)
    }

    fn assert_close(&self, a: &[f32], b: &[f32], what: &str) {
        match self.tolerance {
            0.0 => assert_same(a, b, what),
            tolerance => {
                let difference = greatest_difference(a, b);
                assert!(difference <= tolerance, "{what}: {difference}");
            }
        }
    }

    /// Compares whole plans with the reference path. F32 weights leave only the order of sums to
    /// differ. An f16 cache can tip a rounding then, and matrix cores round queries and weights of
    /// attention to f16.
    pub fn equals_reference(&self) {
        for spec in specs() {
            let tokens = tokens(&spec, 70);
            for (kv, tolerance) in [(KvType::F16, 4e-3), (KvType::F32, 3e-5)] {
                let limits = Limits { kv, ..limits(&spec) };
                let mut reference = load(self.reference, &spec, &unfused, limits.clone());
                let expected = logits(&mut *reference, &tokens, &[(Prompt, 70)]);
                for chunks in [in_phase(Prompt, &[70]), in_phase(Decode, &[1; 70])] {
                    let got = logits(&mut *self.load(&spec, limits.clone()), &tokens, &chunks);
                    let difference = greatest_difference(&expected, &got);
                    assert!(difference < tolerance, "{spec:?} {kv:?} {chunks:?}: {difference}");
                }
            }
        }
    }

    /// Caches of these types equal those of the reference path within a tolerance relative to the
    /// logits' norm. There are so many positions that attention splits them.
    pub fn far_positions(&self, types: &[(KvType, f32)]) {
        const LEN: usize = 600;
        for window in [None, Some(300)] {
            let spec = ModelSpec { window, context: LEN, ..ModelSpec::wide(DType::F32) };
            let tokens = tokens(&spec, LEN);
            for &(kv, tolerance) in types {
                let limits = Limits { rows: LEN, wants: LEN, kv, ..limits(&spec) };
                let mut reference = load(self.reference, &spec, &unfused, limits.clone());
                let expected = logits(&mut *reference, &tokens, &[(Prompt, LEN)]);
                let mut executable = self.load(&spec, limits);
                let whole = logits(&mut *executable, &tokens, &[(Prompt, LEN)]);
                let difference = relative_difference(&expected, &whole);
                assert!(difference < tolerance, "{kv} with window {window:?}: {difference}");
                for chunks in [
                    vec![
                        (Prompt, 448),
                        (Decode, 1),
                        (Decode, 3),
                        (Decode, 16),
                        (Decode, 1),
                        (Prompt, 131),
                    ],
                    vec![(Prompt, 256), (Decode, 7), (Prompt, 249), (Decode, 8), (Prompt, 80)],
                ] {
                    let got = logits(&mut *executable, &tokens, &chunks);
                    self.assert_close(&got, &whole, &format!("{kv} {window:?} {chunks:?}"));
                }
            }
        }
    }

    /// Each fused op means what its elementary ops mean.
    pub fn fused_equals_unfused(&self) {
        for spec in specs() {
            let tokens = tokens(&spec, 40);
            for chunks in [
                in_phase(Prompt, &[40]),
                vec![(Decode, 3), (Prompt, 33), (Decode, 1), (Decode, 1), (Decode, 2)],
            ] {
                let mut unfused = load(self.backend, &spec, &unfused, limits(&spec));
                let unfused = logits(&mut *unfused, &tokens, &chunks);
                let fused = logits(&mut *self.load(&spec, limits(&spec)), &tokens, &chunks);
                self.assert_close(&fused, &unfused, &format!("{spec:?} {chunks:?}"));
            }
        }
    }

    /// Each kind of fused op alone, too: a backend may accept any of them.
    pub fn each_fusion_alone(&self) {
        let spec = ModelSpec { architecture: "qwen3", ..ModelSpec::default() };
        let tokens = tokens(&spec, 20);
        let run = |name: &str| {
            let accepts =
                |op: &Op, plan: &Plan| op.name() == name && self.backend.accepts(op, plan);
            let mut executable = load(self.backend, &spec, &accepts, limits(&spec));
            logits(&mut *executable, &tokens, &[(Prompt, 19), (Decode, 1)])
        };
        let unfused = run("none");
        for name in ["norm_linear", "rope_store", "rope_attend", "linear_add", "norm_glu"] {
            self.assert_close(&run(name), &unfused, name);
        }
    }

    /// Batch invariance: a row's bits do not depend on the other rows of its pass, nor on the cuts
    /// of a prompt at page borders. Decoding passes have up to 16 rows.
    pub fn any_chunks(&self, dtypes: &[DType]) {
        const LEN: usize = 200;
        for &dtype in dtypes {
            for window in [None, Some(50)] {
                let spec = ModelSpec { window, ..ModelSpec::wide(dtype) };
                let tokens = tokens(&spec, LEN);
                let mut executable = self.load(&spec, limits(&spec));
                let prompt = logits(&mut *executable, &tokens, &[(Prompt, LEN)]);
                for lens in [&[64, 136][..], &[128, 72], &[64, 64, 64, 8], &[192, 8]] {
                    let got = logits(&mut *executable, &tokens, &in_phase(Prompt, lens));
                    assert_same(&got, &prompt, &format!("{dtype} {window:?} in chunks {lens:?}"));
                }
                let decode = logits(&mut *executable, &tokens, &in_phase(Decode, &[1; LEN]));
                let steps: Vec<usize> = (1..=16).chain([16, 16, 16, 16]).collect();
                let got = logits(&mut *executable, &tokens, &in_phase(Decode, &steps));
                assert_same(&got, &decode, &format!("{dtype} {window:?} in steps of 1 to 16"));
                let what = format!("{dtype} {window:?}, prompt and decoding");
                match self.tolerance > 0.0 && dtype.block_len() > 1 {
                    // a last bit that differs tips the rounding of an activation to 8 bits
                    true => assert!(relative_difference(&prompt, &decode) < 0.03, "{what}"),
                    false => self.assert_close(&prompt, &decode, &what),
                }
            }
        }
    }

    /// Weights in blocks: kernels may round activations to 8 bits, which the reference path does
    /// not.
    pub fn every_type(&self) {
        for dtype in DType::ALL {
            let spec = ModelSpec::wide(dtype);
            let tokens = tokens(&spec, 9);
            let mut reference = load(self.reference, &spec, &unfused, limits(&spec));
            let expected = logits(&mut *reference, &tokens, &[(Prompt, 9)]);
            for chunks in [in_phase(Prompt, &[9]), in_phase(Decode, &[1; 9])] {
                let got = logits(&mut *self.load(&spec, limits(&spec)), &tokens, &chunks);
                let difference = relative_difference(&expected, &got);
                let limit = if dtype.block_len() > 1 { 0.03 } else { 1e-3 };
                assert!(difference < limit, "{dtype} {chunks:?}: {difference}");
            }
        }
    }

    /// Sequences in one pass get the bits that each gets alone.
    pub fn sequences_do_not_mix(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, limits(&spec));
        let texts = [tokens(&spec, 30), tokens(&spec, 50)[15..].to_vec()];
        let pages = [vec![3], vec![1]];
        let edits = [0, 1].map(|slot| TableEdit {
            group: 0,
            slot: slot as u32,
            first: 0,
            pages: &pages[slot],
        });
        for phase in [Prompt, Decode] {
            let alone = texts.clone().map(|text| {
                let lens = if phase == Prompt { vec![text.len()] } else { vec![1; text.len()] };
                logits(&mut *executable, &text, &in_phase(phase, &lens))
            });
            let row = |s: usize, p: usize| {
                let token = *texts[s].get(p)?;
                Some(Row { input: Input::Token(token), position: p as u32, slot: s as u32 })
            };
            // alternating rows of both; all at once (of prompts), then few a pass
            let all: Vec<Row> =
                (0..35).flat_map(|p| [row(0, p), row(1, p)].into_iter().flatten()).collect();
            let most = if phase == Prompt { all.len() } else { 16 };
            for size in [most, 2] {
                for rows in all.chunks(size) {
                    let selected: Vec<u32> = (0..rows.len() as u32).collect();
                    let got = forward(&mut *executable, phase, rows, &edits, &selected).unwrap();
                    for (row, got) in rows.iter().zip(got.chunks(spec.vocab)) {
                        let begin = row.position as usize * spec.vocab;
                        let expected = &alone[row.slot as usize][begin..begin + spec.vocab];
                        assert_same(got, expected, &format!("{phase:?} {row:?} of {size}"));
                    }
                }
            }
        }
    }

    /// Logits come for the rows that they are wanted of only, in that order.
    pub fn only_wanted_rows(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, limits(&spec));
        let tokens = tokens(&spec, 5);
        let pages = [2];
        let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
        let rows = rows(&tokens, 0, 0);
        for phase in [Prompt, Decode] {
            let all = forward(&mut *executable, phase, &rows, &edits, &[0, 1, 2, 3, 4]).unwrap();
            let got = forward(&mut *executable, phase, &rows, &[], &[0, 3]).unwrap();
            let row = |i: usize| &all[i * spec.vocab..(i + 1) * spec.vocab];
            assert_same(&got, &[row(0), row(3)].concat(), "two rows");
            assert!(forward(&mut *executable, phase, &rows, &[], &[]).unwrap().is_empty());
            assert!(forward(&mut *executable, phase, &rows[..1], &[], &[]).unwrap().is_empty());
        }
    }

    /// A page that was copied holds the same keys and values.
    pub fn copied_pages(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, limits(&spec));
        let tokens = tokens(&spec, 70);
        let edit = |slot, pages| TableEdit { group: 0, slot, first: 0, pages };
        let prompt = rows(&tokens[..69], 0, 0);
        forward(&mut *executable, Prompt, &prompt, &[edit(0, &[4, 9])], &[]).unwrap();
        let last = |slot| rows(&tokens[69..], 69, slot);
        executable.copy_page(0, 9, 5).unwrap();
        let expected = forward(&mut *executable, Decode, &last(0), &[], &[0]).unwrap();
        let edits = [edit(3, &[4, 5])];
        let got = forward(&mut *executable, Decode, &last(3), &edits, &[0]).unwrap();
        assert_same(&got, &expected, "a copied page");
        executable.copy_pages(0, &[[9, 6], [4, 7]]).unwrap();
        let got = forward(&mut *executable, Decode, &last(2), &[edit(2, &[7, 6])], &[0]).unwrap();
        assert_same(&got, &expected, "copied pages");
        for (group, from, to) in [(1, 0, 1), (0, 16, 0), (0, 0, 16)] {
            let error = executable.copy_page(group, from, to).unwrap_err();
            assert!(matches!(error, Error::Pass(_)), "{error}");
        }
    }

    /// Indices that fit neither plan nor limits are refused.
    pub fn hostile_passes(&self) {
        let spec = ModelSpec::default();
        let mut executable = self.load(&spec, limits(&spec));
        let edit = TableEdit { group: 0, slot: 0, first: 0, pages: &[0] };
        let good = Row { input: Input::Token(0), position: 0, slot: 0 };
        let mut refuse = |rows: &[Row], edit: TableEdit<'_>, selected: &[u32], what: &str| {
            let outcome = forward(&mut *executable, Decode, rows, &[edit], selected);
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refuse(&[], edit, &[], "0 rows");
        refuse(&[good; 209], edit, &[], "209 rows");
        refuse(&[Row { input: Input::Token(80), ..good }], edit, &[], "token 80");
        refuse(&[Row { position: 512, ..good }], edit, &[], "position 512");
        refuse(&[Row { position: 64, ..good }], edit, &[], "past the 1 pages");
        refuse(&[Row { slot: 1, ..good }], edit, &[], "past the 0 pages");
        refuse(&[Row { slot: 16, ..good }], edit, &[], "slot 16");
        refuse(&[good], TableEdit { pages: &[16], ..edit }, &[], "page 16");
        refuse(&[good], TableEdit { slot: 16, ..edit }, &[], "slot 16");
        refuse(&[good], TableEdit { group: 1, ..edit }, &[], "cache group 1");
        refuse(&[good], TableEdit { first: 2, ..edit }, &[], "entries 2 to 3");
        refuse(&[good], TableEdit { pages: &[0; 9], ..edit }, &[], "entries 0 to 9");
        refuse(&[good], edit, &[1], "row 1 of want 0");
        refuse(&[good; 2], edit, &[1, 0], "order");
    }

    /// Memory that is not there is an error that says so.
    pub fn memory_that_is_not_there(&self) {
        let spec = ModelSpec::default();
        let checkpoint = Arc::new(spec.checkpoint());
        let limits = Limits { pages: vec![usize::MAX >> 8], ..limits(&spec) };
        let plan = build(&checkpoint).unwrap();
        let loaded = self.backend.load(plan, checkpoint, limits, &mut |_, _| {});
        let error = loaded.err().unwrap();
        let refused =
            matches!(error, Error::Memory { .. } | Error::LoadMemory { .. } | Error::Device { .. });
        assert!(refused, "{error}");
    }
}

/// Asserts that two lists are the same bits.
pub fn assert_same(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let at = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    if let Some(at) = at {
        let count = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        panic!("{what}: {count} of {} differ, the first at {at}: {} and {}", a.len(), a[at], b[at]);
    }
}
