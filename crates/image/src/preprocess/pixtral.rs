//! Pixtral, Mistral 3: the picture's own size up to a longest edge, rounded up to whole patches.

use super::bounds::Bounds;
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

    /// The longest edge is that of the file, or else the greatest number of squares within the
    /// bounds. A picture is never enlarged.
    pub(super) fn plan(&self, size: Size, bounds: Bounds) -> Result<Plan, String> {
        let mut plan = self.with_longest(size, self.longest)?;
        let squares = self.longest.min(size.width.max(size.height)).div_ceil(self.tower.square());
        for squares in (1..squares).rev() {
            if plan.tokens() <= bounds.most {
                break;
            }
            // a long picture keeps a pixel of its shorter side
            let Ok(smaller) = self.with_longest(size, squares * self.tower.square()) else { break };
            plan = smaller;
        }
        Ok(plan)
    }

    /// `get_resize_output_image_size`
    fn with_longest(&self, size: Size, longest_edge: u32) -> Result<Plan, String> {
        let longest = f64::from(longest_edge);
        let sides = [size.width, size.height];
        let [wide, high] = sides.map(|side| f64::from(side) / longest);
        let ratio = wide.max(high);
        let square = self.tower.square();
        let [width, height] = sides.map(|side| {
            let side = if ratio > 1.0 { (f64::from(side) / ratio).floor() as u32 } else { side };
            side.div_ceil(square) * square
        });
        if width == 0 || height == 0 {
            let edge = longest_edge;
            let found = format!("has {} x {} pixels", size.width, size.height);
            return Err(format!("{found}, of which a longest edge of {edge} leaves none"));
        }
        Ok(Plan::whole(self.tower, Size::new(width, height)))
    }
}
