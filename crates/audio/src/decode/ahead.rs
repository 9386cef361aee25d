//! The last packet of a track, found by a packet that is read ahead.

use super::item::{End, Next};
use symphonia::core::packet::Packet;

/// The packets of a reader, where those of one track come a packet late.
pub(super) struct Ahead {
    track: u32,
    packet: Option<Packet>,
    /// The item behind the last packet.
    after: Option<Next>,
}

impl Ahead {
    pub(super) fn of(track: u32) -> Self {
        Self { track, packet: None, after: None }
    }

    /// The next item, of those that `read` gives.
    pub(super) fn next(&mut self, mut read: impl FnMut() -> Next) -> Next {
        if let Some(after) = self.after.take() {
            return after;
        }
        loop {
            match read() {
                Next::Packet(packet, end) if packet.track_id == self.track => {
                    if let Some(before) = self.packet.replace(packet) {
                        return Next::Packet(before, end);
                    }
                }
                Next::Packet(packet, end) => return Next::Packet(packet, end),
                after => {
                    let Some(last) = self.packet.take() else { return after };
                    let is_last = matches!(after, Next::End(None));
                    self.after = Some(after);
                    return Next::Packet(last, End { is_last, ..End::default() });
                }
            }
        }
    }
}
