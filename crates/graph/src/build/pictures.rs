//! The changes of a language model for pictures: the axes of rotary embeddings, and the rows that
//! see each other.

use pelton_weights::{Keys, MAX_SIZE};

use super::sizes::Sizes;
use crate::{
    Error,
    arch::{Architecture, PictureMask, RopeAxes},
};

/// The pairs of each axis, by the key `rope.dimension_sections`; `None` if there is one axis.
pub(super) fn sections(axes: RopeAxes, keys: &Keys<'_>) -> Result<Option<[usize; 3]>, Error> {
    if axes == RopeAxes::One {
        return Ok(None);
    }
    let name = "rope.dimension_sections";
    let found = keys.opt_sizes(name, 4, MAX_SIZE)?;
    match found.as_deref() {
        Some(&[time, row, column, 0]) => Ok(Some([time, row, column])),
        Some(other) => {
            let expected = "three numbers of pairs and 0".to_owned();
            Err(keys.invalid(name, format!("{other:?}"), expected).into())
        }
        None => {
            let expected = "the pairs of time, row and column".to_owned();
            Err(keys.invalid(name, "nothing", expected).into())
        }
    }
}

/// The axis of each of `pairs` pairs.
pub(super) fn axes(rule: RopeAxes, [time, row, column]: [usize; 3], pairs: usize) -> Vec<u8> {
    let axis = |i: usize| match rule {
        RopeAxes::One => 0,
        RopeAxes::Blocked if i < time => 0,
        RopeAxes::Blocked => 1 + u8::from(i >= time + row),
        RopeAxes::Interleaved if i % 3 == 1 && i < 3 * row => 1,
        RopeAxes::Interleaved if i % 3 == 2 && i < 3 * column => 2,
        RopeAxes::Interleaved => 0,
    };
    (0..pairs).map(axis).collect()
}

/// Whether rows of a picture see each other in layers without a window, and in those with one.
pub(super) fn whole(
    arch: &Architecture,
    keys: &Keys<'_>,
    sizes: &Sizes,
) -> Result<[bool; 2], Error> {
    Ok(match arch.pictures {
        PictureMask::Causal => [false; 2],
        PictureMask::Whole => [true; 2],
        PictureMask::WholeInWindows(causal) => {
            let stated = keys.opt_bool("attention.bidirectional_pictures")?;
            [false, stated.unwrap_or(!causal.contains(&sizes.hidden))]
        }
    })
}
