//! A picture in memory.

/// The red, green and blue bytes of a picture, row by row from the top: `[height, width, 3]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// A picture of given bytes; `None` if their number is not `width * height * 3`, or is zero.
    #[must_use]
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        let count = u64::from(width) * u64::from(height) * 3;
        (count > 0 && count == rgb.len() as u64).then_some(Self { width, height, rgb })
    }

    /// A picture of bytes whose number is right.
    pub(crate) fn of(width: u32, height: u32, rgb: Vec<u8>) -> Self {
        debug_assert_eq!(width as usize * height as usize * 3, rgb.len());
        Self { width, height, rgb }
    }

    /// Pixels of a row.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The bytes.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// A part; `None` if it is empty or not within the picture.
    pub(crate) fn part(&self, x: u32, y: u32, width: u32, height: u32) -> Option<Self> {
        if !self.has(x, y, width, height) {
            return None;
        }
        let span = x as usize * 3..(x + width) as usize * 3;
        let rows = (y..y + height).flat_map(|y| &self.row(y)[span.clone()]);
        Self::new(width, height, rows.copied().collect())
    }

    /// Whether an area lies inside.
    pub(crate) fn has(&self, x: u32, y: u32, width: u32, height: u32) -> bool {
        let is_within =
            |first: u32, count, of| first.checked_add(count).is_some_and(|end| end <= of);
        is_within(x, width, self.width) && is_within(y, height, self.height)
    }

    /// The bytes of a row.
    pub(crate) fn row(&self, y: u32) -> &[u8] {
        let length = self.width as usize * 3;
        &self.rgb[y as usize * length..][..length]
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture of {} x {} pixels", self.width, self.height)
    }
}
