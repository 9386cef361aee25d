//! Formats of a line for each segment.

use super::clean::line;
use super::python::strip;
use super::time::milliseconds;
use crate::Segment;
use std::io::{self, Write};

pub(crate) fn txt(segments: &[Segment], out: &mut dyn Write) -> io::Result<()> {
    for segment in segments {
        writeln!(out, "{}", line(strip(&segment.text)))?;
    }
    Ok(())
}

pub(crate) fn tsv(segments: &[Segment], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "start\tend\ttext")?;
    for segment in segments {
        let (start, end) = (milliseconds(segment.start), milliseconds(segment.end));
        writeln!(out, "{start}\t{end}\t{}", line(strip(&segment.text)).replace('\t', " "))?;
    }
    Ok(())
}

/// Quotes are doubled and line ends stay, as RFC 4180 says. The space before a text stays.
pub(crate) fn csv(segments: &[Segment], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "start,end,text")?;
    for segment in segments {
        let (start, end) = (milliseconds(segment.start), milliseconds(segment.end));
        writeln!(
            out,
            "{start},{end},\"{}\"",
            segment.text.replace('"', "\"\"").replace('\0', "\u{fffd}")
        )?;
    }
    Ok(())
}

/// A line feed in a text would begin a line without a time, so it becomes a space.
pub(crate) fn lrc(segments: &[Segment], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "[by:pelton]")?;
    for segment in segments {
        let all = milliseconds(segment.start) / 10;
        let (minutes, seconds, rest) = (all / 6000, all / 100 % 60, all % 100);
        let text = line(&segment.text);
        writeln!(out, "[{minutes:02}:{seconds:02}.{rest:02}]{text}")?;
    }
    Ok(())
}
