//! The items of a container, one after another.

use symphonia::core::packet::Packet;

/// The next item of a container.
pub(super) enum Next {
    Packet(Packet, End),
    /// The tracks change.
    Tracks,
    End(Option<String>),
}

/// The end of a stream, as pages of Ogg state it, or a packet that is read ahead.
#[derive(Clone, Copy, Default)]
pub(super) struct End {
    /// Samples up to the end of the packet's page, counted from any start.
    pub(super) granule: Option<u64>,
    pub(super) ends_page: bool,
    pub(super) is_last: bool,
}
