//! Decoders of packets, within bounds that are checked before a library is called.

use super::codec;
use super::opus::{self, Opus};
use super::prepare::check_vorbis;
use crate::AudioError;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_OPUS, CODEC_ID_VORBIS};
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::packet::Packet;

/// Greatest number of channels.
const CHANNELS: usize = 64;
/// Least and greatest rate in samples a second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
/// Samples of all channels for which a decoder reserves memory at most.
const RESERVED: u64 = 1 << 20;

/// A decoder, and the name of its codec.
pub(super) struct Decoder {
    inner: Inner,
    codec: String,
}

enum Inner {
    Library(Box<dyn AudioDecoder>),
    Opus(Opus),
}

/// The result of a packet.
pub(super) enum Decoded {
    /// Interleaved samples were written, perhaps none.
    Samples {
        rate: u32,
        channels: usize,
    },
    /// The decoder has to be built again.
    Reset,
    Damaged(String),
}

impl Decoder {
    /// A decoder of a track.
    pub(super) fn new(parameters: &AudioCodecParameters, name: &str) -> Result<Self, AudioError> {
        let channels = parameters.channels.as_ref().map(|channels| channels.count());
        check(name, parameters.sample_rate, channels)?;
        let codec = codec::name(parameters.codec);
        let unsupported = |what: &str| AudioError::Codec {
            name: name.to_owned(),
            codec: format!("{codec} ({what})"),
        };
        let malformed = |problem| AudioError::Malformed { name: name.to_owned(), problem };
        let extra = parameters.extra_data.as_deref().unwrap_or_default();
        if parameters.codec == CODEC_ID_OPUS {
            let opus = Opus::new(extra).map_err(|what| unsupported(&what))?;
            return Ok(Self { inner: Inner::Opus(opus), codec });
        }
        if parameters.codec == CODEC_ID_VORBIS {
            check_vorbis(extra).map_err(malformed)?;
        }
        let frames = parameters.max_frames_per_packet.unwrap_or(0);
        if frames.saturating_mul(channels.unwrap_or(1) as u64) > RESERVED {
            let problem = format!("its packets have {frames} samples, expected at most {RESERVED}");
            return Err(AudioError::Limit { name: name.to_owned(), problem });
        }
        let codecs = symphonia::default::get_codecs();
        if codecs.get_audio_decoder(parameters.codec).is_none() {
            return Err(AudioError::Codec { name: name.to_owned(), codec });
        }
        match codecs.make_audio_decoder(parameters, &AudioDecoderOptions::default()) {
            Ok(decoder) => Ok(Self { inner: Inner::Library(decoder), codec }),
            Err(Error::Unsupported(what)) => Err(unsupported(what)),
            Err(error) => Err(malformed(error.to_string())),
        }
    }

    /// The codec's name.
    pub(super) fn codec(&self) -> &str {
        &self.codec
    }

    /// Samples a second, and channels, if they are known.
    pub(super) fn spec(&self) -> (Option<u32>, Option<usize>) {
        match &self.inner {
            Inner::Library(decoder) => {
                let parameters = decoder.codec_params();
                (parameters.sample_rate, parameters.channels.as_ref().map(|c| c.count()))
            }
            Inner::Opus(opus) => (Some(opus::RATE), Some(opus.channels())),
        }
    }

    /// Seconds that a stream of Opus has before its content.
    pub(super) fn lead(&self) -> Option<f64> {
        match &self.inner {
            Inner::Library(_) => None,
            Inner::Opus(opus) => Some(opus.skip() as f64 / f64::from(opus::RATE)),
        }
    }

    /// Whether the codec is Opus, whose packets tell how long they are.
    pub(super) fn is_opus(&self) -> bool {
        matches!(self.inner, Inner::Opus(_))
    }

    /// Decodes a packet into interleaved samples.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        name: &str,
        out: &mut Vec<f32>,
    ) -> Result<Decoded, AudioError> {
        match &mut self.inner {
            Inner::Library(decoder) => match decoder.decode(packet) {
                Ok(decoded) => {
                    let (rate, channels) = (decoded.spec().rate(), decoded.num_planes());
                    if decoded.frames() == 0 {
                        out.clear();
                    } else {
                        check(name, Some(rate), Some(channels))?;
                        decoded.copy_to_vec_interleaved(out);
                    }
                    Ok(Decoded::Samples { rate, channels })
                }
                Err(Error::ResetRequired) => Ok(Decoded::Reset),
                Err(error) => Ok(Decoded::Damaged(error.to_string())),
            },
            Inner::Opus(opus) => Ok(match opus.decode(&packet.data, out) {
                Ok(()) => Decoded::Samples { rate: opus::RATE, channels: opus.channels() },
                Err(error) => Decoded::Damaged(error.to_string()),
            }),
        }
    }
}

/// Checks values that set sizes of buffers.
fn check(name: &str, rate: Option<u32>, channels: Option<usize>) -> Result<(), AudioError> {
    let problem = match (rate, channels) {
        (Some(rate), _) if !RATES.contains(&rate) => {
            format!("it has {rate} samples a second, expected {} to {}", RATES.start(), RATES.end())
        }
        (_, Some(channels)) if channels > CHANNELS => {
            format!("it has {channels} channels, expected at most {CHANNELS}")
        }
        _ => return Ok(()),
    };
    Err(AudioError::Limit { name: name.to_owned(), problem })
}
