//! The refusals of passes: each names the value that is out of its range.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use pelton_graph::{
    Effort, Error, Input, KvType, Limits, MAX_REPEAT, PAGE, PageTables, Pass, Phase, Plan, RECENT,
    Row, Sample, TableEdit, Want, build,
};
use pelton_sampling::{Draw, LOG_PROBS_MAX, PENALTY_WINDOW_MAX, Penalties};
use pelton_testing::ModelSpec;

const VOCAB: u32 = 80;
/// Pages of the tables of slots 0 and 1; slot 2 has none.
const PAGES: [u32; 3] = [2, 0, 1];

struct Loaded {
    plan: Plan,
    limits: Limits,
    tables: PageTables,
}

fn loaded() -> Loaded {
    let spec = ModelSpec { vocab: VOCAB as usize, ..ModelSpec::default() };
    let plan = build(&spec.checkpoint()).unwrap();
    let limits = Limits {
        rows: 4,
        wants: 3,
        sequences: 3,
        context: 256,
        pages: vec![8],
        snapshots: 0,
        kv: KvType::F16,
        tokens: 70,
        bias: 2,
    };
    let mut tables = PageTables::new(&limits);
    for slot in 0..2 {
        tables.apply(&TableEdit { group: 0, slot, first: 0, pages: &PAGES }).unwrap();
    }
    Loaded { plan, limits, tables }
}

impl Loaded {
    fn check(&self, pass: &Pass<'_>) -> Result<(), Error> {
        pass.check(&self.plan, &self.limits, &self.tables)
    }

    #[track_caller]
    fn accepts(&self, pass: &Pass<'_>) {
        self.check(pass).unwrap();
    }

    #[track_caller]
    fn refuses(&self, pass: &Pass<'_>, what: &str) {
        let error = self.check(pass).unwrap_err();
        assert!(matches!(error, Error::Pass(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains(what), "{text:?} without {what:?}");
    }

    /// Checks a pass of one row at `position` whose token is sampled.
    fn accepts_sample(&self, position: u32, sample: Sample<'_>) {
        self.accepts(&Pass::new(Phase::Decode, &[at(position)], &[Want::Sample(sample)]));
    }

    #[track_caller]
    fn refuses_sample(&self, position: u32, sample: Sample<'_>, what: &str) {
        let (rows, wants) = ([at(position)], [Want::Sample(sample)]);
        self.refuses(&Pass::new(Phase::Decode, &rows, &wants), what);
    }
}

fn at(position: u32) -> Row {
    Row { input: Input::Token(VOCAB - 1), position, slot: 0 }
}

/// A row of the other slot, whose token an earlier pass sampled.
fn other(position: u32) -> Row {
    Row { input: Input::Sampled, position, slot: 1 }
}

fn pass<'a>(rows: &'a [Row], wants: &'a [Want<'a>], repeat: u32) -> Pass<'a> {
    Pass { repeat, ..Pass::new(Phase::Decode, rows, wants) }
}

fn greedy(row: u32) -> Sample<'static> {
    Sample { row, draw: Draw::GREEDY, recent: &[], pending: 0 }
}

fn penalized(window: usize) -> Draw<'static> {
    let window = window as u32;
    let penalties = Penalties { repetition: 1.1, presence: 0.0, frequency: 0.0, window };
    Draw { penalties: Some(penalties), ..Draw::GREEDY }
}

#[test]
fn rows() {
    let loaded = loaded();
    let decode = |rows: &[Row], what: &str| match what {
        "" => loaded.accepts(&Pass::new(Phase::Decode, rows, &[])),
        what => loaded.refuses(&Pass::new(Phase::Decode, rows, &[]), what),
    };
    decode(&[at(0); 4], "");
    decode(&[], "0 rows, expected 1 to 4");
    decode(&[at(0); 5], "5 rows, expected 1 to 4");
    let token = |token| Row { input: Input::Token(token), ..at(0) };
    decode(&[at(0), token(VOCAB)], "token 80 of row 1 is not below the vocabulary's 80");
    let last = 3 * PAGE as u32 - 1;
    decode(&[at(last)], "");
    decode(&[at(last + 1)], "position 192 of row 0 is past the 3 pages of its slot");
    decode(&[at(256)], "position 256 of row 0 is not below the context's 256");
    decode(&[at(u32::MAX)], "position 4294967295 of row 0");
    decode(&[Row { slot: 2, ..at(0) }], "position 0 of row 0 is past the 0 pages of its slot");
    decode(&[at(0), Row { slot: 3, ..at(0) }], "slot 3 of row 1, expected one of 3");
}

/// Each cache group has tables of its own, and all must have the position's page.
#[test]
fn pages_of_every_group() {
    let mut loaded = loaded();
    loaded.plan.groups.push(loaded.plan.groups[0]);
    loaded.limits.pages.push(2);
    loaded.tables = PageTables::new(&loaded.limits);
    let rows = [at(PAGE as u32)];
    let pass = Pass::new(Phase::Prompt, &rows, &[]);
    for (group, pages) in [(0, &[5, 4][..]), (1, &[1])] {
        loaded.tables.apply(&TableEdit { group, slot: 0, first: 0, pages }).unwrap();
    }
    loaded.refuses(&pass, "past the 1 pages of its slot in cache group 1");
    loaded.tables.apply(&TableEdit { group: 1, slot: 0, first: 1, pages: &[0] }).unwrap();
    loaded.accepts(&pass);
}

#[test]
fn wants() {
    let loaded = loaded();
    let rows = [at(0), at(1), at(2)];
    let check = |wants: &[Want<'_>], what: &str| match what {
        "" => loaded.accepts(&Pass::new(Phase::Prompt, &rows, wants)),
        what => loaded.refuses(&Pass::new(Phase::Prompt, &rows, wants), what),
    };
    let (logits, sample) = (|row| Want::Logits { row }, |row| Want::Sample(greedy(row)));
    check(&[], "");
    check(&[sample(0), logits(0), logits(2)], "");
    check(&[logits(0), sample(2), sample(1)], "wants are not in the order of their rows");
    let twice = "a result of row 1 twice, expected each once";
    check(&[sample(1), sample(1)], twice);
    check(&[logits(1), logits(1)], twice);
    check(&[sample(1), logits(1), sample(1)], twice);
    check(&[sample(0), logits(3)], "row 3 of want 1, expected one of 3");
    check(&[sample(0), sample(3)], "row 3 of want 1, expected one of 3");
    check(&[logits(0), logits(1), logits(2), logits(2)], "4 wants, expected at most 3");
}

#[test]
fn draws() {
    let loaded = loaded();
    let accepts = |draw| loaded.accepts_sample(0, Sample { draw, ..greedy(0) });
    let refuses = |draw, what| loaded.refuses_sample(0, Sample { draw, ..greedy(0) }, what);
    // 80 tokens are two and a half words
    accepts(Draw { mask: Some(&[1; 3]), ..Draw::GREEDY });
    for (words, what) in [
        (&[1; 2][..], "the mask of want 0 has 2 words, expected 3"),
        (&[1; 4], "the mask of want 0 has 4 words, expected 3"),
    ] {
        refuses(Draw { mask: Some(words), ..Draw::GREEDY }, what);
    }
    accepts(Draw { bias: &[(0, 1.0), (79, -1.0)], ..Draw::GREEDY });
    let bias = &[(0, 1.0), (80, 1.0)];
    refuses(Draw { bias, ..Draw::GREEDY }, "token 80 of a bias of want 0 is not below");
    let bias = &[(0, 1.0), (1, 1.0), (2, 1.0)];
    refuses(Draw { bias, ..Draw::GREEDY }, "want 0 has 3 biases, expected at most 2");
    let most = LOG_PROBS_MAX as u8;
    accepts(Draw { log_probs: Some(most), ..Draw::GREEDY });
    let log_probs = Some(most + 1);
    refuses(Draw { log_probs, ..Draw::GREEDY }, "21 log-probabilities of want 0, expected at most");
}

#[test]
fn histories() {
    let loaded = loaded();
    let sample =
        |window, recent, pending| Sample { row: 0, draw: penalized(window), recent, pending };
    loaded.accepts_sample(9, sample(4, &[1, 2, 3, 79], 10));
    loaded.accepts_sample(0, sample(PENALTY_WINDOW_MAX, &[], 1));
    let window = "want 0 has a penalty window of 4097 tokens, expected at most 4096";
    loaded.refuses_sample(9, sample(PENALTY_WINDOW_MAX + 1, &[], 1), window);
    let recent = "want 0 has 3 recent tokens, expected at most its penalty window of 2";
    loaded.refuses_sample(9, sample(2, &[1; 3], 1), recent);
    let without = Sample { recent: &[1], ..greedy(0) };
    loaded.refuses_sample(9, without, "1 recent tokens, expected at most its penalty window of 0");
    loaded.refuses_sample(9, sample(2, &[1, 80], 1), "recent token 80 of want 0 is not below");
    let pending = "want 0 has 11 pending tokens, expected at most the 10 up to its row's position";
    loaded.refuses_sample(9, sample(2, &[], 11), pending);
    loaded.accepts_sample(150, sample(2, &[], RECENT as u32));
    let ring = "want 0 has 129 pending tokens in repeat 1, expected at most 128";
    loaded.refuses_sample(150, sample(2, &[], RECENT as u32 + 1), ring);
}

#[test]
fn repeats() {
    let loaded = loaded();
    let both = [at(0), other(70)];
    let samples = [0, 1].map(|row| Want::Sample(greedy(row)));
    loaded.accepts(&pass(&both, &samples, MAX_REPEAT));
    loaded.refuses(&pass(&both, &samples, 0), "repeat 0, expected 1 to 32");
    loaded.refuses(&pass(&both, &samples, MAX_REPEAT + 1), "repeat 33, expected 1 to 32");

    // one row of each slot with one sample and nothing else
    let rule = "expected rows of different slots with one sample without a mask for each";
    let logits = Want::Logits { row: 1 };
    loaded.refuses(&pass(&both, &[], 2), rule);
    loaded.refuses(&pass(&both, &samples[..1], 2), rule);
    loaded.refuses(&pass(&both, &[samples[0], logits], 2), rule);
    let twice = "a result of row 0 twice, expected each once";
    loaded.refuses(&pass(&both, &[samples[0], samples[0]], 2), twice);
    loaded.refuses(&pass(&both, &[samples[0], samples[1], logits], 2), rule);
    loaded.refuses(&pass(&[at(0), at(1)], &samples, 2), rule);
    let draw = Draw { mask: Some(&[1; 3]), ..Draw::GREEDY };
    let masked = [samples[0], Want::Sample(Sample { draw, ..greedy(1) })];
    loaded.accepts(&pass(&both, &masked, 1));
    loaded.refuses(&pass(&both, &masked, 2), rule);

    // the last repeat's position needs a page
    let end = 3 * PAGE as u32;
    let row = |position| [at(position)];
    loaded.accepts(&pass(&row(end - 5), &samples[..1], 5));
    let what = "position 192 of row 0 is past the 3 pages of its slot";
    loaded.refuses(&pass(&row(end - 5), &samples[..1], 6), what);
    let what = "position 256 of row 0 is not below the context's 256";
    loaded.refuses(&pass(&row(255), &samples[..1], 2), what);

    // each repeat makes one more token pending
    let rows = row(150);
    let wants = [Want::Sample(Sample { draw: penalized(8), pending: 120, ..greedy(0) })];
    loaded.accepts(&pass(&rows, &wants, 9));
    let what = "want 0 has 129 pending tokens in repeat 10, expected at most 128";
    loaded.refuses(&pass(&rows, &wants, 10), what);
}

#[test]
fn efforts() {
    let mut loaded = loaded();
    let rows = [at(0), at(1)];
    let [half, tenth] = [0.5, 0.1].map(|effort| Effort::new(effort).unwrap());
    let pass = |efforts| Pass { efforts, ..Pass::new(Phase::Prompt, &rows, &[]) };
    let (full, mixed, three) = ([Effort::FULL; 2], [half, tenth], [half; 3]);
    let one_lower = [Effort::FULL, tenth];
    loaded.accepts(&pass(&full));
    loaded.refuses(&pass(&one_lower), "effort 0.1, expected 1");
    loaded.plan = loaded.plan.with_effort(&|_| true);
    assert!(loaded.plan.has_effort());
    loaded.accepts(&pass(&mixed));
    loaded.accepts(&pass(&[]));
    for count in [1, 3] {
        loaded.refuses(&pass(&three[..count]), "expected one of each of the 2 rows or none");
    }
}

#[test]
fn a_draw_that_comes_later_is_alone() {
    let loaded = loaded();
    let (one, two) = ([other(4)], [at(4), other(4)]);
    let later = [Want::Later { row: 0 }];
    let both = [Want::Logits { row: 0 }, Want::Later { row: 0 }];
    loaded.accepts(&Pass::new(Phase::Decode, &one, &later));
    let what = "want 0 is drawn later, expected it alone in a pass of one row";
    loaded.refuses(&Pass::new(Phase::Decode, &two, &later), what);
    loaded.refuses(&Pass::new(Phase::Decode, &one, &both), "want 1 is drawn later");
    let pass = Pass { repeat: 2, ..Pass::new(Phase::Decode, &one, &later) };
    loaded.refuses(&pass, "repeat above 1");
}
