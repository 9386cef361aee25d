//! Sizes of pictures on the command line.

use std::str::FromStr;

/// Pixels of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split_once('x').map(|(width, height)| (width.parse(), height.parse()));
        match sides {
            Some((Ok(width @ 1..=8192), Ok(height @ 1..=8192))) => Ok(Self { width, height }),
            _ => Err("expected WIDTHxHEIGHT, such as 1920x1080, each at most 8192".to_owned()),
        }
    }
}
