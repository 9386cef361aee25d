//! Gemma 4: the largest size of the picture's shape within a budget of embeddings.
//!
//! The "unified" model has no tower. Its patches are the squares of patches that the tower merges.

use super::bounds::Bounds;
use super::fields::Fields;
use super::plan::Plan;
use super::size::Size;
use super::tower::{Tower, agree};
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Bicubic, is_normalized: false };

/// The budgets that the models were trained with.
const BUDGETS: [u32; 5] = [70, 140, 280, 560, 1_120];

pub(super) struct Gemma4 {
    tower: Tower,
    budget: u32,
    /// Pixels of a side of what becomes one embedding.
    side: u32,
}

impl Gemma4 {
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        agree(fields, "patch_size", tower.patch)?;
        agree(fields, "pooling_kernel_size", tower.merge)?;
        Ok(Self { tower, budget: budget(fields)?, side: tower.square() })
    }

    pub(super) fn read_unified(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        let side = fields.count("patch_size")?.saturating_mul(fields.count("pooling_kernel_size")?);
        if (side, 1) != (tower.patch, tower.merge) {
            let problem = format!("its patches have {side} pixels a side: expected {tower:?}");
            return Err(fields.error(problem));
        }
        Ok(Self { tower, budget: budget(fields)?, side })
    }

    /// `get_aspect_ratio_preserving_size`
    pub(super) fn plan(&self, size: Size, bounds: Bounds) -> Result<Plan, String> {
        let budget = self.budget(bounds);
        let (width, height) = (u64::from(size.width), u64::from(size.height));
        let most = u64::from(budget) * u64::from(self.side).pow(2);
        let factor = (most as f64 / (width * height) as f64).sqrt();
        let floor = |side: u64| (factor * side as f64 / f64::from(self.side)).floor() as u64;
        let longest = u64::from(budget);
        let (wide, high) = match (floor(width), floor(height)) {
            (0, 0) => (0, 0),
            (wide, 0) if wide > 0 => ((width / height).min(longest), 1),
            (0, _) => (1, (height / width).min(longest)),
            both => both,
        };
        if wide * high == 0 || wide * high > longest {
            let most = format!("a size of at most {longest} squares of {} pixels", self.side);
            return Err(format!("has {width} x {height} pixels, which do not fit into {most}"));
        }
        let [wide, high] = [wide, high].map(|squares| squares as u32 * self.side);
        Ok(Plan::whole(self.tower, Size::new(wide, high)))
    }

    /// The budget of the file, or another one that the models were trained with.
    fn budget(&self, bounds: Bounds) -> u32 {
        let [smallest, .., largest] = BUDGETS;
        let reaches = |budget: &u32| *budget as usize >= bounds.least;
        let is_within = |budget: &u32| *budget as usize <= bounds.most;
        let mut budget = self.budget;
        if !reaches(&budget) {
            budget = BUDGETS.into_iter().find(reaches).unwrap_or(largest);
        }
        if !is_within(&budget) {
            budget = BUDGETS.into_iter().rev().find(is_within).unwrap_or(smallest);
        }
        budget
    }
}

fn budget(fields: &mut Fields<'_>) -> Result<u32, ImageError> {
    let budget = fields.count("max_soft_tokens")?;
    if !BUDGETS.contains(&budget) {
        let problem = format!("its field max_soft_tokens is {budget}: expected one of {BUDGETS:?}");
        return Err(fields.error(problem));
    }
    Ok(budget)
}
