//! Codecs of logical streams, by their first packets.

use symphonia::core::audio::Channels;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_FLAC, CODEC_ID_OPUS, CODEC_ID_VORBIS};
use symphonia::core::codecs::audio::{AudioCodecId, AudioCodecParameters};

/// Bytes of the identification header of Vorbis.
const VORBIS: usize = 30;

/// The codec of a logical stream, and what its first packet states.
pub(super) struct Codec {
    pub(super) id: AudioCodecId,
    /// Samples a second of the granules.
    pub(super) rate: u32,
    pub(super) channels: u8,
    /// Packets of headers behind the first one.
    pub(super) headers: Headers,
    /// Samples that come before the content.
    pub(super) skip: u64,
    /// The header that its decoder needs.
    pub(super) header: Vec<u8>,
}

/// The packets of headers behind the first one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// Comments, and the setup that belongs to the decoder's header.
    CommentsAndSetup,
    /// Comments.
    Comments,
    /// Packets up to the first one that begins with 0xff.
    Blocks,
}

/// A logical stream by its first packet: of audio, or of another codec whose name is known, or of
/// none.
pub(super) enum Stream {
    Audio(Codec),
    Other(&'static str),
    None,
}

pub(super) fn of(packet: &[u8]) -> Stream {
    let unknown = [(&b"Speex   "[..], "Speex"), (b"PCM     ", "PCM"), (b"CELT    ", "CELT")];
    if let Some((_, name)) = unknown.iter().find(|(magic, _)| packet.starts_with(magic)) {
        return Stream::Other(name);
    }
    let codec = match packet {
        [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => vorbis(packet),
        [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => opus(packet),
        [0x7f, b'F', b'L', b'A', b'C', ..] => flac(packet),
        _ => None,
    };
    codec.map_or(Stream::None, Stream::Audio)
}

fn vorbis(packet: &[u8]) -> Option<Codec> {
    let header = packet.get(..VORBIS)?;
    Some(Codec {
        id: CODEC_ID_VORBIS,
        rate: u32::from_le_bytes([header[12], header[13], header[14], header[15]]),
        channels: header[11],
        headers: Headers::CommentsAndSetup,
        skip: 0,
        header: header.to_vec(),
    })
}

/// RFC 7845, section 5.1.
fn opus(packet: &[u8]) -> Option<Codec> {
    let (channels, skip) = (packet.get(9)?, packet.get(10..12)?);
    Some(Codec {
        id: CODEC_ID_OPUS,
        rate: 48_000,
        channels: *channels,
        headers: Headers::Comments,
        skip: u64::from(u16::from_le_bytes([skip[0], skip[1]])),
        header: packet.to_vec(),
    })
}

/// The mapping of FLAC (xiph.org, 1.0): nine bytes, `fLaC`, and the block with the stream's format.
fn flac(packet: &[u8]) -> Option<Codec> {
    let info = packet.strip_prefix(b"\x7fFLAC")?.get(8..)?;
    let info = packet.get(9..13).filter(|magic| *magic == b"fLaC").and(info.get(4..38))?;
    Some(Codec {
        id: CODEC_ID_FLAC,
        rate: u32::from_be_bytes([0, info[10], info[11], info[12]]) >> 4,
        channels: (info[12] >> 1 & 7) + 1,
        headers: Headers::Blocks,
        skip: 0,
        header: info.to_vec(),
    })
}

impl Codec {
    /// The parameters of a decoder.
    pub(super) fn parameters(&self) -> AudioCodecParameters {
        let mut parameters = AudioCodecParameters::new();
        parameters
            .for_codec(self.id)
            .with_sample_rate(self.rate)
            .with_extra_data(self.header.clone().into_boxed_slice());
        parameters.with_channels(Channels::Discrete(u16::from(self.channels)));
        parameters
    }
}
