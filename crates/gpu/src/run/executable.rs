//! A plan resident on a GPU, and the passes over it.

use std::{ops::Range, sync::Arc};

use pelton_graph::{
    Effort, Error, Executable, Limits, MAX_REPEAT, Outputs, PageTables, Pass, Phase, Pipeline,
    Plan, Profile, Ranking, Rows, Shared, Ticket, Want,
};
use pelton_sampling::Sampled;

use self::{
    guess::Guesses,
    host::Host,
    lowered::{Lowered, allocate_buffers, rotations},
    partner::{Copies, Own, Pair},
    repeat_data::{Repeat, Run},
    shape::{PassShape, PassWords, Written, place_words, row_words, wanted_logits},
};
use crate::{
    device::Device,
    kernels::{
        attention::tiles,
        copy_pages::PageCopies,
        cores_matmul::ROOM,
        ranking::RankingKernels,
        sample::{Sample, SampleBuffers, SampleCall},
    },
    lower::{
        Inputs, Scratch,
        buffers::{by_sequence, table_pages},
        choices::Choices,
        dispatch::{Dispatch, EXACT_ROWS, RowClass, StepDispatches, StepShape},
        loaded::Loaded,
    },
    persist::Mode,
    run::{
        in_flight::{DEPTH, InFlight},
        memory::{
            States, allocate_caches, attentions, check_memory, compare, hidden_len, logits_len,
            saved_len,
        },
    },
    weights::{Sources, Weights, shared_bytes},
};

mod break_even;
mod copies;
mod guess;
mod host;
mod host_passes;
mod lowered;
mod partner;
mod profiled;
mod ranking;
mod record;
mod repeat;
mod repeat_data;
mod shape;
#[cfg(test)]
mod tests;

pub(super) struct GpuExecutable {
    device: Arc<Device>,
    plan: Plan,
    limits: Limits,
    buffers: Vec<wgpu::Buffer>,
    caches: Caches,
    inputs: Inputs,
    written: Written,
    steps: Lowered,
    repeat: Repeat,
    /// The parts of the plan whose weights the host has, if there are any.
    host: Option<Host>,
    tables: PageTables,
    sample: Sample,
    /// The rankings of a plan with an encoder.
    ranks: Option<RankingKernels>,
    /// The passes that may come.
    guesses: Guesses,
    in_flight: InFlight,
    results: Results,
    pair: Pair,
    _weights: Weights,
}

/// The memory of sequences that requests copy.
struct Caches {
    states: States,
    pages: PageCopies,
}

/// The results of the pass that was taken last.
struct Results {
    sample_bytes: Vec<u8>,
    samples: Vec<Sampled>,
    logits: Vec<f32>,
    hidden: Vec<f32>,
    /// The drafted tokens.
    drafted: Vec<u32>,
}

impl Results {
    fn new(plan: &Plan, limits: &Limits, sample: &Sample) -> Self {
        Self {
            sample_bytes: Vec::with_capacity(sample.results().size() as usize),
            samples: Vec::with_capacity(limits.wants * MAX_REPEAT as usize),
            logits: vec![0.0; logits_len(plan, limits)],
            hidden: vec![0.0; hidden_len(plan, limits)],
            drafted: Vec::with_capacity(limits.rows),
        }
    }
}

/// The passes in flight of a plan, with the memory that their results are read to.
fn in_flight(
    device: &Device,
    plan: &Plan,
    limits: &Limits,
    sample: &Sample,
) -> Result<InFlight, Error> {
    let drafted = 4 * limits.rows as u64;
    let floats = [logits_len(plan, limits), hidden_len(plan, limits)].map(|len| 4 * len as u64);
    let bytes = [sample.results().size() + drafted, floats[0], floats[1]];
    // a head begins and ends with hidden states, and is whole
    let is_last = !plan.entry.is_empty() && plan.entry != plan.exit;
    InFlight::new(device, bytes, !plan.has_results() || is_last)
}

/// The inputs of the load of a plan.
pub(super) struct Load<'a> {
    pub(super) device: Arc<Device>,
    pub(super) plan: Plan,
    pub(super) limits: Limits,
    /// Bytes that it may allocate, if known.
    pub(super) available: Option<u64>,
    /// The choices of earlier loads.
    pub(super) choices: Option<&'a Choices>,
    pub(super) persistent: Mode,
}

impl GpuExecutable {
    pub(super) fn load(
        load: Load<'_>,
        sources: Sources<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let Load { device, plan, limits, available, choices, persistent } = load;
        let shared = shared_bytes(&device, &plan, sources);
        let needs = check_memory(&device, &plan, &limits, available, shared)?;
        let attentions = attentions(&plan, &limits, table_pages(&plan, &limits));
        let before = device.allocated();
        let (weights, stream) = Weights::load(&device, &plan, sources, progress)?;
        let buffers = allocate_buffers(&device, &plan, &limits)?;
        let host =
            stream.map(|stream| Host::new(&device, (&plan, &buffers), &limits, stream, persistent));
        let host = host.transpose()?;
        // between the layers of a persistent kernel the host cannot run
        let persistent = if host.is_some() { Mode::Off } else { persistent };
        let caches = allocate_caches(&device, &plan, &limits)?;
        let page_copies = PageCopies::new(&device, &plan, &caches)?;
        let states = States::allocate(&device, &plan, &limits)?;
        let turns = rotations(&device, &plan)?;
        let inputs = Inputs::new(&device, &plan, &limits)?;
        let scratch = Scratch::new(&device, &plan, &limits, &attentions)?;
        let loaded = Loaded {
            device: &device,
            plan: &plan,
            weights: &weights,
            buffers: &buffers,
            inputs: &inputs,
            scratch: &scratch,
            caches: &caches,
            kv: limits.kv,
            states: &states.slots,
            turns: &turns,
            rows: limits.rows,
            decode_rows: limits.decode_rows().next_multiple_of(ROOM),
        };
        let tile_rows = attentions
            .iter()
            .map(|a| a.tile_rows(a.cores(&device.capabilities, limits.rows)))
            .min();
        let steps = Lowered::new(&loaded, &limits, (choices, persistent), tile_rows)?;
        let saved = 4 * saved_len(&plan, &limits) as u64;
        let may_fail = steps.persistent.is_some() || host.is_some();
        let repeat = Repeat::new(&device, &inputs, may_fail, saved)?;
        let logits = &buffers[plan.logits.0];
        let pass_buffers = SampleBuffers { logits, recent: &inputs.recent, rows: &inputs.rows };
        let width = plan.output_width();
        let sample =
            Sample::new(&device, width, limits.tokens, limits.wants, limits.bias, pass_buffers)?;
        let sizes = [width, limits.tokens.min(width)];
        let ranks = plan
            .encoder
            .as_ref()
            .map(|_| RankingKernels::new(&device, logits, sizes, limits.wants))
            .transpose()?;
        let pair = Pair::new(&device, &plan, &limits, &buffers, &inputs)?;
        let in_flight = in_flight(&device, &plan, &limits, &sample)?;
        let results = Results::new(&plan, &limits, &sample);
        device.wait()?;
        compare(&device, &needs, before);
        Ok(Self {
            tables: PageTables::for_plan(&plan, &limits),
            caches: Caches { states, pages: page_copies },
            guesses: Guesses::default(),
            written: Written::default(),
            device,
            plan,
            limits,
            buffers,
            inputs,
            steps,
            repeat,
            host,
            sample,
            ranks,
            in_flight,
            results,
            pair,
            _weights: weights,
        })
    }

    /// Applies the edits of page tables, checks the pass and writes its inputs. Returns the shape
    /// of its first repeat, and the inputs.
    fn begin(&mut self, pass: &Pass<'_>) -> Result<(PassShape, PassWords), Error> {
        for edit in pass.tables {
            self.tables.apply(edit)?;
            let (group, slot) = (edit.group as usize, edit.slot as usize);
            self.inputs.write_table(&self.device, group, slot, edit.first as usize, edit.pages);
        }
        pass.check(&self.plan, &self.limits, &self.tables)?;
        pass.check_other(self.pair.own.begin(), self.partner_rows())?;
        self.check_partner(pass)?;
        let most = self.limits.decode_rows();
        if pass.phase == Phase::Decode && pass.rows.len() > most {
            let rows = pass.rows.len();
            return Err(Error::Pass(format!("{rows} rows of decoding, expected at most {most}")));
        }
        let mut selected: Vec<u32> = pass.wants.iter().map(Want::row).collect();
        selected.dedup();
        let tiles = match (pass.phase, self.steps.tile_rows) {
            (Phase::Prompt | Phase::Mixed { .. } | Phase::Encode, Some(most)) => {
                tiles(pass.rows, most)
            }
            _ => Vec::new(),
        };
        self.write_hidden(pass.phase, pass.rows.len(), pass.hidden.given());
        let places = place_words(&self.plan, pass);
        self.write_embeddings(pass.embeddings);
        let Self { device, inputs, written, .. } = self;
        let counts = [pass.rows.len() as u32, selected.len() as u32];
        written.counts.write(device, &inputs.pass, &counts);
        let mut rows: Vec<[u32; 4]> =
            pass.rows.iter().map(|row| row_words(&self.plan, row)).collect();
        if self.plan.whole_sequences {
            for sequence in rows.chunk_by_mut(|a, b| a[2] == b[2]) {
                let len = sequence.len() as u32;
                sequence.iter_mut().for_each(|row| row[3] = len);
            }
        }
        written.rows.write(device, &inputs.rows, rows.as_flattened());
        if !places.is_empty() {
            written.places.write(device, &inputs.row_places, places.as_flattened());
        }
        written.selected.write(device, &inputs.selected, &selected);
        if !tiles.is_empty() {
            device.queue.write_buffer(&inputs.tiles, 0, bytemuck::cast_slice(&tiles));
        }
        let mut shape = PassShape::of(pass, selected, tiles.len(), self.steps.selects);
        let mut lives = Vec::new();
        if self.plan.has_effort() {
            let mut of_all = pass.efforts.to_vec();
            of_all.resize(pass.rows.len(), Effort::FULL);
            let of_selected: Vec<Effort> =
                shape.selected.iter().map(|&row| of_all[row as usize]).collect();
            lives = inputs.live_words(&of_all, &of_selected);
            written.lives.write(device, &inputs.lives, &lives);
            let below = |all: &[Effort]| all.iter().filter(|one| inputs.is_below(**one)).count();
            shape.below = [below(&of_all), below(&of_selected)];
        }
        if !self.plan.states.is_empty() {
            let (order, sequences) = by_sequence(pass.rows);
            written.order.write(device, &inputs.order, &order);
            written.sequences.write(device, &inputs.sequences, sequences.as_flattened());
            shape.sequences = sequences.len();
        }
        Ok((shape, PassWords { rows, places, tiles, lives }))
    }

    /// The dispatches of a pass, step by step, of a range of steps: none for those that
    /// its phase does not run.
    fn dispatches(
        &self,
        shape: &PassShape,
        steps: Range<usize>,
    ) -> impl Iterator<Item = StepDispatches<'_>> {
        let &PassShape { phase, rows, bound, tiles, distinct, sequences, below, alone, .. } = shape;
        let selected = shape.selected.len();
        let running = self.plan.steps_of(phase);
        steps.clone().zip(&self.plan.steps[steps]).map(move |(i, step)| {
            let of_selected = self.plan.step_rows(step) == Rows::Selected;
            let rows = if of_selected { selected } else { rows };
            let class = self.class_of(phase, rows, of_selected);
            let calls: &[Dispatch] = match (rows, alone) {
                (0, _) => &[],
                _ if !running.contains(&i) => &[],
                (_, true) => &self.steps.alone[i],
                (_, false) => &self.steps.classes[class as usize][i],
            };
            let below = below[usize::from(of_selected)];
            let shape = StepShape { rows, bound, tiles, distinct, sequences, below };
            StepDispatches { calls, shape }
        })
    }

    /// Gives up the oldest pass, if it is that of the ticket.
    fn give_up(&mut self, ticket: Ticket) {
        let before = self.in_flight.len();
        self.in_flight.give_up(ticket);
        if self.in_flight.len() < before {
            self.repeat.given.pop_front();
        }
    }

    /// The variant of a step's dispatches. Whether a batch of windows changes the bits
    /// of a hypothesis matters to nobody, so its products run on matrix cores as soon
    /// as these are faster.
    fn class_of(&self, phase: Phase, rows: usize, of_selected: bool) -> RowClass {
        match RowClass::of(phase, rows, of_selected) {
            RowClass::Eight | RowClass::Sixteen
                if phase == Phase::Decode && self.exact_rows() < EXACT_ROWS =>
            {
                RowClass::ThirtyTwo
            }
            class => class,
        }
    }

    /// Rows of decoding passes up to which each has the bits that it has alone.
    fn exact_rows(&self) -> usize {
        match (self.device.capabilities.matrix_cores, self.plan.encoder) {
            (true, None) => EXACT_ROWS,
            (true, Some(_)) => RowClass::Four.batch(),
            (false, _) => usize::MAX,
        }
    }
}

impl Executable for GpuExecutable {
    fn reads_files(&self) -> bool {
        // weights in the CPU's memory come from the file in each pass
        self.host.is_some()
    }

    fn pipeline(&self) -> Pipeline {
        let alone = self.host.is_none();
        Pipeline {
            depth: if alone { DEPTH } else { 1 },
            stages: 1,
            repeat: if alone { MAX_REPEAT } else { 1 },
            phases_agree: false,
            exact_rows: self.exact_rows(),
            late_draws: alone,
            streams: self.host.as_ref().map(|host| host.stream_from),
        }
    }

    fn shared(&self) -> Option<Shared> {
        Some(Arc::<Own>::clone(&self.pair.own))
    }

    fn pair(&mut self, partner: Shared) -> bool {
        self.pair_with(partner)
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        self.in_flight.check_free(pass.logits() > 0)?;
        self.check_host(pass)?;
        let finds_states = self.finds_states(pass);
        if pass.draws_later() || (finds_states && pass.rows.len() > self.limits.decode_rows()) {
            self.settle(None)?;
        }
        let (shape, words) = self.begin(pass)?;
        let call: SampleCall = self.sample.prepare(&self.device, pass);
        let waits = self.waits(&shape);
        let first = match (waits, self.plan.host.last()) {
            (true, Some(last)) => last.steps.end,
            _ => self.run_host(&shape)?,
        };
        let run = Run {
            first,
            waits,
            // a draw that follows is not repeated
            persists: self.kernels_of(&shape).is_some_and(|kernels| kernels.covers(shape.bound))
                && !pass.draws_later(),
            logits: wanted_logits(pass, &shape),
            keeps_hidden: pass.keeps_hidden,
            finds_states,
            copies: Copies::of(pass),
            shape,
            call,
            repeat: pass.repeat,
        };
        let mut guess = self.guessed(&run);
        let given = self.given(&run, words, pass);
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        if !waits {
            self.enter_last(&mut encoder, &run.shape);
        }
        self.find(&mut encoder, &run.copies, given.as_ref());
        let mut recorded = self.recorded_of(&run, encoder, guess.as_mut());
        if self.host.is_some() && !waits {
            recorded.finish(&self.device);
            self.finish_host()?;
        }
        let ticket = self.in_flight.submit(&self.device, recorded, call, pass.repeat)?;
        if !waits {
            self.release_host()?;
        }
        self.repeat.given.push_back(given);
        self.written.advance(pass);
        self.pair.own.end(pass.rows.len(), self.in_flight.is_settled());
        if let ([row], true) = (pass.rows, pass.draws_later()) {
            self.in_flight.await_draw(*row);
        }
        let next = match (waits, self.in_flight.newest()) {
            (true, Some(submission)) => {
                let shapes = [&run.shape, &run.shape.next()];
                let next = self.compute_waits(shapes, &submission, Some(&call));
                Some(next.inspect_err(|_| {
                    self.give_up(ticket);
                    self.pair.own.begin();
                })?)
            }
            _ => self.recorded_next(&run, guess.is_some()),
        };
        self.guess(&run, next);
        Ok(ticket)
    }

    fn ranks(&self) -> bool {
        self.ranks.is_some()
    }

    fn submit_ranked(&mut self, pass: &Pass<'_>, ranking: &Ranking<'_>) -> Result<Ticket, Error> {
        self.start_ranked(pass, ranking)
    }

    /// The draw has commands of its own, which the GPU runs after those of the pass: meanwhile the
    /// host finds the draw.
    fn draw(
        &mut self,
        ticket: Ticket,
        sample: Option<&pelton_graph::Sample<'_>>,
    ) -> Result<(), Error> {
        let row = self.in_flight.begin_draw(ticket)?;
        let Some(&sample) = sample else { return Ok(()) };
        let (rows, wants) = ([row], [Want::Sample(sample)]);
        let pass = Pass::new(Phase::Decode, &rows, &wants);
        pass.check(&self.plan, &self.limits, &self.tables)?;
        let call = self.sample.prepare(&self.device, &pass);
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut compute = encoder.begin_compute_pass(&Default::default());
        self.sample.record(&mut compute, &call);
        drop(compute);
        let results = (self.sample.results(), self.sample.result_bytes(&call, 1));
        self.in_flight.submit_draw(&self.device, encoder, call, results);
        self.written.advance(&pass);
        Ok(())
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        if let Err(error) = self.settle(Some(ticket)) {
            // a pass that fails here is taken too
            self.give_up(ticket);
            return Err(error);
        }
        let Self { device, in_flight, sample, results, .. } = self;
        let Results { sample_bytes, samples, logits, hidden, drafted } = results;
        let before = in_flight.len();
        let taken = in_flight.take(device, ticket, sample_bytes, [logits, hidden]);
        if in_flight.len() < before {
            self.repeat.given.pop_front();
        }
        let taken = taken?;
        samples.clear();
        let (sampled, tokens) = sample_bytes.split_at(sample_bytes.len() - taken.drafted_bytes());
        sample.parse(&taken.sample, taken.repeat, sampled, samples);
        drafted.clear();
        drafted.extend(tokens.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)));
        let (logits, hidden) = (&logits[..taken.logits_len()], &hidden[..taken.hidden_len()]);
        Ok(Outputs { logits, samples, hidden, drafted })
    }

    fn is_done(&self, ticket: Ticket) -> bool {
        self.in_flight.is_done(&self.device, ticket)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.copy_pages(group, &[[from, to]])
    }

    fn copy_pages(&mut self, group: usize, pages: &[[u32; 2]]) -> Result<(), Error> {
        let count = self.limits.pages.get(group).copied().unwrap_or(0);
        if let Some(page) = pages.as_flattened().iter().find(|page| **page as usize >= count) {
            return Err(Error::Pass(format!(
                "page {page} of cache group {group}, expected one of {count}"
            )));
        }
        self.settle(None)?;
        self.caches.pages.submit(&self.device, group, pages)
    }

    fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.caches.states.save(&self.device, slot, snapshot)
    }

    fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.caches.states.restore(&self.device, snapshot, slot)
    }

    fn set_adapters(&mut self, slot: u32, adapters: &[(u32, f32)]) -> Result<(), Error> {
        let row = self.plan.adapters_of(self.limits.sequences, slot, adapters)?;
        self.inputs.write_adapters(&self.device, slot, &row);
        Ok(())
    }

    fn profile(&mut self, pass: &Pass<'_>, passes: usize) -> Result<Profile, Error> {
        self.profile_pass(pass, passes)
    }
}

impl Drop for GpuExecutable {
    /// Waits for all passes: a process that ends while the GPU runs can hang it.
    fn drop(&mut self) {
        let _ = self.device.wait();
    }
}
