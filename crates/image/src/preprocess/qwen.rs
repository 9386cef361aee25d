//! Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5: a size near the picture's own, within bounds of pixels.

use super::bounds::Bounds;
use super::fields::Fields;
use super::plan::Plan;
use super::size::Size;
use super::tower::{Tower, agree};
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Bicubic, is_normalized: true };

/// The frames of a video that a patch takes. A still repeats its one frame, so the weights of the
/// frames can be summed, and a patch has one frame here.
const FRAMES: u32 = 2;
/// The longer side over the shorter one at most.
const ASPECT: f64 = 200.0;

pub(super) struct Qwen {
    tower: Tower,
    least: f64,
    most: f64,
}

impl Qwen {
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        agree(fields, "patch_size", tower.patch)?;
        agree(fields, "merge_size", tower.merge)?;
        agree(fields, "temporal_patch_size", FRAMES)?;
        // the older names override
        let (least, most) = match fields.has("size") {
            true => {
                let [least, most] = fields.sizes("size", ["shortest_edge", "longest_edge"])?;
                let old = (fields.count_if_set("min_pixels")?, fields.count_if_set("max_pixels")?);
                (old.0.unwrap_or(least), old.1.unwrap_or(most))
            }
            false => (fields.count("min_pixels")?, fields.count("max_pixels")?),
        };
        if least > most {
            return Err(fields.error(format!("it has {least} pixels at least and {most} at most")));
        }
        Ok(Self { tower, least: least.into(), most: most.into() })
    }

    /// `smart_resize`, whose `round` goes to the even neighbour.
    pub(super) fn plan(&self, size: Size, bounds: Bounds) -> Result<Plan, String> {
        let factor = f64::from(self.tower.square());
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        if width.max(height) / width.min(height) > ASPECT {
            let most = format!("a longer side of at most {ASPECT} times the shorter one");
            return Err(format!("has {} x {} pixels: expected {most}", size.width, size.height));
        }
        let mut sides = [width, height].map(|side| (side / factor).round_ties_even() * factor);
        let area = sides[0] * sides[1];
        let [fewest, most] = [bounds.least, bounds.most].map(|count| count as f64 * factor.powi(2));
        let most = self.most.min(most);
        let least = self.least.max(fewest).min(most);
        if area > most {
            let beta = (width * height / most).sqrt();
            let side = |side: f64| ((side / beta / factor).floor() * factor).max(factor);
            sides = [width, height].map(side);
        } else if area < least {
            let beta = (least / (width * height)).sqrt();
            sides = [width, height].map(|side| (side * beta / factor).ceil() * factor);
        }
        let [width, height] = sides.map(|side| side as u32);
        Ok(Plan::whole(self.tower, Size::new(width, height)))
    }
}
