//! Idefics3, SmolVLM: tiles of an enlarged picture, then all of it in one tile.

use super::bounds::Bounds;
use super::fields::Fields;
use super::plan::{Plan, View};
use super::size::Size;
use super::tower::Tower;
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Lanczos, is_normalized: true };

/// Pixels of a side before tiles are cut.
const MOST: u32 = 4_096;
/// Tiles of a side.
const TILES: u32 = 16;

pub(super) struct Idefics3 {
    tower: Tower,
    longest: u32,
    tile: u32,
    is_split: bool,
}

impl Idefics3 {
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        let [longest] = fields.sizes("size", ["longest_edge"])?;
        let [tile] = fields.sizes("max_image_size", ["longest_edge"])?;
        tower.check_multiple(fields, "max_image_size", Size::square(tile))?;
        let is_split = fields.switch("do_image_splitting", true)?;
        if longest.div_ceil(tile) > TILES || tile > MOST {
            let problem = format!("its longest edges are {longest} and {tile}");
            return Err(fields.error(format!("{problem}: expected at most {TILES} tiles a side")));
        }
        Ok(Self { tower, longest, tile, is_split })
    }

    /// A picture is enlarged to the longest edge, so that edge bounds its tiles.
    pub(super) fn plan(&self, size: Size, bounds: Bounds) -> Plan {
        let mut plan = self.with_longest(size, self.longest);
        let tiles = if self.is_split { self.longest.div_ceil(self.tile) } else { 1 };
        for tiles in (1..tiles).rev() {
            if plan.tokens() <= bounds.most {
                break;
            }
            plan = self.with_longest(size, tiles * self.tile);
        }
        plan
    }

    fn with_longest(&self, size: Size, longest: u32) -> Plan {
        let mut plan = Plan::new(self.tower);
        let first = within(to_longest(size, longest));
        plan.base.push(first);
        let tile = Size::square(self.tile);
        if self.is_split {
            let base = self.to_tiles(first);
            plan.base.push(base);
            if base != tile {
                plan.cut(base, self.tile);
            }
        }
        plan.views.push(View { is_of_base: true, area: None, size: tile });
        plan
    }

    /// `resize_for_vision_encoder`: both sides are made multiples of a tile's.
    fn to_tiles(&self, size: Size) -> Size {
        let aspect = aspect(size);
        let up = |side: u32| side.div_ceil(self.tile) * self.tile;
        if size.width >= size.height {
            let width = up(size.width);
            Size::new(width, up((f64::from(width) / aspect) as u32))
        } else {
            let height = up(size.height);
            Size::new(up((f64::from(height) * aspect) as u32), height)
        }
    }
}

fn aspect(size: Size) -> f64 {
    f64::from(size.width) / f64::from(size.height)
}

/// `_resize_output_size_rescale_to_max_len`: the shorter side is made even.
fn to_longest(size: Size, longest: u32) -> Size {
    let aspect = aspect(size);
    let even = |side: f64| (side as u32).next_multiple_of(2).max(1);
    if size.width >= size.height {
        Size::new(longest, even(f64::from(longest) / aspect))
    } else {
        Size::new(even(f64::from(longest) * aspect), longest)
    }
}

/// `_resize_output_size_scale_below_upper_bound`
fn within(size: Size) -> Size {
    let aspect = aspect(size);
    if size.width >= size.height && size.width > MOST {
        Size::new(MOST, ((f64::from(MOST) / aspect) as u32).max(1))
    } else if size.height > size.width && size.height > MOST {
        Size::new(((f64::from(MOST) * aspect) as u32).max(1), MOST)
    } else {
        size
    }
}
