//! Pictures to the pixels that vision models take.
//!
//! The crate decodes pictures and resizes them as Pillow does, bit for bit. Pictures are hostile
//! input: headers are read and compared with [`Limits`] before anything is allocated, and a [`Job`]
//! ends the work at a time or when its caller wants it no more.
//!
//! [`decode()`] gives a [`Picture`] of red, green and blue bytes, [`resize()`] another one of it.
//! [`Preprocessor`] makes the rows of a vision tower of it, by the settings of a model's own file.

mod decode;
mod error;
mod limits;
mod parallel;
mod picture;
mod preprocess;
mod resize;

pub use decode::decode;
pub use error::ImageError;
pub use limits::{Job, Limits};
pub use picture::Picture;
pub use preprocess::{Area, Bounds, Grid, Plan, Prepared, Preprocessor, Size, Tower, View};
pub use resize::{Filter, resize};
