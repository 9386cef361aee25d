//! Gemma 3: one fixed size, and crops of long pictures where "pan and scan" is on.

use super::fields::Fields;
use super::plan::Plan;
use super::size::{Area, Size};
use super::tower::Tower;
use super::values::Class;
use crate::{Filter, ImageError};

pub(super) const CLASS: Class = Class { filter: Filter::Bilinear, is_normalized: true };

/// Crops at most.
const CROPS: u32 = 256;

pub(super) struct Gemma3 {
    tower: Tower,
    size: Size,
    crops: Option<Crops>,
}

/// When and how a long picture is cropped.
struct Crops {
    least_side: u32,
    most: u32,
    least_ratio: f64,
}

impl Gemma3 {
    pub(super) fn read(fields: &mut Fields<'_>, tower: Tower) -> Result<Self, ImageError> {
        let [height, width] = fields.sizes("size", ["height", "width"])?;
        tower.check_multiple(fields, "size", Size::new(width, height))?;
        let mut crops = None;
        if fields.switch("do_pan_and_scan", false)? {
            let most = fields.count("pan_and_scan_max_num_crops")?;
            if most > CROPS {
                let problem = format!("its field pan_and_scan_max_num_crops is {most}");
                return Err(fields.error(format!("{problem}: expected at most {CROPS}")));
            }
            crops = Some(Crops {
                least_side: fields.count("pan_and_scan_min_crop_size")?,
                most,
                least_ratio: fields.number("pan_and_scan_min_ratio_to_activate")?,
            });
        } else {
            fields.count_if_set("pan_and_scan_min_crop_size")?;
            fields.count_if_set("pan_and_scan_max_num_crops")?;
            fields.number_or("pan_and_scan_min_ratio_to_activate", 0.0)?;
        }
        Ok(Self { tower, size: Size::new(width, height), crops })
    }

    pub(super) fn plan(&self, size: Size) -> Plan {
        let mut plan = Plan::whole(self.tower, self.size);
        let Some(crops) = &self.crops else { return plan };
        let is_wide = size.width >= size.height;
        let (long, short) = (size.width.max(size.height), size.width.min(size.height));
        let ratio = f64::from(long) / f64::from(short);
        if ratio < crops.least_ratio {
            return plan;
        }
        let count = ((ratio + 0.5).floor() as u32).min(long / crops.least_side);
        let count = count.max(2).min(crops.most);
        let step = long.div_ceil(count);
        if step.min(short) < crops.least_side {
            return plan;
        }
        for i in 0..count {
            let start = i * step;
            // a rest where the step does not divide the length
            let length = step.min(long.saturating_sub(start));
            let area = match is_wide {
                true => Area { x: start, y: 0, size: Size::new(length, short) },
                false => Area { x: 0, y: start, size: Size::new(short, length) },
            };
            plan.add(Some(area), self.size);
        }
        plan.tiles = if is_wide { (1, count) } else { (count, 1) };
        plan
    }
}
