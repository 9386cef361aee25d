//! A forward pass as data: rows of tokens, edits of page tables, the wanted results.
//!
//! Executables run passes in the order of submission. On the CPU `submit` runs the pass; on a GPU
//! it records and submits it.
//!
//! - One row of a sequence is decoding, several are batched decoding or the verification of a
//!   draft, many are a prompt.
//! - The executable keeps the `RECENT` (128) newest sampled tokens of each slot in a ring.
//!   `Input::Sampled` reads it, for any number of sequences.
//! - `Want::Sample` writes the drawn token to the ring. Only the token and requested
//!   log-probabilities reach the host. Penalties need the newest tokens of the history. So a want
//!   has the tokens that the host knows, and a count of pending ones in the ring.
//! - `repeat` runs several passes in one submission. Each row advances by a position, its input
//!   becomes `Sampled`, and the index of its draw advances by one.
//! - `keeps_hidden` returns the hidden states `[rows, hidden]`, and `hidden` gives them to the plan
//!   of a head that predicts further tokens. In later repeats a head reads its own.
//! - Two executables of a device can be partners, such as a model and its head. A pass then reads
//!   the hidden states of the other's newest pass ([`Hidden::Partner`]) and the tokens that it
//!   sampled ([`Input::Drafted`]), so that the host need not wait between passes of the two.
//! - Rows of `Phase::Encode` are the positions of windows, without tokens: the encoder of a plan
//!   turns their features, which `hidden` has, into keys and values that later rows attend to.
//! - `efforts` has the effort of each row, so rows of different effort share a pass.
//! - Rows of a picture are [`Input::Embedding`]: a vision tower has made their embeddings. `places`
//!   has the coordinates of rows, and the group of rows that they belong to.

use pelton_sampling::{Draw, Sampled};

use crate::{Effort, Error, Phase, TableEdit};

/// Number of the newest tokens of each slot that an executable keeps: the maximum of
/// [`Sample::pending`], in the last repeat too.
pub const RECENT: usize = 128;

/// The maximum of [`Pass::repeat`].
pub const MAX_REPEAT: u32 = 32;

/// The source of a row's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A token that the host knows.
    Token(u32),
    /// The token that was sampled for the row's position in the row's slot. The executable keeps
    /// it, so the host need not have taken it yet.
    Sampled,
    /// The token that the [partner](crate::Executable::pair) has sampled for this position of its
    /// own sequence in the row's slot. The partner keeps its newest [`RECENT`], and the results of
    /// the pass have the tokens ([`Outputs::drafted`]).
    Drafted(u32),
    /// No token: the row is a position of a window or a patch of a picture, whose features are in
    /// [`Pass::hidden`].
    Features,
    /// No token: the row has this row of [`Pass::embeddings`], as [`Plan::injected`] says.
    ///
    /// [`Plan::injected`]: crate::Plan::injected
    Embedding(u32),
}

/// The values of the buffers of a plan's [entry](crate::Plan::entry) when a pass begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hidden<'a> {
    /// Those of the host: `[rows, width]` of each buffer, one buffer after the other, or the
    /// features of an [encoder](crate::Encoder)'s rows. Empty for plans without such buffers.
    Given(&'a [f32]),
    /// Those of the [exit](crate::Plan::exit) after the pass of this executable that was submitted
    /// before: for each row the index of a row of that pass.
    Before(&'a [u32]),
    /// Those of the exit of the [partner](crate::Executable::pair) after the pass of it that was
    /// submitted last: for each row the index of a row of that pass. Where the buffers of the entry
    /// are `n` times as wide as those of the exit, a row is `n` neighbouring rows of that pass, and
    /// its index counts such groups. A backend may refuse those of a pass of few rows that is not
    /// taken yet, because it may have to run again.
    Partner(&'a [u32]),
}

impl<'a> Hidden<'a> {
    /// No values.
    pub const NONE: Self = Self::Given(&[]);

    /// The values of the host; empty if they are those of another pass.
    pub const fn given(self) -> &'a [f32] {
        match self {
            Self::Given(values) => values,
            Self::Before(_) | Self::Partner(_) => &[],
        }
    }
}

/// One token of one sequence: a row of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The source of its token.
    pub input: Input,
    /// Its position in the sequence, from 0.
    pub position: u32,
    /// The slot of its sequence, an index of page tables and of sampled tokens.
    pub slot: u32,
}

/// The place of a row, where its position alone does not give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its coordinates for rotary embeddings: time, row and column. A token of a text has the same
    /// in all three, which is its position if no picture comes before it.
    pub at: [u32; 3],
    /// The positions `first..end` of its group: the rows of its picture in a text, or of its window
    /// in a picture. A row of a text is a group of its own.
    pub group: [u32; 2],
}

impl Place {
    /// The place of a token at this position of a text without pictures.
    pub const fn of(position: u32) -> Self {
        Self { at: [position; 3], group: [position, position + 1] }
    }

    /// The place of the next token, `repeat` passes later.
    #[must_use]
    pub const fn after(self, repeat: u32) -> Self {
        if repeat == 0 {
            return self;
        }
        let ([t, h, w], [first, end]) = (self.at, self.group);
        Self { at: [t + repeat, h + repeat, w + repeat], group: [first + repeat, end + repeat] }
    }
}

/// A token to be sampled from the logits `[vocab]` of one row. It becomes the slot's token at the
/// row's position plus one.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The index of the row in [`Pass::rows`].
    pub row: u32,
    /// Parameters of the draw.
    pub draw: Draw<'a>,
    /// The tokens of the history before the [`pending`](Self::pending) ones, oldest first: at most
    /// the penalties' window; empty without penalties.
    pub recent: &'a [u32],
    /// Number of the newest tokens of the history, the row's own included, which the host may not
    /// know yet: the executable appends them to `recent`. 0 without penalties. At most the row's
    /// position plus one; with the repeats, which add one each, at most [`RECENT`].
    pub pending: u32,
}

/// A result that is wanted of one row.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// Its raw logits `[vocab]`, on the host; of a plan without logits its embedding `[width]`.
    Logits {
        /// The index of the row in [`Pass::rows`].
        row: u32,
    },
    /// A sampled token.
    Sample(Sample<'a>),
    /// A token whose draw is not known yet: [`Executable::draw`](crate::Executable::draw) samples
    /// it after the pass was submitted. The pass has this single want, a single row and no repeats,
    /// on a backend with [`Pipeline::late_draws`](crate::Pipeline::late_draws).
    Later {
        /// The index of the row in [`Pass::rows`].
        row: u32,
    },
}

impl Want<'_> {
    /// The index of its row in [`Pass::rows`].
    pub const fn row(&self) -> u32 {
        match self {
            Self::Logits { row } | Self::Later { row } => *row,
            Self::Sample(sample) => sample.row,
        }
    }
}

/// One forward pass over rows of any number of sequences, as data.
///
/// A row attends to the cached positions of its slot up to its own, the rows of this pass included.
/// So the rows of a slot come in the order of their positions, and every position before the first
/// of them has run before.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// The kind of work, which decides the kernels.
    pub phase: Phase,
    /// The rows.
    pub rows: &'a [Row],
    /// Edits of page tables, applied before the rows run.
    pub tables: &'a [TableEdit<'a>],
    /// The wanted results, in ascending order of rows; of a row at most one of each kind.
    pub wants: &'a [Want<'a>],
    /// The place of each row; empty if all are [`Place::of`] their positions.
    pub places: &'a [Place],
    /// The embeddings of [`Input::Embedding`]s `[embeddings, slices, hidden]`.
    pub embeddings: &'a [f32],
    /// The effort of each row, in all repeats; empty if all are full. Below 1 only if the plan has
    /// [weights](crate::Weight::marked) for it.
    pub efforts: &'a [Effort],
    /// The values that the buffers of the plan's [entry](crate::Plan::entry) begin with.
    pub hidden: Hidden<'a>,
    /// Whether the results have the hidden states of all rows: the buffers of [`Plan::kept`]. Only
    /// a pass that runs once has them.
    ///
    /// [`Plan::kept`]: crate::Plan::kept
    pub keeps_hidden: bool,
    /// Number of passes that run one after the other, 1 to [`MAX_REPEAT`]. Each repeat after the
    /// first runs the tokens that the previous one sampled, at the next positions, with draws of
    /// the next indices. Above 1 every row is of a different slot and has one [`Want::Sample`]
    /// without a mask, and there is no other want.
    pub repeat: u32,
}

impl<'a> Pass<'a> {
    /// A pass that runs once, of rows whose page tables need no edit.
    pub fn new(phase: Phase, rows: &'a [Row], wants: &'a [Want<'a>]) -> Self {
        Self {
            phase,
            rows,
            tables: &[],
            wants,
            places: &[],
            embeddings: &[],
            efforts: &[],
            hidden: Hidden::NONE,
            keeps_hidden: false,
            repeat: 1,
        }
    }

    /// The place of row `i` in the first of the repeats.
    pub fn place(&self, i: usize) -> Place {
        self.places.get(i).copied().unwrap_or(Place::of(self.rows[i].position))
    }

    /// The number of [`Want::Sample`]s.
    pub fn samples(&self) -> usize {
        self.wants.iter().filter(|want| matches!(want, Want::Sample(_))).count()
    }

    /// Whether its only token is drawn after its submission ([`Want::Later`]).
    pub fn draws_later(&self) -> bool {
        self.wants.iter().any(|want| matches!(want, Want::Later { .. }))
    }

    /// The number of rows with a token of the partner.
    pub fn drafted(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.input, Input::Drafted(_))).count()
    }

    /// The number of [`Want::Logits`].
    pub fn logits(&self) -> usize {
        self.wants.iter().filter(|want| matches!(want, Want::Logits { .. })).count()
    }
}

/// The rows of a pass that is [submitted](crate::Executable::submit_ranked) with it give rankings
/// in place of logits: the likeliest tokens of two parts of the vocabulary, and the sum of
/// exponentials of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranking<'a> {
    /// The allowed tokens of each want `[wants, ⌈tokens / 32⌉]`, a bit each: token `t` is bit
    /// `t % 32` of word `t / 32`. Others count as if their logits were -∞, as do NaN.
    pub masks: &'a [u32],
    /// The first token of the second part.
    pub split: u32,
    /// Tokens of each part, 1 to [`MOST`](Self::MOST).
    pub count: usize,
}

impl Ranking<'_> {
    /// The greatest [`count`](Self::count).
    pub const MOST: usize = 33;

    /// Elements of the results of a want, in [`Outputs::logits`]. Each part has the greatest logit
    /// and the sum of `exp(logit - greatest)`, 0 if nothing is allowed, then pairs of a logit and a
    /// token, a whole number: descending, equal logits by token. Missing pairs have the token -1.
    pub const fn width(count: usize) -> usize {
        4 * (1 + count)
    }

    /// Checks it for a pass of as many wants, over ids below `tokens`.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if a mask is missing or the count is out of its range.
    pub fn check(&self, wants: usize, tokens: usize) -> Result<(), Error> {
        let words = wants * tokens.div_ceil(32);
        if self.masks.len() != words || !(1..=Self::MOST).contains(&self.count) {
            return Err(Error::Pass(format!(
                "a ranking of {} tokens with {} words of masks, expected 1 to {} tokens and {words} words",
                self.count,
                self.masks.len(),
                Self::MOST
            )));
        }
        Ok(())
    }
}

/// A pass that was submitted and not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The results of one pass.
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    /// The results `[wants, output width]` of the [`Want::Logits`], in their order; of a pass with
    /// a [`Ranking`] those that it keeps `[wants, Ranking::width]`.
    pub logits: &'a [f32],
    /// The sampled tokens `[repeat, wants]` of the [`Want::Sample`]s, in their order; or the token
    /// of a [`Want::Later`], if one was drawn.
    pub samples: &'a [Sampled],
    /// The values `[rows, width]` of each kept buffer, one buffer after the other, if the pass
    /// [keeps them](Pass::keeps_hidden).
    pub hidden: &'a [f32],
    /// The tokens of the rows with [`Input::Drafted`], in their order, as the pass has run them.
    pub drafted: &'a [u32],
}
