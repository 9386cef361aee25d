//! Whose turn it is: decoding passes and others alternate, prompts go round robin, and submissions
//! of the same decoding sequences grow.

/// The kinds of passes that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Decode,
    Prompt,
    Recompute,
}

/// The passes before, as far as the next one depends on them.
pub(super) struct Turns {
    /// The kind of the pass before.
    last: Turn,
    /// The kind of the newest pass that was not [`Turn::Decode`].
    last_fill: Turn,
    /// The prompt that was in a pass last.
    last_prompt: u64,
    /// The repeat of the decoding pass before.
    repeat: u32,
    /// The sequences of the decoding pass before.
    repeated: Vec<u64>,
}

impl Turns {
    /// No passes yet.
    pub(super) fn new() -> Self {
        Self {
            last: Turn::Prompt,
            last_fill: Turn::Prompt,
            last_prompt: 0,
            repeat: 0,
            repeated: Vec::new(),
        }
    }

    /// The kind of pass over known tokens that is next, if there are any to run.
    pub(super) fn fill(&self, prompts: bool, recompute: bool) -> Option<Turn> {
        match (prompts, recompute) {
            (false, false) => None,
            (true, false) => Some(Turn::Prompt),
            (false, true) => Some(Turn::Recompute),
            (true, true) if self.last_fill == Turn::Prompt => Some(Turn::Recompute),
            (true, true) => Some(Turn::Prompt),
        }
    }

    /// The kind of the next pass, if there is anything to run. `decodes` says
    /// whether sequences decode.
    pub(super) fn next(&self, fill: Option<Turn>, decodes: bool) -> Option<Turn> {
        match fill {
            Some(fill) if !decodes || self.last == Turn::Decode => Some(fill),
            _ if decodes => Some(Turn::Decode),
            _ => None,
        }
    }

    /// Takes note of a pass.
    pub(super) fn took(&mut self, turn: Turn) {
        self.last = turn;
        if turn != Turn::Decode {
            self.last_fill = turn;
        }
    }

    /// Orders prompts round robin: those after the one that was in a pass last come first.
    pub(super) fn order_prompts<T>(&self, prompts: &mut [(u64, T)]) {
        let split = prompts.partition_point(|&(id, _)| id <= self.last_prompt);
        prompts.rotate_left(split);
    }

    /// Takes note of a prompt in a pass.
    pub(super) fn took_prompt(&mut self, id: u64) {
        self.last_prompt = id;
    }

    /// How many passes a submission of these decoding sequences runs: 1, 2, 4 and so on up to
    /// `most` while they are the same and run `alone`, and at most `timely`.
    pub(super) fn repeat(&mut self, ids: &[u64], alone: bool, most: u32, timely: u32) -> u32 {
        if !alone || !ids.iter().all(|id| self.repeated.contains(id)) {
            self.repeat = 0;
        }
        self.repeated.clear();
        self.repeated.extend(ids);
        self.repeat = match alone {
            true => (2 * self.repeat).clamp(1, most).min(timely.max(1)),
            false => 1,
        };
        self.repeat
    }

    /// Lets repeats begin anew with the next decoding pass.
    pub(super) fn restart_repeats(&mut self) {
        self.repeat = 0;
    }

    /// Forgets the sequences of the decoding pass before, so that others begin anew.
    pub(super) fn forget_repeated(&mut self) {
        self.repeated.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_alternates_with_prompts_and_recomputation() {
        let mut turns = Turns::new();
        let mut taken = Vec::new();
        for _ in 0..4 {
            let turn = turns.next(turns.fill(true, true), true).unwrap();
            turns.took(turn);
            taken.push(turn);
        }
        assert_eq!(taken, [Turn::Decode, Turn::Recompute, Turn::Decode, Turn::Prompt]);
        assert_eq!(turns.next(None, false), None);
        assert_eq!(turns.next(Some(Turn::Prompt), false), Some(Turn::Prompt));
    }

    #[test]
    fn repeats_grow_while_the_same_sequences_decode_alone() {
        let mut turns = Turns::new();
        let grown = [0; 5].map(|_| turns.repeat(&[1, 2], true, 8, 100));
        assert_eq!(grown, [1, 2, 4, 8, 8]);
        assert_eq!(turns.repeat(&[1, 2], true, 8, 3), 3);
        assert_eq!(turns.repeat(&[1, 3], true, 8, 100), 1);
        assert_eq!(turns.repeat(&[1, 3], false, 8, 100), 1);
        assert_eq!(turns.repeat(&[3], true, 8, 100), 2);
    }

    #[test]
    fn prompts_go_round_robin() {
        let mut turns = Turns::new();
        turns.took_prompt(4);
        let mut prompts = [(2, ()), (4, ()), (7, ())];
        turns.order_prompts(&mut prompts);
        assert_eq!(prompts.map(|(id, ())| id), [7, 2, 4]);
    }
}
