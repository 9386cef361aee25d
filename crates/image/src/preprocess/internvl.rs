//! InternVL: tiles in the arrangement nearest to the picture's shape, then all of it in one tile.

use super::bounds::Bounds;
use super::fields::Fields;
use super::plan::Plan;
use super::size::Size;
use super::tower::Tower;
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Bicubic, is_normalized: true };

/// Tiles at most.
const MOST: u32 = 256;

pub(super) struct InternVl {
    tower: Tower,
    tile: u32,
    /// Columns and rows of tiles, by their number.
    arrangements: Vec<(u32, u32)>,
}

impl InternVl {
    /// Tiles are cut whatever the file's `crop_to_patches` says, as `InternVLProcessor` does.
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        fields.switch("crop_to_patches", true)?;
        let [height, width] = fields.sizes("size", ["height", "width"])?;
        tower.check_multiple(fields, "size", Size::new(width, height))?;
        let (least, most) = (fields.count("min_patches")?, fields.count("max_patches")?);
        if width != height || least > most || most > MOST {
            let problem = format!("it has {least} to {most} tiles of {width} x {height} pixels");
            return Err(fields.error(format!("{problem}: expected at most {MOST} squares")));
        }
        let sides = (1..=most).flat_map(|wide| (1..=most).map(move |high| (wide, high)));
        let mut arrangements: Vec<_> =
            sides.filter(|(wide, high)| (least..=most).contains(&(wide * high))).collect();
        arrangements.sort_by_key(|(wide, high)| wide * high);
        Ok(Self { tower, tile: width, arrangements })
    }

    pub(super) fn plan(&self, size: Size, bounds: Bounds) -> Plan {
        let (wide, high) = self.arrangement(size, bounds);
        let (tile, mut plan) = (Size::square(self.tile), Plan::new(self.tower));
        if wide * high == 1 {
            plan.add(None, tile);
            return plan;
        }
        let base = Size::new(wide * self.tile, high * self.tile);
        plan.base.push(base);
        plan.cut(base, self.tile);
        plan.add(None, tile);
        plan
    }

    /// `get_optimal_tiled_canvas`: of equal ones the later, if the picture fills half of it.
    fn arrangement(&self, size: Size, bounds: Bounds) -> (u32, u32) {
        let aspect = f64::from(size.width) / f64::from(size.height);
        let area = f64::from(size.width) * f64::from(size.height);
        let tile = f64::from(self.tile) * f64::from(self.tile);
        let (mut least, mut best) = (f64::INFINITY, (1, 1));
        let (fewest, most) = self.tiles(bounds);
        let within = |(wide, high): &&(u32, u32)| (fewest..=most).contains(&(wide * high));
        for (wide, high) in self.arrangements.iter().filter(within) {
            let distance = (aspect - f64::from(*wide) / f64::from(*high)).abs();
            let fills = area > 0.5 * tile * f64::from(*wide) * f64::from(*high);
            if distance < least || distance == least && fills {
                (least, best) = (distance, (*wide, *high));
            }
        }
        best
    }

    /// The fewest and the most tiles. More than one have a thumbnail besides.
    fn tiles(&self, bounds: Bounds) -> (u32, u32) {
        let embeddings = (self.tile / self.tower.square()).pow(2) as usize;
        let of_file = self.arrangements.iter().map(|(wide, high)| wide * high);
        let (fewest, largest) =
            of_file.fold((MOST, 1), |(a, b), tiles| (a.min(tiles), b.max(tiles)));
        let views = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1);
        let most = views(bounds.most / embeddings).max(1).min(largest);
        let least = match bounds.least <= embeddings {
            true => 1,
            false => views(bounds.least.div_ceil(embeddings)).max(2),
        };
        (least.max(fewest).min(most), most)
    }
}
