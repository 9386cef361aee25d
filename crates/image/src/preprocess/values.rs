//! The numbers of a byte: scaled, and normalized for each channel.

use super::fields::Fields;
use crate::{Filter, ImageError};

/// Constants of a class of transformers, for fields that published files leave out.
pub(super) struct Class {
    pub(super) filter: Filter,
    pub(super) is_normalized: bool,
}

/// The number of each byte in each channel.
pub(super) struct Values {
    pub(super) table: Box<[[f32; 256]; 3]>,
    pub(super) filter: Filter,
}

impl Values {
    pub(super) fn read(fields: &mut Fields<'_>, class: &Class) -> Result<Self, ImageError> {
        if !fields.switch("do_resize", true)? {
            return Err(fields.error("its field do_resize is false: expected true".to_owned()));
        }
        let filter = fields.filter(class.filter)?;
        let is_scaled = fields.switch("do_rescale", true)?;
        let factor = fields.number_or("rescale_factor", 1.0 / 255.0)?;
        let is_normalized = fields.switch("do_normalize", class.is_normalized)?;
        let (mut mean, mut std) = ([0.0; 3], [1.0; 3]);
        if is_normalized || fields.has("image_mean") {
            mean = fields.channels("image_mean")?;
        }
        if is_normalized || fields.has("image_std") {
            std = fields.channels("image_std")?;
        }
        if let Some(zero) = std.into_iter().find(|std| *std <= 0.0) {
            return Err(fields.error(format!("its field image_std has {zero}: expected more")));
        }
        // the order of transformers: a product in f64, then f32
        let scaled = |byte: usize| match is_scaled {
            true => (byte as f64 * factor) as f32,
            false => byte as f32,
        };
        let value = |channel: usize, byte| match is_normalized {
            true => (scaled(byte) - mean[channel] as f32) / std[channel] as f32,
            false => scaled(byte),
        };
        let of_channel = |channel| std::array::from_fn(|byte| value(channel, byte));
        let table: Box<[[f32; 256]; 3]> = Box::new(std::array::from_fn(of_channel));
        if let Some(value) = table.as_flattened().iter().find(|value| !value.is_finite()) {
            let problem = format!("its fields rescale_factor and image_std make {value} of a byte");
            return Err(fields.error(problem));
        }
        Ok(Self { table, filter })
    }
}
