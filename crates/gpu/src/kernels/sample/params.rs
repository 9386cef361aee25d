//! Parameters of the draws of one pass, as the kernels read them.
//!
//! The buffer has [`FIELDS`] words for each want, then lists of tokens, biases and masks to
//! which some of the fields point. The index of the next token, which passes advance, is in the
//! state, `[wants, 2]`.

use pelton_graph::{Pass, Sample, Want};
use pelton_sampling::{FixedParams, PENALTY_WINDOW_MAX};

use super::call::{NONE, SampleCall, stride};

/// Greatest top-k of a draw by one workgroup: its search ends with up to twice as many candidates,
/// one for each thread.
pub(super) const FEW: usize = 128;
/// Stages of the search for one cut: digits of a key and its rank.
pub(super) const LEVELS: usize = 5;

/// The names of the fields in WGSL, in the order of [`Field`].
pub(super) const FIELDS: [&str; 27] = [
    "KIND",
    "ROW",
    "LOGITS_ROW",
    "SEED_LOW",
    "SEED_HIGH",
    "INDEX",
    "PENDING",
    "TOP_K",
    "TOP_P",
    "REACH",
    "MANTISSA",
    "EXPONENT",
    "STAGES",
    "RECENT_AT",
    "RECENT_COUNT",
    "WINDOW_SIZE",
    "DIVIDE",
    "MULTIPLY",
    "PRESENCE",
    "FREQUENCY",
    "BIAS_AT",
    "BIAS_COUNT",
    "MASK",
    "LOG_PROBS",
    "WANTS",
    "RESULT_STRIDE",
    "ZERO",
];

/// One word of a want's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// A [`Kind`].
    Kind,
    /// The index of the row in the pass.
    Row,
    /// The index of the row's logits.
    LogitsRow,
    SeedLow,
    SeedHigh,
    /// The index of the first repeat's token, the lower word, and the tokens of the history that
    /// are in the ring then.
    Index,
    Pending,
    TopK,
    TopP,
    Reach,
    Mantissa,
    Exponent,
    /// The stage at which the search for cuts has ended.
    Stages,
    /// Where the known tokens of the history are, and their number.
    RecentAt,
    RecentCount,
    /// Newest tokens of the history that are penalized; 0 without penalties.
    WindowSize,
    /// Bits of the factors of positive and of other logits.
    Divide,
    Multiply,
    Presence,
    Frequency,
    /// Where the biases are, two words each, and their number.
    BiasAt,
    BiasCount,
    /// Where the mask is; [`NONE`] without.
    Mask,
    /// Number of likeliest tokens plus one; 0 without log-probabilities.
    LogProbs,
    /// Sampled wants of the pass, and words of a result.
    Wants,
    ResultStride,
    /// Always 0, which no compiler knows.
    Zero,
}

/// The kernels that a draw needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The likeliest token.
    Likeliest,
    /// A draw among at most [`FEW`] tokens.
    Few,
    /// Any other draw.
    Many,
}

/// The most words of the parameters of `wants` wants.
pub(super) fn most_words(vocab: usize, wants: usize, bias: usize) -> usize {
    wants * (FIELDS.len() + PENALTY_WINDOW_MAX + 2 * bias + vocab.div_ceil(32))
}

/// Parameters and state of the wants of one pass, in memory that is reused.
#[derive(Debug, Default)]
pub(super) struct Params {
    pub(super) words: Vec<u32>,
    /// `[wants, 2]`: the index, 64 bits, lower word first.
    pub(super) state: Vec<u32>,
}

impl Params {
    /// Replaces the parameters by those of a pass whose values have been checked.
    pub(super) fn fill(&mut self, pass: &Pass<'_>, tokens: usize) -> SampleCall {
        let wants = pass.samples();
        let mut call = SampleCall::of_wants(wants);
        for (_, sample) in samples(pass) {
            if let Some(top) = sample.draw.log_probs {
                let most = call.log_probs.unwrap_or(0).max(usize::from(top));
                call.log_probs = Some(most);
            }
        }
        self.state.clear();
        self.words.clear();
        self.words.resize(wants * FIELDS.len(), 0);
        for (want, (logits_row, sample)) in samples(pass).enumerate() {
            self.state.extend(halves(sample.draw.index));
            let mut words = WantWords { words: &mut self.words, begin: want * FIELDS.len() };
            words.set(Field::Row, sample.row);
            words.set(Field::Index, halves(sample.draw.index)[0]);
            words.set(Field::Pending, sample.pending);
            words.set(Field::LogitsRow, logits_row);
            words.set(Field::Wants, wants as u32);
            words.set(Field::Zero, 0);
            words.set(Field::ResultStride, stride(&call) as u32);
            let log_probs = sample.draw.log_probs.map_or(0, |top| u32::from(top) + 1);
            words.set(Field::LogProbs, log_probs);
            words.fill_draw(sample, tokens, &mut call);
            words.fill_lists(sample, &mut call);
        }
        call
    }
}

/// The parameters of one want, and the end of all words.
struct WantWords<'p> {
    words: &'p mut Vec<u32>,
    /// The place of the want's fields.
    begin: usize,
}

impl WantWords<'_> {
    fn set(&mut self, field: Field, value: u32) {
        self.words[self.begin + field as usize] = value;
    }

    /// The kind of the draw and its filters; `call` gets what they need of the pass.
    fn fill_draw(&mut self, sample: &Sample<'_>, tokens: usize, call: &mut SampleCall) {
        let kind = match &sample.draw.params {
            None => Kind::Likeliest,
            Some(params) => {
                let [low, high] = halves(sample.draw.seed);
                let FixedParams { top_k, top_p, reach, scale } = *params;
                self.set(Field::SeedLow, low);
                self.set(Field::SeedHigh, high);
                self.set(Field::TopK, top_k.max(1));
                self.set(Field::TopP, top_p);
                self.set(Field::Reach, reach);
                self.set(Field::Mantissa, scale.mantissa);
                self.set(Field::Exponent, scale.exponent as u32);
                if top_k as usize <= FEW {
                    Kind::Few
                } else {
                    let cuts = [(top_k as usize) < tokens, top_p < u32::MAX];
                    // a search without the first cut begins at the stages of the second
                    let stages = if cuts[1] { 2 * LEVELS } else { LEVELS };
                    self.set(Field::Stages, stages as u32);
                    let passes = LEVELS * cuts.into_iter().filter(|&cut| cut).count();
                    call.many = Some(call.many.unwrap_or(0).max(passes));
                    Kind::Many
                }
            }
        };
        self.set(Field::Kind, kind as u32);
        call.likeliest |= kind == Kind::Likeliest;
        call.few |= kind == Kind::Few;
    }

    /// The history, the biases and the mask, each at the end of all words; `call` gets what
    /// they need of the pass.
    fn fill_lists(&mut self, sample: &Sample<'_>, call: &mut SampleCall) {
        if let Some(penalties) = sample.draw.penalties.filter(|p| !p.are_neutral()) {
            call.adjust = true;
            self.set(Field::RecentAt, self.words.len() as u32);
            self.set(Field::RecentCount, sample.recent.len() as u32);
            self.set(Field::WindowSize, penalties.window.min(PENALTY_WINDOW_MAX as u32));
            self.set(Field::Divide, (1.0 / penalties.repetition).to_bits());
            self.set(Field::Multiply, penalties.repetition.to_bits());
            self.set(Field::Presence, penalties.presence.to_bits());
            self.set(Field::Frequency, penalties.frequency.to_bits());
            self.words.extend_from_slice(sample.recent);
        }
        if !sample.draw.bias.is_empty() {
            call.adjust = true;
            self.set(Field::BiasAt, self.words.len() as u32);
            self.set(Field::BiasCount, sample.draw.bias.len() as u32);
            self.words.extend(sample.draw.bias.iter().flat_map(|&(id, b)| [id, b.to_bits()]));
        }
        let mask = sample.draw.mask.map_or(NONE, |_| self.words.len() as u32);
        self.set(Field::Mask, mask);
        call.masks |= sample.draw.mask.is_some();
        self.words.extend_from_slice(sample.draw.mask.unwrap_or_default());
    }
}

/// The samples of a pass, each with the index of its row among the distinct rows of the wants.
fn samples<'a>(pass: &'a Pass<'_>) -> impl Iterator<Item = (u32, &'a Sample<'a>)> {
    let mut last = None;
    let mut distinct = 0u32;
    pass.wants.iter().filter_map(move |want| {
        if last.replace(want.row()).is_some_and(|last| last != want.row()) {
            distinct += 1;
        }
        match want {
            Want::Sample(sample) => Some((distinct, sample)),
            Want::Logits { .. } | Want::Later { .. } => None,
        }
    })
}

pub(super) fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_names() {
        assert_eq!(FIELDS[Field::Zero as usize], "ZERO");
        assert_eq!(Field::Zero as usize + 1, FIELDS.len());
        for (i, name) in FIELDS.iter().enumerate() {
            let plain = name.replace('_', "").to_lowercase();
            // the name of a variant is known from its Debug form only
            let field = ALL[i];
            assert_eq!(format!("{field:?}").to_lowercase(), plain);
            assert_eq!(field as usize, i);
        }
    }

    const ALL: [Field; FIELDS.len()] = {
        use Field::*;
        [
            Kind,
            Row,
            LogitsRow,
            SeedLow,
            SeedHigh,
            Index,
            Pending,
            TopK,
            TopP,
            Reach,
            Mantissa,
            Exponent,
            Stages,
            RecentAt,
            RecentCount,
            WindowSize,
            Divide,
            Multiply,
            Presence,
            Frequency,
            BiasAt,
            BiasCount,
            Mask,
            LogProbs,
            Wants,
            ResultStride,
            Zero,
        ]
    };
}
