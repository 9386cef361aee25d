//! A file of audio as samples of one channel at 16,000 samples a second.

use super::cancel::Cancel;
use super::input::Input;
use super::pipe;
use super::prepare::{Prepared, is_plausible, prepare};
use super::track::{Stated, Step, Track};
use crate::resample::Resampler;
use crate::{AudioError, SAMPLE_RATE, Samples};
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;

/// Greatest length unless [`AudioFile::limit`] sets another: 48 hours.
const LIMIT: u64 = 48 * 3600;
/// Greatest number of changes of the rate in a file. Each one builds a filter.
const CHANGES: usize = 16;
/// Missing seconds that are no sign of a truncated file: packets of a codec and its padding.
const MISSING: f64 = 0.25;

/// A fault of a file that could be decoded all the same.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// Packets that could not be decoded. Silence is in their places.
    Damaged {
        /// Packets.
        packets: u64,
        /// Seconds from the start of the file to the first one.
        first: f64,
        /// The fault of the first one.
        problem: String,
    },
    /// A file that ends before the length that it states.
    Truncated {
        /// Seconds that were decoded.
        seconds: f64,
        /// Seconds that the file states.
        stated: Option<f64>,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { packets, first, problem } => write!(
                f,
                "{packets} damaged packets were replaced by silence, the first at {first:.2} s ({problem})"
            ),
            Self::Truncated { seconds, stated: Some(stated) } => {
                write!(f, "the file ends after {seconds:.2} s, but it states {stated:.2} s")
            }
            Self::Truncated { seconds, stated: None } => {
                write!(f, "the file is cut off after {seconds:.2} s")
            }
        }
    }
}

/// An audio file that is decoded chunk by chunk in bounded memory.
///
/// The format is found by the content, never by the name: wav, aiff, flac, mp3, ogg with Opus,
/// Vorbis or FLAC, m4a and mp4 with AAC, ALAC or Opus, raw AAC, mkv and webm. Channels are mixed by
/// their mean. A file of 16-bit samples, one channel and 16,000 samples a second gives exactly
/// `x / 32768`. Values are in
/// [-1, 1]: greater ones are clamped, NaN becomes 0.
///
/// A file that is cut off or damaged in places gives what can be decoded, and
/// [`warnings`](Self::warnings) says so after the last chunk.
pub struct AudioFile {
    name: String,
    prepared: Prepared,
    /// The track, none after a failure.
    track: Option<Track>,
    stated: Stated,
    codec: String,
    /// The rate of the latest samples.
    rate: u32,
    resampler: Option<Resampler>,
    changes: usize,
    decoded: Vec<f32>,
    chunk: Vec<f32>,
    /// Samples that were returned.
    given: u64,
    /// Seconds of samples that were dropped.
    dropped: f64,
    limit: u64,
    damaged: Option<(u64, f64, String)>,
    cut: bool,
}

impl AudioFile {
    /// Opens a file. The audio of a pipe goes to a temporary file without a name, up to 4 GiB,
    /// because it is read twice. A pipe that does not begin as a known format is refused at once.
    ///
    /// # Errors
    ///
    /// The file cannot be read, has no known format, no audio, an unsupported codec or a damaged
    /// header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AudioError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |source| AudioError::Io { name: name.clone(), source };
        let file = File::open(path).map_err(failed)?;
        let kind = file.metadata().map_err(failed)?;
        if kind.is_file() {
            return Self::from_reader(file, &name);
        }
        Self::from_pipe(file, &name)
    }

    /// Reads a pipe to its end, as [`open`](Self::open) does. `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open), or it has more than 4 GiB.
    pub fn from_pipe(pipe: impl Read, name: &str) -> Result<Self, AudioError> {
        Self::from_reader(pipe::spooled(pipe, name)?, name)
    }

    /// Opens the bytes of a file. `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + 'static,
        name: &str,
    ) -> Result<Self, AudioError> {
        Self::from_reader(Cursor::new(bytes), name)
    }

    /// Opens a file that is read from a position that seeks. `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn from_reader(
        reader: impl Read + Seek + Send + 'static,
        name: &str,
    ) -> Result<Self, AudioError> {
        Self::from_reader_until(reader, name, &Cancel::new())
    }

    /// Opens a file as [`from_reader`](Self::from_reader) does, until a handle ends its reading.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open), or [`AudioError::Cancelled`].
    pub fn from_reader_until(
        reader: impl Read + Seek + Send + 'static,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Self, AudioError> {
        if cancel.is_due() {
            return Err(AudioError::Cancelled { name: name.to_owned() });
        }
        let failed = |source| AudioError::Io { name: name.to_owned(), source };
        let input = Input::new(Box::new(reader), cancel).map_err(failed)?;
        let prepared = prepare(&input, name)?;
        let track = Track::open(&prepared, name)?;
        let (stated, codec) = (track.stated(), track.codec().to_owned());
        Ok(Self {
            name: name.to_owned(),
            prepared,
            track: Some(track),
            stated,
            codec,
            rate: SAMPLE_RATE,
            resampler: None,
            changes: 0,
            decoded: Vec::new(),
            chunk: Vec::new(),
            given: 0,
            dropped: 0.0,
            limit: LIMIT * u64::from(SAMPLE_RATE),
            damaged: None,
            cut: false,
        })
    }

    /// Whether bytes begin as audio may do: a quick look that builds no decoder.
    ///
    /// # Errors
    ///
    /// They cannot be read, or are certainly no audio.
    pub fn check_kind(
        reader: impl Read + Seek + Send + 'static,
        name: &str,
    ) -> Result<(), AudioError> {
        let failed = |source| AudioError::Io { name: name.to_owned(), source };
        let input = Input::new(Box::new(reader), &Cancel::new()).map_err(failed)?;
        let unknown = || AudioError::Unknown { name: name.to_owned() };
        if is_plausible(&input) { Ok(()) } else { Err(unknown()) }
    }

    /// Sets the greatest length in seconds. A longer file is an error when this length is reached.
    #[must_use]
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = seconds.saturating_mul(u64::from(SAMPLE_RATE));
        self
    }

    /// The container's name, `wave` for example.
    #[must_use]
    pub fn container(&self) -> &'static str {
        self.stated.container
    }

    /// The codec's name, `MP3` for example.
    #[must_use]
    pub fn codec(&self) -> &str {
        &self.codec
    }

    /// Samples a second that the file states.
    #[must_use]
    pub fn rate(&self) -> Option<u32> {
        self.stated.rate
    }

    /// Channels that the file states.
    #[must_use]
    pub fn channels(&self) -> Option<usize> {
        self.stated.channels
    }

    /// The length that the file states, in seconds. The decoded length can differ.
    #[must_use]
    pub fn duration(&self) -> Option<f64> {
        self.stated.seconds
    }

    /// Seconds that were returned since the start of the file.
    #[must_use]
    pub fn position(&self) -> f64 {
        self.given as f64 / f64::from(SAMPLE_RATE)
    }

    /// Faults that were found so far. All are known when [`Samples::next_chunk`] has returned
    /// `None`.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some((packets, first, problem)) = &self.damaged {
            let (packets, first, problem) = (*packets, *first, problem.clone());
            warnings.push(Warning::Damaged { packets, first, problem });
        }
        let seconds = self.position();
        let missing = |stated: &f64| self.stated.own && stated - seconds > MISSING;
        let missing = self.stated.seconds.filter(missing);
        if self.track.is_none() && (self.cut || missing.is_some()) {
            warnings.push(Warning::Truncated { seconds, stated: missing });
        }
        warnings
    }

    /// All samples that are left.
    ///
    /// # Errors
    ///
    /// As for [`Samples::next_chunk`].
    pub fn read_all(&mut self) -> Result<Vec<f32>, AudioError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            all.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Decodes a packet into `chunk`, of which nothing may come. Returns false at the end.
    fn fill(&mut self) -> Result<bool, AudioError> {
        let Some(track) = &mut self.track else { return Ok(false) };
        self.decoded.clear();
        let rate = match track.step(&self.prepared.input, &self.name, &mut self.decoded)? {
            Step::Samples { rate } => {
                self.prepared.input.refill();
                rate
            }
            Step::Dropped { seconds } => {
                self.dropped += seconds;
                self.check_limit()?;
                return Ok(true);
            }
            Step::Damaged { rate, problem } => {
                let first = self.position();
                self.damaged.get_or_insert((0, first, problem)).0 += 1;
                rate
            }
            Step::End { problem } => {
                self.cut |= problem.is_some();
                self.track = None;
                if let Some(mut resampler) = self.resampler.take() {
                    resampler.finish(&mut self.chunk);
                }
                return Ok(true);
            }
        };
        if rate != self.rate {
            self.change(rate)?;
        }
        for sample in &mut self.decoded {
            *sample = if sample.is_nan() { 0.0 } else { sample.clamp(-1.0, 1.0) };
        }
        match &mut self.resampler {
            Some(resampler) => resampler.push(&self.decoded, &mut self.chunk),
            None => self.chunk.extend_from_slice(&self.decoded),
        }
        Ok(true)
    }

    /// Checks the length of what was decoded.
    fn check_limit(&self) -> Result<(), AudioError> {
        let dropped = (self.dropped * f64::from(SAMPLE_RATE)) as u64;
        if self.given.saturating_add(dropped) <= self.limit {
            return Ok(());
        }
        let seconds = self.limit / u64::from(SAMPLE_RATE);
        Err(AudioError::TooLong { name: self.name.clone(), seconds })
    }

    /// Begins another rate.
    fn change(&mut self, rate: u32) -> Result<(), AudioError> {
        if let Some(mut resampler) = self.resampler.take() {
            resampler.finish(&mut self.chunk);
        }
        self.changes += 1;
        if self.changes > CHANGES {
            let problem = format!("its rate changes more than {CHANGES} times");
            return Err(AudioError::Limit { name: self.name.clone(), problem });
        }
        self.rate = rate;
        if rate != SAMPLE_RATE {
            self.resampler = Some(Resampler::new(rate).ok_or_else(|| AudioError::Limit {
                name: self.name.clone(),
                problem: format!("{rate} samples a second cannot be resampled"),
            })?);
        }
        Ok(())
    }
}

impl Samples for AudioFile {
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        self.chunk.clear();
        while self.chunk.is_empty() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.track = None;
                    return Err(error);
                }
            }
        }
        // A filter overshoots at steps.
        for sample in &mut self.chunk {
            *sample = sample.clamp(-1.0, 1.0);
        }
        self.given += self.chunk.len() as u64;
        self.check_limit().inspect_err(|_| self.track = None)?;
        Ok(Some(&self.chunk))
    }

    fn rewind(&mut self) -> Result<(), AudioError> {
        // Readers cannot seek in every container, and their decoders keep state: a new one is
        // exact.
        self.track = None;
        self.track = Some(Track::open(&self.prepared, &self.name)?);
        (self.rate, self.resampler, self.changes) = (SAMPLE_RATE, None, 0);
        (self.given, self.dropped) = (0, 0.0);
        (self.damaged, self.cut) = (None, false);
        Ok(())
    }
}

impl std::fmt::Debug for AudioFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AudioFile")
            .field("name", &self.name)
            .field("stated", &self.stated)
            .field("codec", &self.codec)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
