//! The bounds within which a picture is read.

use crate::ImageError;
use std::time::{Duration, Instant};

/// Bounds of a picture. Its header is compared with them before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Pixels of a side.
    pub side: u32,
    /// Pixels.
    pub pixels: u64,
    /// The longer side over the shorter one.
    pub aspect: u32,
    /// Bytes of memory that decoding takes, the result included and the file not.
    pub memory: u64,
    /// The time from the start of a [`Job`] on.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 20_000_000,
            side: 16_384,
            pixels: 64_000_000,
            aspect: 200,
            memory: 800_000_000,
            time: Duration::from_secs(20),
        }
    }
}

/// A picture that is read: its name in messages, its bounds, and the end of the work.
///
/// Decoders look at the end whenever they read 16 KiB, and a resize at every strip of rows. The
/// longest stretch between two looks is the decoding of a JPEG or WebP, whose work is bounded by
/// its header.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    name: &'a str,
    limits: Limits,
    end: Option<Instant>,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Job<'a> {
    /// A job that begins now. `name` stands for the picture in messages.
    #[must_use]
    pub fn new(name: &'a str, limits: Limits, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { name, limits, end: Instant::now().checked_add(limits.time), is_cancelled }
    }

    /// The picture's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The bounds.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether the work goes on.
    ///
    /// # Errors
    ///
    /// [`ImageError::Cancelled`] or [`ImageError::TooSlow`].
    pub fn check(&self) -> Result<(), ImageError> {
        let name = || self.name.to_owned();
        if (self.is_cancelled)() {
            return Err(ImageError::Cancelled { name: name() });
        }
        if self.end.is_some_and(|end| Instant::now() >= end) {
            let seconds = self.limits.time.as_secs_f64();
            return Err(ImageError::TooSlow { name: name(), seconds });
        }
        Ok(())
    }

    pub(crate) fn malformed(&self, problem: impl Into<String>) -> ImageError {
        ImageError::Malformed { name: self.name.to_owned(), problem: problem.into() }
    }

    pub(crate) fn beyond(&self, problem: String) -> ImageError {
        ImageError::Limit { name: self.name.to_owned(), problem }
    }

    /// Compares the size of a file with the limit.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<(), ImageError> {
        let most = self.limits.bytes;
        if bytes > most {
            return Err(self.beyond(format!("has {bytes} bytes: expected at most {most}")));
        }
        Ok(())
    }

    /// Compares the size of a picture with the limits, and the memory of its decoding.
    pub(crate) fn check_size(
        &self,
        width: u32,
        height: u32,
        bytes_per_pixel: u64,
    ) -> Result<(), ImageError> {
        let Limits { side, pixels, aspect, memory, .. } = self.limits;
        let size = format!("has {width} x {height} pixels");
        if width == 0 || height == 0 {
            return Err(self.malformed(format!("it {size}: expected at least one")));
        }
        if width.max(height) > side {
            return Err(self.beyond(format!("{size}: expected at most {side} on a side")));
        }
        let count = u64::from(width) * u64::from(height);
        if count > pixels {
            return Err(self.beyond(format!("{size}: expected at most {pixels} in all")));
        }
        if u64::from(width.max(height)) > u64::from(width.min(height)) * u64::from(aspect) {
            let most = format!("expected a longer side of at most {aspect} times the shorter one");
            return Err(self.beyond(format!("{size}: {most}")));
        }
        let bytes = count * bytes_per_pixel;
        if bytes > memory {
            let most = format!("expected at most {memory} bytes");
            return Err(self.beyond(format!("{size}, which take {bytes} bytes of memory: {most}")));
        }
        Ok(())
    }

    /// Compares the memory of a picture that is made of another one with the limit.
    pub(crate) fn check_result(&self, width: u32, height: u32) -> Result<(), ImageError> {
        let (bytes, most) = (u64::from(width) * u64::from(height) * 3, self.limits.memory);
        if bytes == 0 || bytes > most {
            let size = format!("cannot be resized by way of {width} x {height} pixels");
            return Err(self.beyond(format!("{size}: expected 1 to {} of them", most / 3)));
        }
        Ok(())
    }

    /// Compares the memory of values of four bytes with the limit.
    pub(crate) fn check_values(&self, count: usize) -> Result<(), ImageError> {
        let (bytes, most) = (count as u64 * 4, self.limits.memory);
        if bytes > most {
            let found = format!("becomes {bytes} bytes of patches");
            return Err(self.beyond(format!("{found}: expected at most {most}")));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
