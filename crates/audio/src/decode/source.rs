//! The packets of a container, by one reader for each kind.

use super::ahead::Ahead;
use super::decoder::Decoder;
use super::input::Input;
use super::item::{End, Next};
use super::ogg::{self, Ogg};
use super::prepare::{Kind, Prepared};
use super::{codec, opus};
use crate::AudioError;
use std::io::ErrorKind;
use std::sync::OnceLock;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, CODEC_ID_NULL_AUDIO};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::{Hint, Probe, ProbeOptions};
use symphonia::core::formats::{FormatOptions, FormatReader, Track as Entry, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};
use symphonia::default::formats::{
    AdtsReader, AiffReader, FlacReader, IsoMp4Reader, MkvReader, MpaReader, WavReader,
};

/// Bytes at the start of a file in which the first frame is searched.
const SEARCH: u32 = 64 << 10;
/// Bytes of PCM that only headers state which were written before the length was known.
const PIPED: f64 = (i32::MAX - 4_096) as f64;

/// The reader of a container.
pub(super) enum Source {
    Library(Box<dyn FormatReader>, Option<Ahead>),
    Ogg(Box<Ogg>),
}

/// A track with its decoder.
pub(super) struct Chosen {
    pub(super) decoder: Decoder,
    pub(super) id: u32,
    /// Seconds of a tick of the packets' times.
    pub(super) tick: Option<f64>,
    /// Seconds before the content that the container states.
    pub(super) lead: Option<f64>,
}

impl Source {
    /// Opens the container of a file.
    pub(super) fn open(prepared: &Prepared, name: &str) -> Result<Self, AudioError> {
        let input = &prepared.input;
        input.rewind().map_err(|source| AudioError::Io { name: name.to_owned(), source })?;
        if prepared.kind == Kind::Ogg {
            let ogg = Ogg::open(input.clone()).map_err(|fault| of_ogg(name, fault))?;
            return Ok(Self::Ogg(Box::new(ogg)));
        }
        let stream = Box::new(input.clone());
        let stream = MediaSourceStream::new(stream, MediaSourceStreamOptions::default());
        let options = FormatOptions::default();
        let reader: Result<Box<dyn FormatReader>, Error> = match prepared.kind {
            Kind::Wave => WavReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
            Kind::Aiff => AiffReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
            Kind::Flac => FlacReader::try_new(stream, options).map(|reader| Box::new(reader) as _),
            Kind::Matroska => {
                MkvReader::try_new(stream, options).map(|reader| Box::new(reader) as _)
            }
            Kind::Mp4 | Kind::Frames | Kind::Ogg => {
                let hint = Hint::new();
                frames(prepared.kind).probe(&hint, stream, options, MetadataOptions::default())
            }
        };
        reader.map(|reader| Self::Library(reader, None)).map_err(|error| opening(name, error))
    }

    /// The container's name.
    pub(super) fn container(&self) -> &'static str {
        match self {
            Self::Library(reader, _) => reader.format_info().short_name,
            Self::Ogg(_) => "ogg",
        }
    }

    /// The track to decode: the default one, or else the first one in a supported codec.
    pub(super) fn choose(&self, name: &str) -> Result<Chosen, AudioError> {
        match self {
            Self::Library(reader, _) => choose(reader.as_ref(), name),
            Self::Ogg(ogg) => Ok(Chosen {
                decoder: Decoder::new(&ogg.parameters(), name)?,
                id: 0,
                tick: None,
                lead: Some(ogg.lead()),
            }),
        }
    }

    /// Finds the last packet of a track from now on.
    pub(super) fn look_ahead(&mut self, track: u32) {
        if let Self::Library(_, ahead) = self {
            *ahead = Some(Ahead::of(track));
        }
    }

    /// The next packet of any track.
    pub(super) fn next(&mut self, name: &str) -> Result<Next, AudioError> {
        match self {
            Self::Library(reader, None) => Ok(next_of(reader.as_mut())),
            Self::Library(reader, Some(ahead)) => Ok(ahead.next(|| next_of(reader.as_mut()))),
            Self::Ogg(ogg) => match ogg.next() {
                Ok(ogg::Next::Packet(packet)) => {
                    let end = End {
                        granule: packet.granule,
                        ends_page: packet.ends_page,
                        is_last: packet.is_last,
                    };
                    let packet = Packet::new(0, Timestamp::ZERO, Duration::ZERO, packet.data);
                    Ok(Next::Packet(packet, end))
                }
                Ok(ogg::Next::Stream) => match ogg.reopen() {
                    Ok(()) => Ok(Next::Tracks),
                    Err(ogg::Fault::Io(source)) => {
                        Err(AudioError::Io { name: name.to_owned(), source })
                    }
                    // the samples before it are kept
                    Err(fault) => Ok(Next::End(Some(of_ogg(name, fault).to_string()))),
                },
                Ok(ogg::Next::End) => Ok(Next::End(None)),
                Err(fault) => Err(of_ogg(name, fault)),
            },
        }
    }

    /// The length that a container states, in seconds, at most what its bytes can hold. Whether it
    /// is that of the track alone.
    pub(super) fn seconds(&self, id: u32, input: &Input) -> (Option<f64>, bool) {
        let reader = match self {
            Self::Library(reader, _) => reader,
            Self::Ogg(ogg) => return (ogg.seconds(), true),
        };
        let entry = reader.tracks().iter().find(|entry| entry.id == id);
        let Some(entry) = entry else { return (None, false) };
        let Some(CodecParameters::Audio(parameters)) = &entry.codec_params else {
            return (None, false);
        };
        let rate = match parameters.codec {
            CODEC_ID_OPUS => Some(opus::RATE),
            _ => parameters.sample_rate.filter(|rate| *rate > 0),
        };
        let mut frames = entry.num_frames.map(|frames| frames as f64);
        if codec::is_pcm(parameters.codec)
            && let (Some(stated), Some(channels)) = (frames, parameters.channels.as_ref())
        {
            // A file that was written to a pipe states the greatest length that its header can
            // hold.
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
}

/// The next item of a reader.
fn next_of(reader: &mut dyn FormatReader) -> Next {
    match reader.next_packet() {
        Ok(Some(packet)) => Next::Packet(packet, End::default()),
        Ok(None) => Next::End(None),
        Err(Error::ResetRequired) => Next::Tracks,
        // Files that were written to a pipe end so. Others lack a part of the stated length.
        Err(Error::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => Next::End(None),
        Err(error) => Next::End(Some(error.to_string())),
    }
}

/// The search for the first frame of MPEG audio or AAC, and for the start of an MP4 file.
fn frames(kind: Kind) -> &'static Probe {
    static FRAMES: OnceLock<Probe> = OnceLock::new();
    static MP4: OnceLock<Probe> = OnceLock::new();
    let options = || ProbeOptions { max_probe_depth: SEARCH, ..ProbeOptions::default() };
    if kind == Kind::Mp4 {
        return MP4.get_or_init(|| {
            let mut probe = Probe::new_with_options(&options());
            probe.register_format::<IsoMp4Reader<'_>>();
            probe
        });
    }
    FRAMES.get_or_init(|| {
        let mut probe = Probe::new_with_options(&options());
        probe.register_format::<AdtsReader<'_>>();
        probe.register_format::<MpaReader<'_>>();
        probe
    })
}

fn choose(reader: &dyn FormatReader, name: &str) -> Result<Chosen, AudioError> {
    let default = reader.default_track(TrackType::Audio);
    let others = reader.tracks().iter().filter(|t| t.track_type() == Some(TrackType::Audio));
    let mut problem = None;
    for entry in default.into_iter().chain(others) {
        match Decoder::new(&parameters(entry), name) {
            Ok(decoder) => {
                let (id, tick) = (entry.id, entry.time_base.map(f64::from));
                return Ok(Chosen { decoder, id, tick, lead: None });
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.unwrap_or_else(|| AudioError::NoAudio {
        name: name.to_owned(),
        container: reader.format_info().short_name,
        tracks: reader.tracks().len(),
    }))
}

fn parameters(entry: &Entry) -> AudioCodecParameters {
    match &entry.codec_params {
        Some(CodecParameters::Audio(parameters)) => parameters.clone(),
        _ => AudioCodecParameters { codec: CODEC_ID_NULL_AUDIO, ..Default::default() },
    }
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

fn of_ogg(name: &str, fault: ogg::Fault) -> AudioError {
    let name = name.to_owned();
    match fault {
        ogg::Fault::Io(source) => AudioError::Io { name, source },
        ogg::Fault::Codec(codec) => AudioError::Codec { name, codec: codec.to_owned() },
        ogg::Fault::NoAudio(tracks) => AudioError::NoAudio { name, container: "ogg", tracks },
        ogg::Fault::Malformed(problem) => AudioError::Malformed { name, problem },
    }
}
