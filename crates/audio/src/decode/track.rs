//! One track of audio of a container, decoded packet by packet.

use super::codec;
use super::edit;
use super::input::Input;
use crate::AudioError;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{
    AudioCodecParameters, AudioDecoder, AudioDecoderOptions, CODEC_ID_NULL_AUDIO,
};
use symphonia::core::common::Limit;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::{Hint, Probe, ProbeOptions};
use symphonia::core::formats::{FormatOptions, FormatReader, Track as Entry, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

/// Greatest number of channels.
const CHANNELS: usize = 64;
/// Least and greatest rate in samples a second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
/// Greatest number of packets, one after another, that give no samples.
const EMPTY_PACKETS: usize = 4_096;
/// Greatest number of samples of a channel in a packet: FLAC's blocks have at most 65,535.
const PACKET: u64 = 65_536;
/// Bytes at the start of a file in which a format is searched, behind tags.
const SEARCH: u32 = 32 << 10;
/// Bytes of PCM that only headers state which were written before the length was known.
const PIPED: f64 = (i32::MAX - 4_096) as f64;
/// Bytes of a tag or a picture, which nobody reads.
const TAG: usize = 1 << 20;

/// The result of a packet.
pub(crate) enum Step {
    /// Samples of one channel were appended.
    Samples {
        /// Samples a second.
        rate: u32,
    },
    /// A packet could not be decoded: zeros of its length were appended.
    Damaged {
        /// Samples a second.
        rate: u32,
        /// The fault.
        problem: String,
    },
    /// There are no more packets.
    End {
        /// The fault that ended the file early.
        problem: Option<String>,
    },
}

/// The statements of a container about a track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// The container's name.
    pub(crate) container: &'static str,
    /// Samples a second.
    pub(crate) rate: Option<u32>,
    /// Channels.
    pub(crate) channels: Option<usize>,
    /// Seconds.
    pub(crate) seconds: Option<f64>,
    /// Whether this is the length of the track, not of a container with others.
    pub(crate) own: bool,
}

/// A track that is being decoded.
pub(crate) struct Track {
    reader: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    id: u32,
    /// Seconds of a tick of the packets' times.
    tick: Option<f64>,
    rate: Option<u32>,
    /// Seconds that are to be dropped at the start.
    lead: f64,
    interleaved: Vec<f32>,
    empty: usize,
    /// Whether any packet was decoded.
    decoded: bool,
    codec: String,
    stated: Stated,
    /// The last fault of a packet.
    problem: Option<String>,
}

impl Track {
    /// Finds the container's format by its content and opens its first track of audio.
    pub(crate) fn open(input: &Input, name: &str) -> Result<Self, AudioError> {
        guard(name, || Self::open_unguarded(input, name))?
    }

    fn open_unguarded(input: &Input, name: &str) -> Result<Self, AudioError> {
        let starts = edit::starts(&mut input.clone());
        input.rewind().map_err(|source| AudioError::Io { name: name.to_owned(), source })?;
        let stream =
            MediaSourceStream::new(Box::new(input.clone()), MediaSourceStreamOptions::default());
        let limits = MetadataOptions::default()
            .limit_tag_bytes(Limit::Maximum(TAG))
            .limit_visual_bytes(Limit::Maximum(TAG));
        let reader = probe()
            .probe(&Hint::new(), stream, FormatOptions::default(), limits)
            .map_err(|error| opening(name, error))?;
        let (entry, decoder) = choose(reader.as_ref(), name)?;
        let (id, codec) = (entry.id, decoder.1);
        let tick = entry.time_base.map(f64::from);
        let start = starts.iter().find(|start| start.0 == id).map_or(0, |start| start.1);
        let lead = start as f64 * tick.unwrap_or(0.0);
        let (seconds, own) = stated_seconds(reader.as_ref(), entry, input);
        let stated = Stated {
            container: reader.format_info().short_name,
            rate: decoder.0.codec_params().sample_rate,
            channels: decoder.0.codec_params().channels.as_ref().map(|c| c.count()),
            seconds: seconds.map(|seconds| seconds - lead).filter(|seconds| *seconds > 0.0),
            own,
        };
        Ok(Self {
            decoder: decoder.0,
            id,
            tick,
            rate: stated.rate,
            lead,
            interleaved: Vec::new(),
            empty: 0,
            decoded: false,
            codec,
            stated,
            problem: None,
            reader,
        })
    }

    /// The codec's name.
    pub(crate) fn codec(&self) -> &str {
        &self.codec
    }

    /// The statements of the container.
    pub(crate) fn stated(&self) -> Stated {
        self.stated
    }

    /// Decodes the next packet and appends the mean of its channels to `out`.
    pub(crate) fn step(&mut self, name: &str, out: &mut Vec<f32>) -> Result<Step, AudioError> {
        guard(name, || self.step_unguarded(name, out))?
    }

    fn step_unguarded(&mut self, name: &str, out: &mut Vec<f32>) -> Result<Step, AudioError> {
        loop {
            let packet = match self.reader.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return self.end(name, None),
                Err(Error::ResetRequired) => {
                    self.reopen(name)?;
                    continue;
                }
                // Files that were written to a pipe end so. Others lack a part of the stated length.
                Err(Error::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return self.end(name, None);
                }
                Err(error) => return self.end(name, Some(error.to_string())),
            };
            if packet.track_id != self.id {
                continue;
            }
            self.empty += 1;
            if self.empty > EMPTY_PACKETS {
                let problem = format!("{EMPTY_PACKETS} packets, one after another, have no audio");
                return self.end(name, Some(problem));
            }
            match self.decoder.decode(&packet) {
                Ok(decoded) => {
                    let (rate, channels) = (decoded.spec().rate(), decoded.num_planes());
                    if decoded.frames() == 0 {
                        continue;
                    }
                    check(name, Some(rate), Some(channels))?;
                    decoded.copy_to_vec_interleaved(&mut self.interleaved);
                    mix(self.content(rate, channels), channels, out);
                    self.rate = Some(rate);
                    (self.empty, self.decoded) = (0, true);
                    return Ok(Step::Samples { rate });
                }
                Err(Error::ResetRequired) => self.reopen(name)?,
                // A decoder that fails can decode the next packet. Zeros keep the times behind it right.
                Err(error) => {
                    let problem = error.to_string();
                    self.problem = Some(problem.clone());
                    if let (Some(rate), Some(tick)) = (self.rate, self.tick) {
                        let seconds = packet.dur.get() as f64 * tick;
                        let frames = ((seconds * f64::from(rate)).round() as u64).min(PACKET);
                        out.resize(out.len() + frames as usize, 0.0);
                        return Ok(Step::Damaged { rate, problem });
                    }
                }
            }
        }
    }

    /// The decoded samples without those before the track's start.
    fn content(&mut self, rate: u32, channels: usize) -> &[f32] {
        let frames = (self.lead * f64::from(rate)).round() as usize;
        let dropped = frames.min(self.interleaved.len() / channels.max(1));
        self.lead -= dropped as f64 / f64::from(rate);
        &self.interleaved[dropped * channels..]
    }

    /// The end of the packets, an error if none could be decoded.
    fn end(&self, name: &str, problem: Option<String>) -> Result<Step, AudioError> {
        let fault = problem.as_ref().or(self.problem.as_ref());
        match fault {
            Some(fault) if !self.decoded => Err(AudioError::Malformed {
                name: name.to_owned(),
                problem: format!("none of its audio could be decoded ({fault})"),
            }),
            _ => Ok(Step::End { problem }),
        }
    }

    /// Begins the next one of chained streams.
    fn reopen(&mut self, name: &str) -> Result<(), AudioError> {
        let (entry, (decoder, codec)) = choose(self.reader.as_ref(), name)?;
        (self.id, self.tick) = (entry.id, entry.time_base.map(f64::from));
        (self.decoder, self.codec) = (decoder, codec);
        Ok(())
    }
}

/// The formats that are searched for.
fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| {
        let options = ProbeOptions { max_probe_depth: SEARCH, ..ProbeOptions::default() };
        let mut probe = Probe::new_with_options(&options);
        symphonia::default::register_enabled_formats(&mut probe);
        probe
    })
}

/// Runs code of decoders. A panic there, which malformed files could cause, becomes an error.
fn guard<T>(name: &str, run: impl FnOnce() -> T) -> Result<T, AudioError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| AudioError::Malformed {
        name: name.to_owned(),
        problem: "its decoder gave up on it".to_owned(),
    })
}

type Decoder = (Box<dyn AudioDecoder>, String);

/// The track to decode: the default one, or else the first one in a supported codec.
fn choose<'a>(
    reader: &'a (dyn FormatReader + 'static),
    name: &str,
) -> Result<(&'a Entry, Decoder), AudioError> {
    let default = reader.default_track(TrackType::Audio);
    let others = reader.tracks().iter().filter(|t| t.track_type() == Some(TrackType::Audio));
    let mut problem = None;
    for entry in default.into_iter().chain(others) {
        match decoder(entry, name) {
            Ok(decoder) => return Ok((entry, decoder)),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.unwrap_or_else(|| AudioError::NoAudio {
        name: name.to_owned(),
        container: reader.format_info().short_name,
        tracks: reader.tracks().len(),
    }))
}

fn decoder(entry: &Entry, name: &str) -> Result<Decoder, AudioError> {
    let unknown = AudioCodecParameters { codec: CODEC_ID_NULL_AUDIO, ..Default::default() };
    let parameters = match &entry.codec_params {
        Some(CodecParameters::Audio(parameters)) => parameters,
        _ => &unknown,
    };
    let channels = parameters.channels.as_ref().map(|channels| channels.count());
    check(name, parameters.sample_rate, channels)?;
    let codec = codec::name(parameters.codec);
    let codecs = symphonia::default::get_codecs();
    if codecs.get_audio_decoder(parameters.codec).is_none() {
        return Err(AudioError::Codec { name: name.to_owned(), codec });
    }
    match codecs.make_audio_decoder(parameters, &AudioDecoderOptions::default()) {
        Ok(decoder) => Ok((decoder, codec)),
        Err(Error::Unsupported(what)) => {
            Err(AudioError::Codec { name: name.to_owned(), codec: format!("{codec} ({what})") })
        }
        Err(error) => {
            Err(AudioError::Malformed { name: name.to_owned(), problem: error.to_string() })
        }
    }
}

/// The length that a container states, in seconds, at most what its bytes can hold. Whether it is that of
/// the track alone.
fn stated_seconds(reader: &dyn FormatReader, entry: &Entry, input: &Input) -> (Option<f64>, bool) {
    let Some(CodecParameters::Audio(parameters)) = &entry.codec_params else {
        return (None, false);
    };
    let rate = parameters.sample_rate.filter(|rate| *rate > 0);
    let mut frames = entry.num_frames.map(|frames| frames as f64);
    if codec::is_pcm(parameters.codec)
        && let (Some(stated), Some(channels)) = (frames, parameters.channels.as_ref())
    {
        // A file that was written to a pipe states the greatest length that its header can hold.
        let width = f64::from(parameters.bits_per_sample.unwrap_or(8).div_ceil(8));
        let frame = width * channels.count().max(1) as f64;
        if stated * frame >= PIPED {
            frames = Some(stated.min(input.length() as f64 / frame));
        }
    }
    let of_frames = frames.zip(rate).map(|(frames, rate)| frames / f64::from(rate));
    let of_track = || Some(entry.duration?.get() as f64 * f64::from(entry.time_base?));
    if let Some(seconds) = of_frames.or_else(of_track) {
        return (Some(seconds), true);
    }
    let media = reader.media_info();
    let of_media = || Some(media.duration?.get() as f64 * f64::from(media.time_base?));
    (of_media(), reader.tracks().len() == 1)
}

fn opening(name: &str, error: Error) -> AudioError {
    let name = name.to_owned();
    match error {
        Error::Unsupported(what) if what.contains("probe") => AudioError::Unknown { name },
        Error::IoError(source) if source.kind() != ErrorKind::UnexpectedEof => {
            AudioError::Io { name, source }
        }
        Error::IoError(_) => AudioError::Malformed {
            name,
            problem: "it ends in the middle of its header".to_owned(),
        },
        other => AudioError::Malformed { name, problem: other.to_string() },
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

/// Appends the mean of interleaved channels.
pub(crate) fn mix(interleaved: &[f32], channels: usize, out: &mut Vec<f32>) {
    if channels == 1 {
        out.extend_from_slice(interleaved);
    } else {
        let count = channels as f32;
        let frames = interleaved.chunks_exact(channels.max(1));
        out.extend(frames.map(|frame| frame.iter().sum::<f32>() / count));
    }
}
