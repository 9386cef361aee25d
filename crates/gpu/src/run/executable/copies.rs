//! Copies of the values that a pass reads of other passes, at its beginning.

use std::sync::Arc;

use pelton_graph::{Error, Hidden, Pass, Shared};

use super::{
    GpuExecutable,
    partner::{Copies, Own, Span},
};

impl GpuExecutable {
    /// Whether a partner's memory can be read, which becomes that of this executable. Next to
    /// parts of the host it is not: their passes begin before the copies of a partner's
    /// values are recorded.
    pub(super) fn pair_with(&mut self, partner: Shared) -> bool {
        let Ok(partner) = partner.downcast::<Own>() else { return false };
        let fits = self.host.is_none()
            && Arc::ptr_eq(&partner.device, &self.device)
            && partner.slots == self.limits.sequences;
        if fits {
            self.pair.partner = Some(partner);
        }
        fits
    }

    /// Rows of the partner's newest pass whose hidden states a pass can have, or groups of them if
    /// the entry is as many times as wide; `None` without one.
    pub(super) fn partner_rows(&self) -> Option<usize> {
        let partner = self.pair.partner.as_ref()?;
        let own: Vec<usize> =
            self.plan.entry.iter().map(|&id| self.plan.buffer(id).width).collect();
        let others: Vec<usize> = partner.exit.iter().map(|(_, width)| *width).collect();
        let times = match (own.first(), others.first()) {
            (Some(own), Some(other)) => own / (*other).max(1),
            _ => 0,
        };
        let fits = times > 0 && own.iter().copied().eq(others.iter().map(|width| width * times));
        Some(if fits { partner.rows() / times } else { 0 })
    }

    /// Refuses to read the hidden states of a pass of the partner that may have to run again: it
    /// has to be taken before.
    pub(super) fn check_partner(&self, pass: &Pass<'_>) -> Result<(), Error> {
        let reads = matches!(pass.hidden, Hidden::Partner(_));
        match reads && self.pair.partner.as_ref().is_some_and(|partner| !partner.is_settled()) {
            true => Err(Error::Pass(
                "hidden states of a pass of few rows that is not taken, expected a taken one"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Records the copies of hidden states.
    pub(super) fn copy_states(&self, encoder: &mut wgpu::CommandEncoder, copies: &Copies) {
        let mut copy = |from: &wgpu::Buffer, to: &wgpu::Buffer, span: &Span, bytes: u64| {
            copy_span(encoder, (from, to), span, bytes);
        };
        for &id in &self.plan.entry {
            let (buffer, bytes) = (&self.buffers[id.0], 4 * self.plan.buffer(id).width as u64);
            // a copy within a buffer is not allowed
            for span in &copies.before {
                copy(buffer, &self.pair.before, span, bytes);
            }
            for span in &copies.before {
                copy(&self.pair.before, buffer, &Span { from: span.to, ..*span }, bytes);
            }
        }
        let Some(partner) = &self.pair.partner else { return };
        for (&id, (states, _)) in self.plan.entry.iter().zip(&partner.exit) {
            let bytes = 4 * self.plan.buffer(id).width as u64;
            for span in &copies.partner {
                copy(states, &self.buffers[id.0], span, bytes);
            }
        }
    }

    /// Records the copies of the partner's tokens.
    pub(super) fn copy_tokens(&self, encoder: &mut wgpu::CommandEncoder, copies: &Copies) {
        let Some(partner) = &self.pair.partner else { return };
        for span in &copies.tokens {
            copy_span(encoder, (&partner.recent, &self.inputs.recent), span, 4);
        }
    }

    /// The drafted tokens, as parts of a buffer: where each begins, and its bytes.
    pub(super) fn drafted(&self, copies: &Copies) -> Vec<(wgpu::Buffer, u64, u64)> {
        let Some(partner) = &self.pair.partner else { return Vec::new() };
        let parts = copies.tokens.iter();
        parts.map(|span| (partner.recent.clone(), 4 * span.from, 4 * span.len)).collect()
    }
}

/// Records a copy of a run of elements of so many bytes from one buffer to another.
fn copy_span(
    encoder: &mut wgpu::CommandEncoder,
    (from, to): (&wgpu::Buffer, &wgpu::Buffer),
    span: &Span,
    bytes: u64,
) {
    let Span { from: first, to: at, len } = *span;
    encoder.copy_buffer_to_buffer(from, first * bytes, to, at * bytes, len * bytes);
}
