//! The clock behind `strftime_now`.

use jiff::Zoned;
use jiff::tz::TimeZone;

/// The time that a template sees in `strftime_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The time of the machine, in its time zone.
    #[default]
    Local,
    /// A fixed time in UTC, in seconds since 1970: renderings repeat.
    Fixed(i64),
}

impl Clock {
    /// The time in a format of C's `strftime`.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let now = match self {
            Self::Local => Zoned::now(),
            Self::Fixed(seconds) => jiff::Timestamp::from_second(seconds)
                .map_err(|error| error.to_string())?
                .to_zoned(TimeZone::UTC),
        };
        jiff::fmt::strtime::format(format, &now).map_err(|error| error.to_string())
    }
}
