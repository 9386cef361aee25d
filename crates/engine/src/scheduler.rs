//! The thread that runs a model: it puts the tokens of all requests into common passes.
//!
//! Each pass takes one token of every sequence that decodes, and fills what room is left with the
//! prompts of sequences that have just come. A sequence is only begun when there are pages for all
//! that it may become, so that none is ever put aside half-way. One that decodes alone runs in a
//! chain, where the executable has them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, RecvError},
    },
    time::Instant,
};

use pelton_tokenizer::Tokenizer;

use crate::{Error, chain, runner::Runner, sequence::Sequence};

/// What the thread is asked to do.
pub(crate) enum Command {
    /// Answer a request.
    Begin(Box<Sequence>),
    /// Lend the runner out, when no request is running.
    Lend(Box<dyn FnOnce(&mut Runner) + Send>),
}

pub(crate) struct Scheduler {
    runner: Runner,
    tokenizer: Option<Arc<Tokenizer>>,
    commands: Receiver<Command>,
    waiting: VecDeque<Command>,
    running: Vec<Sequence>,
}

impl Scheduler {
    pub(crate) fn new(
        runner: Runner,
        tokenizer: Option<Arc<Tokenizer>>,
        commands: Receiver<Command>,
    ) -> Self {
        Self { runner, tokenizer, commands, waiting: VecDeque::new(), running: Vec::new() }
    }

    /// Runs until nobody can send commands any more.
    pub(crate) fn run(mut self) {
        loop {
            if self.running.is_empty() && self.waiting.is_empty() {
                match self.commands.recv() {
                    Ok(command) => self.waiting.push_back(command),
                    Err(RecvError) => return,
                }
            }
            self.waiting.extend(self.commands.try_iter());
            self.admit();
            match self.running.as_slice() {
                [] => {}
                [alone] if chain::serves(&self.runner, alone) => self.chain(),
                [..] => self.pass(),
            }
        }
    }

    /// Begins what waits, in the order in which it came, as far as there is room.
    fn admit(&mut self) {
        while let Some(command) = self.waiting.pop_front() {
            match command {
                Command::Begin(mut sequence) => {
                    sequence.slot = self.runner.take_slot(sequence.positions());
                    if sequence.slot.is_some() {
                        self.running.push(*sequence);
                    } else if self.running.is_empty() {
                        sequence.fail(Error::CacheFull { needed: sequence.positions() });
                    } else {
                        self.waiting.push_front(Command::Begin(sequence));
                        return;
                    }
                }
                Command::Lend(job) if self.running.is_empty() => job(&mut self.runner),
                lend => {
                    self.waiting.push_front(lend);
                    return;
                }
            }
        }
    }

    /// Runs the only sequence until it ends or a command comes. Whatever waits already has no room
    /// until then.
    fn chain(&mut self) {
        let (commands, waiting) = (&self.commands, &mut self.waiting);
        let Some(alone) = self.running.first_mut() else { return };
        let goes_on = chain::run(&mut self.runner, alone, self.tokenizer.as_deref(), || {
            commands.try_recv().map(|command| waiting.push_back(command)).is_ok()
        });
        self.keep(vec![goes_on]);
    }

    /// One pass over all that can run.
    fn pass(&mut self) {
        let begun = Instant::now();
        self.runner.clear();
        // those that decode come first: a long prompt must not hold them up
        let mut order: Vec<usize> = (0..self.running.len()).collect();
        order.sort_by_key(|&i| !self.running[i].decodes());
        // which sequence, how many of its tokens, and whether they are its last
        let mut parts = Vec::with_capacity(order.len());
        for i in order {
            let waiting = self.running[i].waiting();
            let count = waiting.len().min(self.runner.room());
            if let Some(slot) = &self.running[i].slot
                && count > 0
            {
                let last = count == waiting.len();
                self.runner.add(slot, self.running[i].done, &waiting[..count], last);
                parts.push((i, count, last));
            }
        }
        let mut goes_on = vec![true; self.running.len()];
        match self.runner.forward() {
            Ok(mut logits) => {
                let time = begun.elapsed();
                for (i, count, last) in parts {
                    self.running[i].ran(count, time);
                    if last && let Some(logits) = logits.next() {
                        goes_on[i] = self.running[i].advance(logits, self.tokenizer.as_deref());
                    }
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for (i, ..) in parts {
                    goes_on[i] = self.running[i].fail(Error::Pass(reason.clone()));
                }
            }
        }
        self.keep(goes_on);
    }

    /// Ends the sequences that do not go on.
    fn keep(&mut self, goes_on: Vec<bool>) {
        let mut goes_on = goes_on.into_iter();
        let runner = &mut self.runner;
        self.running.retain_mut(|sequence| {
            let keep = goes_on.next().unwrap_or(true);
            if !keep && let Some(slot) = sequence.slot.take() {
                runner.give_back(slot);
            }
            keep
        });
    }
}
