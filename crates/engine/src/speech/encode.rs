//! The encoding of windows.

use std::collections::VecDeque;

use pelton_graph::{Hidden, Input, Pass, Phase, Row, TableEdit, Ticket, pages_for};
use pelton_speech::Window;

use super::model::SpeechModel;
use super::state::Encoded;
use super::unfold::{unfold, width};
use crate::Error;

impl SpeechModel {
    /// Encodes windows of features `[2 · positions, mels]`, as many in a pass as its rows allow.
    pub(super) fn encode_windows(&mut self, features: &[&[f32]]) -> Result<Vec<Window>, Error> {
        let expected = 2 * self.positions * self.mels;
        if let Some(window) = features.iter().find(|window| window.len() != expected) {
            return Err(Error::RequestOption {
                option: "features",
                found: format!("a window of {} values", window.len()),
                expected: format!("{expected}, {} frames of {}", 2 * self.positions, self.mels),
            });
        }
        let mut windows = Vec::with_capacity(features.len());
        match self.encode_all(features, &mut windows) {
            Ok(()) => Ok(windows),
            Err(error) => {
                windows.into_iter().for_each(|window| self.release_window(window));
                Err(error)
            }
        }
    }

    /// Encodes windows, which are those to free after an error too.
    fn encode_all(&mut self, features: &[&[f32]], windows: &mut Vec<Window>) -> Result<(), Error> {
        // a GPU runs a pass while the features of the next one are prepared
        let ahead = usize::from(self.executable.pipeline().depth > 1);
        let mut running = VecDeque::new();
        let mut outcome = Ok(());
        for batch in features.chunks(self.windows_per_pass) {
            let first = windows.len();
            let started = self
                .add_windows(batch.len(), windows)
                .and_then(|()| self.start_encoder(&windows[first..], batch));
            match started {
                Ok(ticket) => running.push_back((ticket, first..windows.len())),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            if running.len() > ahead
                && let Some((ticket, range)) = running.pop_front()
            {
                outcome = outcome.and(self.finish_encoder(ticket, &windows[range]));
            }
            if outcome.is_err() {
                break;
            }
        }
        // every pass is taken, after an error too
        for (ticket, range) in running {
            let finished = self.finish_encoder(ticket, &windows[range]);
            outcome = outcome.and(finished);
        }
        outcome
    }

    /// Allocates windows with their pages.
    fn add_windows(&mut self, more: usize, windows: &mut Vec<Window>) -> Result<(), Error> {
        let count = pages_for(self.positions);
        for _ in 0..more {
            let free = self.windows.iter().position(Option::is_none);
            let Some(window) = free.filter(|_| self.window_pages.free() >= count) else {
                return Err(Error::CacheFull {
                    needed: more * self.positions,
                    available: self.window_pages.free() / count * self.positions,
                });
            };
            let pages = (0..count).filter_map(|_| self.window_pages.alloc()).collect();
            self.windows[window] = Some(Encoded { pages, keys: Vec::new(), hypotheses: 0 });
            windows.push(Window(window as u32));
        }
        Ok(())
    }

    /// Submits a pass of the encoder.
    fn start_encoder(&mut self, windows: &[Window], features: &[&[f32]]) -> Result<Ticket, Error> {
        let count = pages_for(self.positions) as u32;
        self.unfolded.clear();
        features.iter().for_each(|frames| unfold(frames, self.mels, &mut self.unfolded));
        debug_assert_eq!(self.unfolded.len(), features.len() * self.positions * width(self.mels),);
        // the slots of the encoder come after those of hypotheses
        let slot = |i: usize| (self.hypotheses.len() + i) as u32;
        let own: Vec<Vec<u32>> =
            (0..windows.len() as u32).map(|i| (i * count..(i + 1) * count).collect()).collect();
        let mut edits = Vec::with_capacity(2 * windows.len());
        let mut rows = Vec::with_capacity(windows.len() * self.positions);
        for (i, (window, own)) in windows.iter().zip(&own).enumerate() {
            let Some(encoded) = &self.windows[window.0 as usize] else { continue };
            for (group, pages) in [(self.groups.cross, &encoded.pages), (self.groups.own, own)] {
                edits.push(TableEdit { group: group as u32, slot: slot(i), first: 0, pages });
            }
            let positions = 0..self.positions as u32;
            rows.extend(positions.map(|position| Row {
                input: Input::Features,
                position,
                slot: slot(i),
            }));
        }
        let pass = Pass {
            tables: &edits,
            hidden: Hidden::Given(&self.unfolded),
            keeps_hidden: self.alignment_width > 0,
            ..Pass::new(Phase::Encode, &rows, &[])
        };
        Ok(self.executable.submit(&pass)?)
    }

    /// Waits for the oldest pass of the encoder, over these windows.
    fn finish_encoder(&mut self, ticket: Ticket, windows: &[Window]) -> Result<(), Error> {
        let outputs = self.executable.take(ticket)?;
        self.files.check()?;
        if self.alignment_width > 0 {
            let keys = outputs.hidden.chunks_exact(self.positions * self.alignment_width);
            for (window, keys) in windows.iter().zip(keys) {
                if let Some(encoded) = &mut self.windows[window.0 as usize] {
                    encoded.keys.extend_from_slice(keys);
                }
            }
        }
        Ok(())
    }

    /// Frees a window and its pages; one that was freed before is left alone.
    pub(super) fn release_window(&mut self, window: Window) {
        let Some(encoded) = self.windows.get_mut(window.0 as usize).and_then(Option::take) else {
            return;
        };
        debug_assert_eq!(encoded.hypotheses, 0, "hypotheses of a window that is freed");
        encoded.pages.into_iter().for_each(|page| self.window_pages.unhold(page));
    }
}
