//! The rates of a device, from which the time of a pass follows.

/// The measured rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes of its own memory that it reads in a second.
    pub read: f64,
    /// Bytes of keys and values that attention reads in a second; [`read`](Self::read) if
    /// they are not measured.
    pub cache: Option<f64>,
    /// Operations in a second in products of the few rows of decoding, two for each product, beside
    /// the read of the weights; [`multiply`](Self::multiply) if they are not measured.
    pub few: Option<f64>,
    /// Operations in a second in products of many rows, two for each product; `None` if
    /// they are not measured.
    pub multiply: Option<f64>,
    /// Seconds of a step beyond its reads.
    pub step: f64,
    /// The way to the CPU's memory and back; `None` of the CPU itself.
    pub link: Option<LinkRates>,
}

/// The rates of the way between a GPU and the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRates {
    /// Bytes in a second from the CPU's memory to the GPU.
    pub up: f64,
    /// Seconds that a row takes from the GPU to the CPU and back, or to another GPU, in a pass.
    pub hop: f64,
}

impl Rates {
    /// The rates of a device that reads this many bytes in a second, whose other
    /// rates are not measured.
    pub const fn reading(read: f64) -> Self {
        Self { read, cache: None, few: None, multiply: None, step: 0.0, link: None }
    }
}
