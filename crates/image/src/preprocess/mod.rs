//! From a picture to the rows of a vision tower, by the settings of a model's own file.
//!
//! A family of models has a file here with its rule of sizes. The rule gives a [`Plan`], plain data
//! without pixels. All families share the rest: resizing, numbers, patches in the order of
//! [`Grid`].

mod bounds;
mod fields;
mod gemma3;
mod gemma4;
mod idefics3;
mod internvl;
mod patches;
mod pixtral;
mod plan;
mod qwen;
mod size;
mod tower;
mod values;

pub use bounds::Bounds;
pub use plan::{Grid, Plan, View};
pub use size::{Area, Size};
pub use tower::Tower;

use crate::{ImageError, Job, Picture, resize};
use fields::Fields;
use patches::Channels;
use values::{Class, Values};

/// Pixels of a side that a plan may have.
const SIDE: u32 = 1 << 16;

/// Rules of sizes.
enum Family {
    Gemma3(gemma3::Gemma3),
    Gemma4(gemma4::Gemma4),
    Idefics3(idefics3::Idefics3),
    InternVl(internvl::InternVl),
    Pixtral(pixtral::Pixtral),
    Qwen(qwen::Qwen),
}

/// The preprocessing of a model.
///
/// ```
/// use pelton_image::{Bounds, Preprocessor, Tower};
///
/// # fn main() -> Result<(), pelton_image::ImageError> {
/// let settings = r#"{
///     "image_processor_type": "PixtralImageProcessor",
///     "image_mean": [0.48, 0.46, 0.41],
///     "image_std": [0.27, 0.26, 0.28],
///     "patch_size": 14,
///     "size": {"longest_edge": 1540}
/// }"#;
/// let tower = Tower { patch: 14, merge: 2 };
/// let preprocessor = Preprocessor::from_json("preprocessor_config.json", settings, tower)?;
/// let plan = preprocessor.plan(1920, 1080, Bounds::default(), "a screenshot")?;
/// assert_eq!((plan.views[0].size.width, plan.views[0].size.height), (1540, 868));
/// assert_eq!(plan.tokens(), 55 * 31);
/// let few = Bounds { most: 256, ..Bounds::default() };
/// assert!(preprocessor.plan(1920, 1080, few, "a screenshot")?.tokens() <= 256);
/// # Ok(())
/// # }
/// ```
pub struct Preprocessor {
    family: Family,
    tower: Tower,
    channels: Channels,
    values: Values,
}

/// The rows that a vision tower takes of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// Patches as rows, those of all grids one after another: `[patches, width]`.
    pub pixels: Vec<f32>,
    /// Values of a patch.
    pub width: usize,
    /// The grids of the tower's pictures in order.
    pub grids: Vec<Grid>,
    /// Rows and columns of tiles or crops; zeros if there are none.
    pub tiles: (u32, u32),
    /// Embeddings that the tower gives, without the markers between them.
    pub tokens: usize,
}

impl Preprocessor {
    /// Reads the text of a `preprocessor_config.json`, or of a `processor_config.json` with an
    /// `image_processor`. `file` stands for it in messages.
    ///
    /// # Errors
    ///
    /// The file has no known `image_processor_type`, lacks a field, has an unknown one, or does not
    /// fit the tower.
    pub fn from_json(file: &str, text: &str, tower: Tower) -> Result<Self, ImageError> {
        let mut fields = Fields::new(file, text)?;
        let square = tower.patch.saturating_mul(tower.merge);
        if !(1..=SIDE).contains(&square) {
            return Err(fields.error(format!("its model has {tower:?}: expected positive sides")));
        }
        let kind = fields.text("image_processor_type")?;
        let class = ["Fast", "Pil"].into_iter().find_map(|suffix| kind.strip_suffix(suffix));
        let fields_of = &mut fields;
        let (family, class) = match class.unwrap_or(&kind) {
            "Gemma3ImageProcessor" => {
                (Family::Gemma3(gemma3::Gemma3::read(fields_of, tower)?), &gemma3::CLASS)
            }
            "Gemma4ImageProcessor" => {
                (Family::Gemma4(gemma4::Gemma4::read(fields_of, tower)?), &gemma4::CLASS)
            }
            "Gemma4UnifiedImageProcessor" => {
                (Family::Gemma4(gemma4::Gemma4::read_unified(fields_of, tower)?), &gemma4::CLASS)
            }
            "GotOcr2ImageProcessor" => {
                (Family::InternVl(internvl::InternVl::read(fields_of, tower)?), &internvl::CLASS)
            }
            "Idefics3ImageProcessor" | "SmolVLMImageProcessor" => {
                (Family::Idefics3(idefics3::Idefics3::read(fields_of, tower)?), &idefics3::CLASS)
            }
            "PixtralImageProcessor" => {
                (Family::Pixtral(pixtral::Pixtral::read(fields_of, tower)?), &pixtral::CLASS)
            }
            "Qwen2VLImageProcessor" => {
                (Family::Qwen(qwen::Qwen::read(fields_of, tower)?), &qwen::CLASS)
            }
            other => {
                return Err(fields.error(format!(
                    "its image_processor_type {other:?} is not supported: expected that of Gemma 3, Gemma 4, InternVL, Idefics3, SmolVLM, Pixtral or Qwen"
                )));
            }
        };
        let class: &Class = class;
        let values = Values::read(&mut fields, class)?;
        fields.finish()?;
        let is_last = matches!(family, Family::Gemma4(_));
        let channels = if is_last { Channels::Last } else { Channels::First };
        Ok(Self { family, tower, channels, values })
    }

    /// The sizes of what the tower sees of a picture, as near to the bounds as its family allows.
    ///
    /// # Errors
    ///
    /// The model cannot take a picture of this shape. `name` stands for it in the message.
    pub fn plan(
        &self,
        width: u32,
        height: u32,
        bounds: Bounds,
        name: &str,
    ) -> Result<Plan, ImageError> {
        let beyond = |problem| ImageError::Limit { name: name.to_owned(), problem };
        if !(1..=SIDE).contains(&width) || !(1..=SIDE).contains(&height) {
            let size = format!("has {width} x {height} pixels");
            return Err(beyond(format!("{size}: expected 1 to {SIDE} on a side")));
        }
        let size = Size::new(width, height);
        match &self.family {
            Family::Gemma3(family) => Ok(family.plan(size)),
            Family::Idefics3(family) => Ok(family.plan(size, bounds)),
            Family::InternVl(family) => Ok(family.plan(size, bounds)),
            Family::Gemma4(family) => family.plan(size, bounds).map_err(beyond),
            Family::Pixtral(family) => family.plan(size, bounds).map_err(beyond),
            Family::Qwen(family) => family.plan(size, bounds).map_err(beyond),
        }
    }

    /// Prepares a picture by a [plan](Self::plan) for its sizes.
    ///
    /// # Errors
    ///
    /// The plan is for a smaller or larger picture, the result is beyond the job's limits, or the
    /// job ends.
    pub fn prepare(
        &self,
        picture: &Picture,
        plan: &Plan,
        job: &Job<'_>,
    ) -> Result<Prepared, ImageError> {
        let grids = plan.grids();
        let width = 3 * (self.tower.patch as usize).pow(2);
        let count: usize = grids.iter().map(|grid| grid.patches() * width).sum();
        job.check_values(count)?;
        let mut base = None;
        for size in &plan.base {
            let from = base.as_ref().unwrap_or(picture);
            base = Some(self.resized(from, *size, job)?);
        }
        let mut pixels = vec![0.0; count];
        let mut rest = pixels.as_mut_slice();
        for (view, grid) in plan.views.iter().zip(&grids) {
            let from = base.as_ref().filter(|_| view.is_of_base).unwrap_or(picture);
            let whole = Area { x: 0, y: 0, size: view.size };
            let (resized, area) = match view.area {
                Some(area) if area.size == view.size => {
                    if !from.has(area.x, area.y, area.size.width, area.size.height) {
                        return Err(job.malformed("a tile of it has no pixels"));
                    }
                    (None, area)
                }
                Some(area) => {
                    let part = from.part(area.x, area.y, area.size.width, area.size.height);
                    let part = part.ok_or_else(|| job.malformed("a crop of it has no pixels"))?;
                    (Some(self.resized(&part, view.size, job)?), whole)
                }
                None => (Some(self.resized(from, view.size, job)?), whole),
            };
            let from = resized.as_ref().unwrap_or(from);
            job.check()?;
            let (own, others) = rest.split_at_mut(grid.patches() * width);
            let to = (*grid, self.tower);
            patches::fill(from, area, to, self.channels, &self.values, own)?;
            rest = others;
        }
        Ok(Prepared { pixels, width, grids, tiles: plan.tiles, tokens: plan.tokens() })
    }

    fn resized(&self, from: &Picture, to: Size, job: &Job<'_>) -> Result<Picture, ImageError> {
        resize(from, to.width, to.height, self.values.filter, job)
    }
}

impl std::fmt::Debug for Preprocessor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preprocessor").field("tower", &self.tower).finish_non_exhaustive()
    }
}
