//! One track of audio of a container, decoded packet by packet.

use super::decoder::{Decoded, Decoder};
use super::guard::guard;
use super::input::Input;
use super::item::{End, Next};
use super::opus;
use super::prepare::Prepared;
use super::source::{Chosen, Source};
use crate::AudioError;

/// Greatest number of packets, one after another, that give no samples.
const EMPTY_PACKETS: usize = 4_096;
/// Greatest number of packets of other tracks, one after another: those of an hour of a film.
const OTHER_PACKETS: usize = 1 << 18;
/// Packets without samples for which a change of tracks counts, as it builds a decoder.
const TRACKS: usize = 256;
/// Greatest number of samples of a channel in a packet: FLAC's blocks have at most 65,535.
const PACKET: u64 = 65_536;

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
    /// Samples before the content were dropped.
    Dropped {
        /// Their length.
        seconds: f64,
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

/// The samples of a stream of Ogg so far, by which its last page cuts its end.
#[derive(Clone, Copy, Default)]
struct Clock {
    samples: u64,
    /// The lead of the granules over the samples, from the first page on.
    ahead: Option<i64>,
}

/// A track that is being decoded.
pub(crate) struct Track {
    source: Source,
    decoder: Decoder,
    id: u32,
    /// Seconds of a tick of the packets' times.
    tick: Option<f64>,
    rate: Option<u32>,
    /// Seconds that are to be dropped at the start.
    lead: f64,
    /// Seconds that are to be dropped at the end of the last packet.
    padding: f64,
    clock: Clock,
    interleaved: Vec<f32>,
    /// Samples of the last packet.
    last: u64,
    empty: usize,
    others: usize,
    /// Whether any packet was decoded.
    decoded: bool,
    stated: Stated,
    /// The last fault of a packet.
    problem: Option<String>,
}

impl Track {
    /// Opens the first track of audio that is supported.
    pub(crate) fn open(prepared: &Prepared, name: &str) -> Result<Self, AudioError> {
        let opened = guard(name, || Self::open_unguarded(prepared, name)).and_then(|track| track);
        opened.map_err(|error| cancelled(&prepared.input, name, error))
    }

    fn open_unguarded(prepared: &Prepared, name: &str) -> Result<Self, AudioError> {
        let mut source = Source::open(prepared, name)?;
        let Chosen { decoder, id, tick, lead } = source.choose(name)?;
        let start = prepared.starts.iter().find(|start| start.0 == id);
        let start = start.map(|start| start.1 as f64 * tick.unwrap_or(0.0));
        let lead = start.or(lead).or(decoder.lead()).unwrap_or(0.0);
        let padding = prepared.paddings.iter().find(|padding| padding.0 == id);
        let padding = padding.map_or(0.0, |padding| padding.1 as f64 * 1e-9);
        if padding > 0.0 {
            source.look_ahead(id);
        }
        let (seconds, own) = source.seconds(id, &prepared.input);
        let (rate, channels) = decoder.spec();
        let stated = Stated {
            container: source.container(),
            rate,
            channels,
            seconds: seconds.map(|seconds| seconds - lead).filter(|seconds| *seconds > 0.0),
            own,
        };
        Ok(Self {
            source,
            decoder,
            id,
            tick,
            rate,
            lead,
            padding,
            clock: Clock::default(),
            interleaved: Vec::new(),
            last: 0,
            empty: 0,
            others: 0,
            decoded: false,
            stated,
            problem: None,
        })
    }

    /// The codec's name.
    pub(crate) fn codec(&self) -> &str {
        self.decoder.codec()
    }

    /// The statements of the container.
    pub(crate) fn stated(&self) -> Stated {
        self.stated
    }

    /// Decodes the next packet and appends the mean of its channels to `out`.
    pub(crate) fn step(
        &mut self,
        input: &Input,
        name: &str,
        out: &mut Vec<f32>,
    ) -> Result<Step, AudioError> {
        let step = guard(name, || self.step_unguarded(input, name, out)).and_then(|step| step);
        match step {
            // a reader may take the end of its reading for that of the file
            Ok(Step::End { .. }) if input.cancel().is_due() => {
                Err(AudioError::Cancelled { name: name.to_owned() })
            }
            step => step.map_err(|error| cancelled(input, name, error)),
        }
    }

    fn step_unguarded(
        &mut self,
        input: &Input,
        name: &str,
        out: &mut Vec<f32>,
    ) -> Result<Step, AudioError> {
        loop {
            if input.cancel().is_due() {
                return Err(AudioError::Cancelled { name: name.to_owned() });
            }
            let (packet, end) = match self.source.next(name)? {
                Next::Packet(packet, end) => (packet, end),
                Next::Tracks => {
                    self.reopen(name)?;
                    continue;
                }
                Next::End(problem) => return self.end(name, problem),
            };
            let is_other = packet.track_id != self.id;
            *if is_other { &mut self.others } else { &mut self.empty } += 1;
            if self.empty > EMPTY_PACKETS || self.others > OTHER_PACKETS {
                let count = if self.empty > EMPTY_PACKETS { EMPTY_PACKETS } else { OTHER_PACKETS };
                let problem = format!("{count} packets, one after another, have no audio");
                return self.end(name, Some(problem));
            }
            if is_other {
                continue;
            }
            match self.decoder.decode(&packet, name, &mut self.interleaved)? {
                Decoded::Samples { rate, channels } => {
                    let frames = self.interleaved.len() / channels.max(1);
                    self.clock.advance(frames as u64, end);
                    let kept = self.kept(frames, &packet, rate, end);
                    self.interleaved.truncate(kept * channels);
                    let content = self.content(rate, channels);
                    if content.is_empty() {
                        if frames == 0 {
                            continue;
                        }
                        self.empty = 0;
                        return Ok(Step::Dropped { seconds: frames as f64 / f64::from(rate) });
                    }
                    mix(content, channels, out);
                    self.rate = Some(rate);
                    self.last = frames as u64;
                    (self.empty, self.others, self.decoded) = (0, 0, true);
                    return Ok(Step::Samples { rate });
                }
                Decoded::Reset => self.reopen(name)?,
                // A decoder that fails can decode the next packet. Zeros keep the times behind it
                // right.
                Decoded::Damaged(problem) => {
                    self.problem = Some(problem.clone());
                    if let Some(rate) = self.rate {
                        let frames = self.length(&packet, rate).min(PACKET);
                        self.clock.advance(frames, end);
                        if frames > 0 || self.tick.is_some() {
                            out.resize(out.len() + frames as usize, 0.0);
                            return Ok(Step::Damaged { rate, problem });
                        }
                    }
                }
            }
        }
    }

    /// The samples of a packet, by its own statement or that of its container.
    fn length(&self, packet: &symphonia::core::packet::Packet, rate: u32) -> u64 {
        match self.tick {
            _ if self.decoder.is_opus() => opus::samples(&packet.data).unwrap_or(0) as u64,
            Some(tick) => (packet.dur.get() as f64 * tick * f64::from(rate)).round() as u64,
            None => self.last,
        }
    }

    /// The samples of a packet that belong to the content, by the length of the stream or of the
    /// packet, or by the padding of the last one.
    fn kept(
        &self,
        frames: usize,
        packet: &symphonia::core::packet::Packet,
        rate: u32,
        end: End,
    ) -> usize {
        if let (Some(granule), Some(ahead), true) = (end.granule, self.clock.ahead, end.is_last) {
            let whole = granule.saturating_add_signed(ahead.saturating_neg());
            let excess = self.clock.samples.saturating_sub(whole);
            return frames.saturating_sub(usize::try_from(excess).unwrap_or(usize::MAX));
        }
        if end.is_last {
            let padding = (self.padding * f64::from(rate)).round() as usize;
            return frames.saturating_sub(padding);
        }
        match self.tick {
            // the last packet of Opus in MP4 is shorter than its samples
            Some(tick) if self.decoder.is_opus() && self.stated.container == "isomp4" => {
                let stated = (packet.dur.get() as f64 * tick * f64::from(rate)).round() as usize;
                frames.min(stated.max(1))
            }
            _ => frames,
        }
    }

    /// The decoded samples without those before the track's start.
    fn content(&mut self, rate: u32, channels: usize) -> &[f32] {
        let frames = (self.lead * f64::from(rate)).round() as usize;
        let dropped = frames.min(self.interleaved.len() / channels.max(1));
        self.lead -= dropped as f64 / f64::from(rate.max(1));
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
        let Chosen { decoder, id, tick, lead } = self.source.choose(name)?;
        (self.id, self.tick) = (id, tick);
        self.lead = lead.unwrap_or(0.0);
        self.decoder = decoder;
        self.clock = Clock::default();
        self.empty += TRACKS;
        Ok(())
    }
}

impl Clock {
    /// Counts the samples of a packet. At the end of the first page it is known what its granule is
    /// ahead of them. A stream of one page begins with 0.
    fn advance(&mut self, samples: u64, end: End) {
        self.samples = self.samples.saturating_add(samples);
        if self.ahead.is_none()
            && let Some(granule) = end.granule
        {
            if end.is_last {
                self.ahead = Some(0);
            } else if end.ends_page {
                self.ahead = Some((granule as i64).saturating_sub(self.samples as i64));
            }
        }
    }
}

/// An error, as that of a reading that was cancelled if it was.
fn cancelled(input: &Input, name: &str, error: AudioError) -> AudioError {
    match input.cancel().is_due() {
        true => AudioError::Cancelled { name: name.to_owned() },
        false => error,
    }
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
