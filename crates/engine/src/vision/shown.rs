//! A picture of a sequence, and its key.

use std::{ops::Range, sync::Arc};

use pelton_image::{Area, Picture, Plan, Prepared, Size, View};
use sha2::{Digest, Sha256};

use super::held::Hold;

/// The identity of a picture: the digest of its pixels and of what a tower takes of them.
pub(super) type Key = [u8; 32];

/// A picture of a sequence.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) key: Key,
    /// The numbers of its rows; `None` if there are none left.
    pub(super) numbers: Option<Range<u32>>,
    pub(super) form: Form,
}

/// The values of a picture.
#[derive(Debug)]
pub(super) enum Form {
    /// For the tower. The memory is free again with its hold.
    Patches {
        prepared: Prepared,
        #[expect(dead_code, reason = "it acts on drop")]
        hold: Hold,
    },
    /// From the tower.
    Embeddings(Arc<Vec<f32>>),
}

/// The key of a picture of which a tower sees what a plan says. Equal pictures of one plan have
/// equal patches.
pub(super) fn key(picture: &Picture, plan: &Plan) -> Key {
    let mut numbers = vec![picture.width(), picture.height(), plan.tiles.0, plan.tiles.1];
    let sides = |size: Size| [size.width, size.height];
    numbers.extend([plan.base.len() as u32, plan.views.len() as u32]);
    numbers.extend(plan.base.iter().copied().flat_map(sides));
    for View { is_of_base, area, size } in plan.views.iter().copied() {
        let area = area.map_or([0; 4], |Area { x, y, size }| [x, y, size.width, size.height]);
        numbers.extend([u32::from(is_of_base)].into_iter().chain(area).chain(sides(size)));
    }
    let mut digest = Sha256::new();
    for number in numbers {
        digest.update(number.to_le_bytes());
    }
    digest.update(picture.rgb());
    digest.finalize().into()
}
