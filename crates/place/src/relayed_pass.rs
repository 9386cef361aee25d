//! A pass on its way through the devices, with all that it borrowed.

use std::ops::Range;

use pelton_graph::{
    Effort, Error, Hidden, Input, Outputs, Pass, Phase, Place, Profile, Row, Sample, TableEdit,
    Ticket, Want,
};
use pelton_sampling::{Draw, Sampled};

/// A pass, and the values that the last device which ran it has left.
#[derive(Debug, Default)]
pub(crate) struct RelayedPass {
    pub(crate) number: u64,
    /// The passes that must be done before all of its tokens are known.
    pub(crate) after: u64,
    phase: Option<Phase>,
    pub(crate) rows: Vec<Row>,
    edits: Vec<Edit>,
    pages: Vec<u32>,
    wants: Vec<OwnWant>,
    efforts: Vec<Effort>,
    places: Vec<Place>,
    embeddings: Vec<f32>,
    recent: Vec<u32>,
    bias: Vec<(u32, f32)>,
    masks: Vec<u32>,
    keeps_hidden: bool,
    /// The values that go into the next device, or come with the results.
    pub(crate) hidden: Vec<f32>,
    logits: Vec<f32>,
    pub(crate) samples: Vec<Sampled>,
    /// The profiles of the devices, if they are asked for.
    pub(crate) profiles: Vec<Profile>,
    /// Why it failed.
    pub(crate) error: Option<Error>,
}

/// An edit of a page table, and its range of [`RelayedPass::pages`].
#[derive(Debug)]
struct Edit {
    group: u32,
    slot: u32,
    first: u32,
    pages: Range<usize>,
}

#[derive(Debug)]
enum OwnWant {
    Logits { row: u32 },
    Sample(Box<OwnSample>),
}

#[derive(Debug)]
struct OwnSample {
    row: u32,
    pending: u32,
    /// Without what it borrows.
    draw: Draw<'static>,
    recent: Range<usize>,
    bias: Range<usize>,
    mask: Option<Range<usize>>,
}

/// Appends elements to a list, and returns their range.
fn append<T: Clone>(list: &mut Vec<T>, elements: &[T]) -> Range<usize> {
    let begin = list.len();
    list.extend_from_slice(elements);
    begin..list.len()
}

impl RelayedPass {
    /// Makes it a copy of a pass without late draws.
    pub(crate) fn set(&mut self, number: u64, pass: &Pass<'_>) {
        self.number = number;
        self.phase = Some(pass.phase);
        self.keeps_hidden = pass.keeps_hidden;
        self.error = None;
        self.profiles.clear();
        self.wants.clear();
        self.edits.clear();
        self.rows.clear();
        self.rows.extend_from_slice(pass.rows);
        self.efforts.clear();
        self.efforts.extend_from_slice(pass.efforts);
        self.places.clear();
        self.places.extend_from_slice(pass.places);
        self.embeddings.clear();
        self.embeddings.extend_from_slice(pass.embeddings);
        self.hidden.clear();
        self.hidden.extend_from_slice(pass.hidden.given());
        self.logits.clear();
        self.samples.clear();
        for list in [&mut self.pages, &mut self.recent, &mut self.masks] {
            list.clear();
        }
        self.bias.clear();
        self.add_edits(pass.tables);
        for want in pass.wants {
            self.wants.push(match want {
                Want::Logits { row } | Want::Later { row } => OwnWant::Logits { row: *row },
                Want::Sample(sample) => {
                    let draw = sample.draw;
                    OwnWant::Sample(Box::new(OwnSample {
                        row: sample.row,
                        pending: sample.pending,
                        draw: Draw {
                            params: draw.params,
                            seed: draw.seed,
                            index: draw.index,
                            penalties: draw.penalties,
                            bias: &[],
                            mask: None,
                            log_probs: draw.log_probs,
                        },
                        recent: append(&mut self.recent, sample.recent),
                        bias: append(&mut self.bias, draw.bias),
                        mask: draw.mask.map(|mask| append(&mut self.masks, mask)),
                    }))
                }
            });
        }
    }

    fn add_edits(&mut self, tables: &[TableEdit<'_>]) {
        for &TableEdit { group, slot, first, pages } in tables {
            let pages = append(&mut self.pages, pages);
            self.edits.push(Edit { group, slot, first, pages });
        }
    }

    /// Puts the edits of a pass that did not run before its own.
    pub(crate) fn edit_before(&mut self, missed: Missed) {
        let own = std::mem::take(&mut self.edits);
        for (edit, pages) in missed.0 {
            let pages = append(&mut self.pages, &pages);
            self.edits.push(Edit { pages, ..edit });
        }
        self.edits.extend(own);
    }

    /// Adds its first edits to those of passes that did not run.
    pub(crate) fn miss(&self, count: usize, missed: &mut Missed) {
        for &Edit { group, slot, first, ref pages } in self.edits.iter().take(count) {
            let edit = Edit { group, slot, first, pages: 0..0 };
            missed.0.push((edit, self.pages[pages.clone()].to_vec()));
        }
    }

    /// Whether the last device has logits of it.
    pub(crate) fn has_logits(&self) -> bool {
        self.wants.iter().any(|want| matches!(want, OwnWant::Logits { .. }))
    }

    /// The positions of the rows whose tokens were sampled.
    pub(crate) fn sampled_rows(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        let sampled = self.rows.iter().filter(|row| row.input == Input::Sampled);
        sampled.map(|row| (row.slot, row.position))
    }

    /// The tokens that it sampled, with their slots and positions.
    pub(crate) fn sampled_tokens(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let samples = self.wants.iter().filter_map(|want| match want {
            OwnWant::Sample(sample) => Some(self.rows[sample.row as usize]),
            OwnWant::Logits { .. } => None,
        });
        let tokens = samples.zip(&self.samples);
        tokens.filter_map(|(row, sampled)| Some((row.slot, row.position + 1, sampled.token?)))
    }

    /// Calls `run` with the pass: the tokens `known` in place of sampled ones, and wants and the
    /// kept states only on the last device, and efforts only for a part that has them.
    pub(crate) fn with_pass<T>(
        &self,
        known: Option<&[u32]>,
        [has_effort, is_last]: [bool; 2],
        run: impl FnOnce(&Pass<'_>) -> T,
    ) -> T {
        let mut known = known.unwrap_or_default().iter();
        let rows = self.rows.iter().map(|&row| match (row.input, known.clone().next()) {
            (Input::Sampled, Some(&token)) => {
                known.next();
                Row { input: Input::Token(token), ..row }
            }
            _ => row,
        });
        let rows: Vec<Row> = rows.collect();
        let edits = self.edits.iter().map(|edit| TableEdit {
            group: edit.group,
            slot: edit.slot,
            first: edit.first,
            pages: &self.pages[edit.pages.clone()],
        });
        let edits: Vec<TableEdit<'_>> = edits.collect();
        let wants = self.wants.iter().filter(|_| is_last).map(|want| match want {
            OwnWant::Logits { row } => Want::Logits { row: *row },
            OwnWant::Sample(own) => Want::Sample(Sample {
                row: own.row,
                draw: Draw {
                    bias: &self.bias[own.bias.clone()],
                    mask: own.mask.clone().map(|mask| &self.masks[mask]),
                    ..own.draw
                },
                recent: &self.recent[own.recent.clone()],
                pending: own.pending,
            }),
        });
        let wants: Vec<Want<'_>> = wants.collect();
        let phase = self.phase.unwrap_or(Phase::Decode);
        run(&Pass {
            tables: &edits,
            places: &self.places,
            embeddings: &self.embeddings,
            efforts: if has_effort { &self.efforts } else { &[] },
            hidden: Hidden::Given(&self.hidden),
            keeps_hidden: !is_last || self.keeps_hidden,
            ..Pass::new(phase, &rows, &wants)
        })
    }

    /// Keeps what a device has left.
    pub(crate) fn keep(&mut self, outputs: &Outputs<'_>) {
        self.hidden.clear();
        self.hidden.extend_from_slice(outputs.hidden);
        self.logits.extend_from_slice(outputs.logits);
        self.samples.extend_from_slice(outputs.samples);
    }

    /// The results, after the last device.
    pub(crate) fn outputs(&self) -> Outputs<'_> {
        Outputs { logits: &self.logits, samples: &self.samples, hidden: &self.hidden, drafted: &[] }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.number)
    }
}

/// The edits of passes that a device did not run, because one before it failed: they are
/// made with its next pass.
#[derive(Debug, Default)]
pub(crate) struct Missed(Vec<(Edit, Vec<u32>)>);
