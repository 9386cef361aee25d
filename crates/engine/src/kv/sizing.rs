//! From load options and free memory to the sizes that an executable allocates for.
//!
//! The memory for keys and values is by default enough for all sequences at full length, as far as
//! the free memory allows. A context that cannot fit is refused with the greatest one that fits.
//! Snapshots of recurrent states take at most a quarter of the memory of caches.

use pelton_graph::{Cache, CacheGroup, Limits, Needs, Op, OutputKind, PAGE, Plan, pages_for};

use crate::{
    Error,
    api::{KvMemory, LoadOptions, ROWS_MAX, SEQUENCES_MAX},
};

/// The most logit biases of one request.
pub(crate) const LOGIT_BIAS_MAX: usize = 512;
/// The context where none is chosen and the model's is longer: enough for a conversation.
const DEFAULT_CONTEXT: usize = 4096;
/// Sequences of a model without logits where none are chosen.
const DEFAULT_TEXTS: usize = 32;
/// Rows of which one pass can want something, at least.
const WANTS: usize = 64;
/// The share of the free memory that caches may take where the options do not say.
const AUTO_SHARE: f64 = 0.9;

/// The same where the context adapts: other programs and other models are to fit too.
const FIT_SHARE: f64 = 0.5;

/// The most snapshots of recurrent states for cached prefixes.
const CACHED_SNAPSHOTS: usize = 8;
/// The part of the memory of caches that snapshots may take: one of this many.
const SNAPSHOT_PART: u64 = 4;

/// The sizes that are known at load.
pub(crate) struct Sizes<'a> {
    pub(crate) plan: &'a Plan,
    /// Tokens of the tokenizer, trailing unused ids excluded.
    pub(crate) tokens: usize,
    /// The part of each device.
    pub(crate) parts: &'a [Part<'a>],
    /// Rows of a pass where none are chosen.
    pub(crate) rows: usize,
}

/// The part of a model that a device has.
pub(crate) struct Part<'a> {
    pub(crate) plan: &'a Plan,
    /// Bytes that caches and recurrent states can be allocated from, if known, next to all else
    /// that a load with these limits needs. The limits have no pages.
    pub(crate) free: Free<'a>,
}

/// The free bytes of a device, by the limits of a load.
pub(crate) type Free<'a> = Box<dyn Fn(&Limits) -> Result<Option<u64>, Error> + 'a>;

/// The most pages of a windowed group that a sequence holds while it decodes.
pub(crate) fn windowed_pages(window: usize) -> usize {
    window.div_ceil(PAGE) + 2
}

/// Positions of a sequence that the options ask for, whatever the model's; `None` for its own.
pub(crate) fn wanted_context(options: &LoadOptions) -> Option<usize> {
    options.context.or((!options.fit_context).then_some(DEFAULT_CONTEXT))
}

/// Bytes of the caches of a plan in which all sequences have their full length.
pub(crate) fn full_length_bytes(options: &LoadOptions, plan: &Plan) -> u64 {
    let context = wanted_context(options).map_or(plan.context, |context| context.min(plan.context));
    let positions = pages_for(context) * PAGE;
    let caches = plan.caches.iter().map(|cache| cache.bytes_per_position(options.kv) as u64);
    let sequences = options.max_concurrent.unwrap_or(1) as u64;
    caches.sum::<u64>().saturating_mul(positions as u64).saturating_mul(sequences)
}

/// Bytes that are free for caches and recurrent states next to all else that a load needs.
/// Weights in the map of their file can be evicted, so that a quarter of the memory is left
/// however large they are.
pub(crate) fn free(budget: Option<u64>, needs: &Needs, states: u64) -> Option<u64> {
    const LEAST_PART: u64 = 4;
    let budget = budget?;
    let free = budget.saturating_sub(needs.total().saturating_sub(states));
    Some(free.saturating_sub(needs.mapped).max(free.min(budget / LEAST_PART)))
}

/// Bytes of the caches and recurrent states of a load.
pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> u64 {
    let of_cache = |cache: &Cache| {
        let pages = limits.pages.get(cache.group).copied().unwrap_or(0);
        (pages * PAGE) as u64 * cache.bytes_per_position(limits.kv) as u64
    };
    let state: u64 = plan.states.iter().map(|state| 4 * state.len as u64).sum();
    let states = (limits.sequences + limits.snapshots) as u64;
    plan.caches.iter().map(of_cache).sum::<u64>() + state * states
}

/// The limits of a load.
///
/// # Errors
///
/// [`Error::Option`] for a value that is out of its range, [`Error::Context`] for a context that
/// is longer than the model's, [`Error::KvMemory`] for one that the memory cannot hold.
pub(crate) fn limits(options: &LoadOptions, sizes: &Sizes<'_>) -> Result<Limits, Error> {
    let own = sizes.plan.context;
    let context = wanted_context(options).unwrap_or(own);
    let context = match options.context {
        Some(asked) if asked > own && options.fit_context => {
            tracing::warn!(asked, context = own, "the context is cut to the model's own");
            own
        }
        Some(asked) => asked,
        None => context.min(own),
    };
    if context == 0 || context > own {
        return Err(Error::Context { asked: context, context: own });
    }
    if !options.fit_context {
        return limits_of(options, sizes, context, AUTO_SHARE);
    }
    match (limits_of(options, sizes, context, FIT_SHARE), options.context) {
        (Err(Error::KvMemory { fits, .. }), None) if fits >= DEFAULT_CONTEXT => {
            tracing::info!(own, context = fits, "the context is what half of the memory holds");
            limits_of(options, sizes, fits, FIT_SHARE)
        }
        (Err(Error::KvMemory { .. }), asked) => {
            let context = asked.map_or(own.min(DEFAULT_CONTEXT), |_| context);
            limits_of(options, sizes, context, AUTO_SHARE)
        }
        (limits, _) => limits,
    }
}

/// The limits of a load with this context, whose caches take at most a share of the free memory
/// where the options do not say.
fn limits_of(
    options: &LoadOptions,
    sizes: &Sizes<'_>,
    context: usize,
    share: f64,
) -> Result<Limits, Error> {
    let plan = sizes.plan;
    let generates = plan.output == OutputKind::Logits;
    let sequences = options.max_concurrent.unwrap_or(if generates { 1 } else { DEFAULT_TEXTS });
    let sequences = in_range("max_concurrent", sequences, 1, SEQUENCES_MAX)?;
    in_range("queue_requests", options.queue_requests, 1, usize::MAX)?;
    in_range("queue_tokens", options.queue_tokens, 1, usize::MAX)?;
    let rows = options.rows.unwrap_or(match plan.whole_sequences {
        false => sizes.rows.max(sequences),
        true => (pages_for(context) * PAGE).clamp(sizes.rows.max(sequences), ROWS_MAX),
    });
    let rows = in_range("rows", rows, PAGE.max(sequences), ROWS_MAX)?;
    // whole pages, so that a chunk of a prompt can always end at the border of one
    let mut rows = rows.next_multiple_of(PAGE);
    if generates {
        rows = rows.min((pages_for(context) * PAGE).max(sequences));
    }
    let pools = plan.steps.iter().any(|step| matches!(step.op, Op::Pool(_)));
    let limits = Limits {
        rows,
        // all rows can be wanted of a plan that does not pool
        wants: sequences.max(if generates || pools { WANTS } else { rows }),
        sequences,
        context,
        pages: vec![0; plan.groups.len()],
        snapshots: 0,
        kv: options.kv,
        tokens: sizes.tokens.min(plan.vocab),
        bias: LOGIT_BIAS_MAX,
    };
    let pages_of = |part: &Plan, kv_memory, free| {
        Pages::new(options, (plan, part), sequences, rows, context).choose(kv_memory, free, share)
    };
    // a page is on all devices, so the one with the least memory decides
    let mut chosen = Vec::new();
    for part in sizes.parts {
        let free = (part.free)(&limits)?;
        chosen.push(match (options.kv_memory, sizes.parts.len()) {
            // a number of bytes is for all parts together
            (KvMemory::Bytes(_), 2..) => {
                pages_of(part.plan, KvMemory::Bytes(free.unwrap_or(u64::MAX)), free)?
            }
            (kv_memory, _) => pages_of(part.plan, kv_memory, free)?,
        });
    }
    if let (KvMemory::Bytes(_), 2..) = (options.kv_memory, sizes.parts.len()) {
        chosen.push(pages_of(plan, options.kv_memory, None)?);
    }
    let group = |group: usize| chosen.iter().map(|(pages, _)| pages[group]).min().unwrap_or(0);
    let pages = (0..plan.groups.len()).map(group).collect();
    let snapshots = chosen.iter().map(|(_, snapshots)| *snapshots).min().unwrap_or(0);
    Ok(Limits { pages, snapshots, ..limits })
}

fn in_range(name: &'static str, found: usize, least: usize, most: usize) -> Result<usize, Error> {
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    let expected = match most {
        usize::MAX => format!("at least {least}"),
        _ => format!("{least} to {most}"),
    };
    Err(Error::Option { option: name, found: found.to_string(), expected })
}

/// How many pages each group needs, by the number of pages of a group without a window.
struct Pages<'a> {
    groups: &'a [CacheGroup],
    /// Bytes of a page of each group.
    bytes: Vec<u64>,
    sequences: usize,
    /// Pages of one pass's rows.
    chunk: usize,
    context: usize,
    /// Whether sequences live on after their prompts.
    generates: bool,
    /// Bytes of the recurrent states of one sequence.
    state: u64,
}

impl<'a> Pages<'a> {
    fn new(
        options: &LoadOptions,
        (plan, part): (&'a Plan, &Plan),
        sequences: usize,
        rows: usize,
        context: usize,
    ) -> Self {
        let bytes = |g| {
            let caches = part.caches.iter().filter(|cache| cache.group == g);
            PAGE as u64
                * caches.map(|cache| cache.bytes_per_position(options.kv) as u64).sum::<u64>()
        };
        let state = part.states.iter().map(|state| 4 * state.len as u64).sum();
        Self {
            groups: &plan.groups,
            bytes: (0..plan.groups.len()).map(bytes).collect(),
            sequences,
            chunk: rows.div_ceil(PAGE),
            context,
            generates: plan.output == OutputKind::Logits,
            state,
        }
    }

    /// The pages of each group, where one without a window has `full`. A windowed group needs those
    /// of running sequences and of the prompts in one pass, and has as many again for cached
    /// prefixes.
    fn of(&self, full: usize) -> Vec<usize> {
        let of = |group: &CacheGroup| match group.window {
            None => full,
            Some(window) => {
                let running = self.sequences.saturating_mul(windowed_pages(window));
                full.min(running.saturating_mul(2).saturating_add(self.chunk))
            }
        };
        self.groups.iter().map(of).collect()
    }

    fn bytes_of(&self, full: usize) -> u64 {
        let each = self.of(full).into_iter().zip(&self.bytes);
        each.fold(0, |sum, (pages, &bytes)| sum.saturating_add(bytes.saturating_mul(pages as u64)))
    }

    /// The most pages of a group without a window, up to `most`, for which all groups fit.
    fn fitting(&self, available: u64, most: usize) -> usize {
        let (mut fits, mut too_many) = (0, most + 1);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            match self.bytes_of(middle) <= available {
                true => fits = middle,
                false => too_many = middle,
            }
        }
        fits
    }

    /// Snapshots of recurrent states: of running sequences and of cached prefixes, in at most a
    /// part of the memory of caches.
    fn snapshots(&self, available: u64) -> usize {
        if self.state == 0 {
            return 0;
        }
        let wanted = self.sequences.saturating_mul(2).saturating_add(CACHED_SNAPSHOTS);
        let fitting = available / SNAPSHOT_PART / self.state;
        wanted.min(usize::try_from(fitting).unwrap_or(usize::MAX))
    }

    /// The pages of each group, and the snapshots of recurrent states.
    fn choose(
        &self,
        kv_memory: KvMemory,
        free: Option<u64>,
        auto: f64,
    ) -> Result<(Vec<usize>, usize), Error> {
        let least = pages_for(self.context);
        let mut all = least.saturating_mul(self.sequences).min(u32::MAX as usize / PAGE);
        if !self.generates {
            // a text is gone after its last pass: enough for one pass that runs and one that is
            // next
            all = all.min(least.max(2 * (self.chunk + self.sequences)));
        }
        let states = self.state.saturating_mul(self.sequences as u64);
        if let Some(free) = free
            && states > free
        {
            return Err(Error::Option {
                option: "max_concurrent",
                found: self.sequences.to_string(),
                expected: format!(
                    "at most {}: the recurrent states of each need {} bytes of the {free} that \
                     are free",
                    free / self.state.max(1),
                    self.state
                ),
            });
        }
        let free = free.map(|free| free - states);
        let (available, most) = match kv_memory {
            KvMemory::Auto => (free.map_or(u64::MAX, |free| (free as f64 * auto) as u64), all),
            KvMemory::Bytes(bytes) => {
                if let Some(free) = free
                    && bytes > free
                {
                    return Err(Error::Option {
                        option: "kv_memory",
                        found: format!("{bytes} bytes"),
                        expected: format!("at most the {free} bytes that are free"),
                    });
                }
                (bytes, self.cacheable(all))
            }
            KvMemory::ShareOfFree(share) => {
                let fail = |expected: &str| Error::Option {
                    option: "kv_memory",
                    found: format!("a share of {share} of the free memory"),
                    expected: expected.to_owned(),
                };
                if !(share > 0.0 && share <= 1.0) {
                    return Err(fail("a share above 0, up to 1"));
                }
                let free = free.ok_or_else(|| {
                    fail("a number of bytes, as the free memory of this machine is not known")
                })?;
                ((free as f64 * f64::from(share)) as u64, self.cacheable(all))
            }
        };
        let mut snapshots = self.snapshots(available);
        let mut full = self.fitting(available - self.state * snapshots as u64, most);
        if full < least {
            // a sequence of full length comes before cached prefixes
            (snapshots, full) = (0, self.fitting(available, most));
        }
        if full < least {
            return Err(Error::KvMemory {
                context: self.context,
                needed: self.bytes_of(least),
                per_position: self.bytes.iter().sum::<u64>() / PAGE as u64,
                available,
                fits: full * PAGE,
            });
        }
        Ok((self.of(full), snapshots))
    }

    /// Where memory is given: more pages than the running sequences need, for cached prefixes.
    fn cacheable(&self, all: usize) -> usize {
        match self.groups.iter().all(|group| group.window.is_some()) {
            true => all,
            false => u32::MAX as usize / PAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use pelton_graph::build;
    use pelton_testing::ModelSpec;

    use super::*;

    /// Two layers of two heads of 16 elements: 256 bytes a position in f16.
    const PER_POSITION: u64 = 2 * 2 * 2 * 16 * 2;

    fn with(
        change: impl FnOnce(&mut Plan),
        options: &LoadOptions,
        free: Option<u64>,
    ) -> Result<Limits, Error> {
        let mut plan =
            build(&ModelSpec { context: 100_000, ..ModelSpec::default() }.checkpoint()).unwrap();
        change(&mut plan);
        let parts = [Part { plan: &plan, free: Box::new(move |_| Ok(free)) }];
        limits(options, &Sizes { plan: &plan, tokens: 70, parts: &parts, rows: 512 })
    }

    #[test]
    fn auto_is_all_sequences_at_full_length_if_it_fits() {
        let options = LoadOptions::default().context(1000).max_concurrent(4);
        let limits = with(|_| {}, &options, None).unwrap();
        assert_eq!((limits.pages, limits.rows, limits.tokens), (vec![64], 512, 70));
        // memory for less than two contexts
        let limits = with(|_| {}, &options, Some(2000 * PER_POSITION)).unwrap();
        assert_eq!(limits.pages, [1800 / 64]);
    }

    #[test]
    fn caches_are_next_to_all_else() {
        let needs = Needs { weights: 3, buffers: 5, mapped: 8, ..Needs::default() };
        // 2 of the buffers are the states, which come from the same memory as the caches
        assert_eq!(free(Some(24), &needs, 2), Some(10));
        assert_eq!(free(Some(24), &Needs { mapped: 40, ..needs }, 2), Some(6));
        assert_eq!(free(Some(8), &Needs { mapped: 40, ..needs }, 2), Some(2));
        assert_eq!(free(Some(4), &needs, 2), Some(0));
        assert_eq!(free(None, &needs, 0), None);
    }

    #[test]
    fn a_context_that_does_not_fit_is_refused_with_the_numbers() {
        let options = LoadOptions::default().context(50_000);
        let error = with(|_| {}, &options, Some(10_000 * PER_POSITION)).unwrap_err();
        let Error::KvMemory { context, needed, per_position, available, fits } = error else {
            panic!("{error}")
        };
        assert_eq!((context, per_position), (50_000, PER_POSITION));
        assert_eq!(needed, 50_048 * PER_POSITION);
        assert_eq!(available, 9000 * PER_POSITION);
        assert_eq!(fits, 9000 / 64 * 64);
        let fitting = LoadOptions::default().context(fits);
        assert!(with(|_| {}, &fitting, Some(10_000 * PER_POSITION)).is_ok());
    }

    #[test]
    fn a_context_that_adapts() {
        let fit = LoadOptions::default().fit_context().max_concurrent(4);
        let sizes = |options: &LoadOptions, positions: u64| {
            let limits = with(|_| {}, options, Some(positions * PER_POSITION)).unwrap();
            (limits.context, limits.pages[0] * PAGE)
        };
        let whole = 100_000usize.next_multiple_of(PAGE);
        assert_eq!(sizes(&fit, 10_000_000), (100_000, 4 * whole));
        // sequences share the half of the memory
        assert_eq!(sizes(&fit, 400_000), (100_000, 200_000));
        assert_eq!(sizes(&fit, 128_000), (64_000, 64_000));
        // less than half of the memory is enough for no conversation
        assert_eq!(sizes(&fit, 5_000), (4096, 4480));
        assert_eq!(sizes(&fit.clone().context(150_000), 10_000_000), (100_000, 4 * whole));
        // an explicit context may take more
        assert_eq!(sizes(&fit.clone().context(64_000), 80_000), (64_000, 71_936 + PAGE));
        let small = with(|_| {}, &fit, Some(1000 * PER_POSITION));
        assert!(matches!(small, Err(Error::KvMemory { .. })));
        assert!(with(|_| {}, &fit.context(0), None).is_err());
    }

    #[test]
    fn memory_that_is_given() {
        let options = LoadOptions::default().context(1000);
        let bytes = |n| options.clone().kv_memory(KvMemory::Bytes(n * PER_POSITION));
        // more than one sequence needs: for cached prefixes
        assert_eq!(with(|_| {}, &bytes(6400), None).unwrap().pages, [100]);
        assert!(matches!(with(|_| {}, &bytes(900), None), Err(Error::KvMemory { .. })));
        assert!(with(|_| {}, &bytes(6400), Some(100)).is_err());
        let share = |share| options.clone().kv_memory(KvMemory::ShareOfFree(share));
        let free = Some(12_800 * PER_POSITION);
        assert_eq!(with(|_| {}, &share(0.5), free).unwrap().pages, [100]);
        for wrong in [0.0, -1.0, 1.5, f32::NAN] {
            assert!(matches!(with(|_| {}, &share(wrong), free), Err(Error::Option { .. })));
        }
        assert!(matches!(with(|_| {}, &share(0.5), None), Err(Error::Option { .. })));
    }

    #[test]
    fn a_windowed_group_has_pages_for_windows() {
        let options = LoadOptions::default().context(100_000).max_concurrent(2);
        let two = |plan: &mut Plan| {
            plan.groups.push(CacheGroup { window: Some(512) });
            plan.caches[1].group = 1;
        };
        let limits = with(two, &options, None).unwrap();
        assert_eq!(limits.pages, [2 * 1563, 2 * 2 * 10 + 8]);
    }

    #[test]
    fn options_out_of_range_are_named() {
        let default = LoadOptions::default;
        for (options, name) in [
            (default().max_concurrent(0), "max_concurrent"),
            (default().max_concurrent(usize::MAX), "max_concurrent"),
            (default().rows(0), "rows"),
            (default().rows(usize::MAX), "rows"),
            (default().rows(64).max_concurrent(100), "rows"),
            (default().queue_requests(0), "queue_requests"),
            (default().queue_tokens(0), "queue_tokens"),
        ] {
            let error = with(|_| {}, &options, None).unwrap_err();
            assert!(matches!(error, Error::Option { option, .. } if option == name), "{error}");
        }
        for context in [0, 100_001, usize::MAX] {
            let error = with(|_| {}, &default().context(context), None).unwrap_err();
            assert!(matches!(error, Error::Context { asked, .. } if asked == context));
        }
    }
}
