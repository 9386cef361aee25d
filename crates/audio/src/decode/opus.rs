//! Opus: the header of a stream, and its packets.

use opus_pure::{Error, OpusDecoder, OpusMSDecoder};

/// Samples a second of all that is decoded.
pub(super) const RATE: u32 = 48_000;
/// The same, as the decoder takes it.
const OUTPUT: i32 = RATE as i32;
/// Samples of a channel in a packet at most: 120 ms.
const PACKET: usize = 5_760;

/// A decoder of one stream.
pub(super) struct Opus {
    decoder: Inner,
    channels: usize,
    gain: f32,
    /// Samples before the content.
    skip: u64,
}

enum Inner {
    Single(Box<OpusDecoder>),
    Several(OpusMSDecoder),
}

impl Opus {
    /// A decoder by the header of a stream (RFC 7845, section 5.1). MP4 stores the same fields with
    /// the highest byte first, under the version 0.
    ///
    /// # Errors
    ///
    /// The text names what is not supported.
    pub(super) fn new(header: &[u8]) -> Result<Self, String> {
        let short = || "a header that is too short".to_owned();
        let fields = header.strip_prefix(b"OpusHead").unwrap_or(header);
        let head = fields.get(..11).ok_or_else(short)?;
        let number = |at: usize| match head[0] {
            0 => u16::from_be_bytes([head[at], head[at + 1]]),
            _ => u16::from_le_bytes([head[at], head[at + 1]]),
        };
        let (channels, family) = (usize::from(head[1]), head[10]);
        let decoder = match family {
            0 if (1..=2).contains(&channels) => {
                OpusDecoder::new(OUTPUT, channels).map(|one| Inner::Single(Box::new(one)))
            }
            0 => return Err(format!("{channels} channels without a mapping")),
            1 if (1..=8).contains(&channels) => {
                OpusMSDecoder::new(OUTPUT, channels, 1).map(Inner::Several)
            }
            1 => return Err(format!("{channels} channels")),
            _ => return Err(format!("channel mapping family {family}")),
        };
        let decoder = decoder.map_err(|error| error.to_string())?;
        if let Inner::Several(decoder) = &decoder {
            let layout = decoder.layout();
            let stated = fields.get(11..13 + channels).ok_or_else(short)?;
            let is_standard = usize::from(stated[0]) == layout.nb_streams
                && usize::from(stated[1]) == layout.nb_coupled_streams
                && stated[2..] == layout.mapping;
            if !is_standard {
                return Err("an order of channels that is not that of RFC 7845".to_owned());
            }
        }
        let gain = 10_f32.powf(f32::from(number(8) as i16) / (20.0 * 256.0));
        Ok(Self { decoder, channels, gain, skip: u64::from(number(2)) })
    }

    /// Interleaved channels.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// Samples before the content.
    pub(super) fn skip(&self) -> u64 {
        self.skip
    }

    /// Decodes a packet into interleaved samples.
    pub(super) fn decode(&mut self, packet: &[u8], out: &mut Vec<f32>) -> Result<(), Error> {
        // an empty packet would be one that was lost
        let frames = samples(packet).ok_or(Error::InvalidPacket("it has no samples"))?;
        out.clear();
        out.resize(frames * self.channels, 0.0);
        let count = match &mut self.decoder {
            Inner::Single(decoder) => decoder.decode(packet, frames, out)?,
            Inner::Several(decoder) => decoder.decode(packet, frames, out)?,
        };
        out.truncate(count * self.channels);
        for sample in out {
            *sample *= self.gain;
        }
        Ok(())
    }
}

/// The samples of a packet (RFC 6716, section 3.1), if it has some.
pub(super) fn samples(packet: &[u8]) -> Option<usize> {
    let toc = *packet.first()?;
    let frame = match toc >> 3 {
        config @ 0..=11 => [480, 960, 1_920, 2_880][usize::from(config & 3)],
        config @ 12..=15 => [480, 960][usize::from(config & 1)],
        config => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let count = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => usize::from(packet.get(1)? & 0x3f),
    };
    Some(frame * count).filter(|samples| (1..=PACKET).contains(samples))
}
