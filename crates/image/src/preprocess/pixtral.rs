//! Pixtral, Mistral 3: the picture's own size up to a longest edge, rounded up to whole patches.

use super::fields::Fields;
use super::plan::Plan;
use super::size::Size;
use super::tower::{Tower, agree_if_set};
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Bicubic, is_normalized: true };

pub(super) struct Pixtral {
    tower: Tower,
    longest: u32,
}

impl Pixtral {
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        // the processor replaces it by the patch and the merge of the model
        agree_if_set(fields, "patch_size", tower.patch)?;
        let [longest] = fields.sizes("size", ["longest_edge"])?;
        Ok(Self { tower, longest })
    }

    /// `get_resize_output_image_size`
    pub(super) fn plan(&self, size: Size) -> Result<Plan, String> {
        let longest = f64::from(self.longest);
        let sides = [size.width, size.height];
        let [wide, high] = sides.map(|side| f64::from(side) / longest);
        let ratio = wide.max(high);
        let square = self.tower.square();
        let [width, height] = sides.map(|side| {
            let side = if ratio > 1.0 { (f64::from(side) / ratio).floor() as u32 } else { side };
            side.div_ceil(square) * square
        });
        if width == 0 || height == 0 {
            let edge = self.longest;
            let found = format!("has {} x {} pixels", size.width, size.height);
            return Err(format!("{found}, of which a longest edge of {edge} leaves none"));
        }
        Ok(Plan::whole(self.tower, Size::new(width, height)))
    }
}
