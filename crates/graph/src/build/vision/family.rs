//! The table of towers.

use pelton_weights::Keys;

use crate::{Activation, Error, NormKind, RopeStyle, arch::FeedForward};

/// A kind of tower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TowerFamily {
    /// SigLIP and a mean of squares of patches.
    Gemma3,
    /// A tower with rotations and a mean of squares of patches, or none ("unified").
    Gemma4,
    /// SigLIP and a fold of squares of patches; SmolVLM has it too.
    Idefics3,
    /// InternViT.
    InternVl,
    /// Pixtral, and Mistral 3 that folds squares of patches.
    Pixtral,
    /// Qwen2-VL.
    Qwen2Vl,
    /// Qwen2.5-VL.
    Qwen25Vl,
    /// Qwen3-VL and Qwen3.5.
    Qwen3Vl,
}

/// The properties in which towers differ and that neither a key nor the presence of a tensor shows.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: TowerFamily,
    /// The `clip.projector_type`.
    pub(super) name: &'static str,
    /// Norms of the tower.
    pub(super) norm: NormKind,
    /// The number that is added under their roots; `None` for the file's key.
    pub(super) eps: Option<f32>,
    /// Whether it has layers. Without them norms stand around the matrix of patches, and a patch is
    /// as large as the square that other towers merge.
    pub(super) has_layers: bool,
    pub(super) ffn: FeedForward,
    /// Whether the tower takes colours from -1 to 1, where they come from 0 to 1.
    pub(super) is_signed: bool,
    /// Whether the scores of attention have the factor 1, and values a norm without factors.
    pub(super) gemma_attention: bool,
    pub(super) places: Places,
    pub(super) rotation: Option<Rotation>,
    /// Pixels of a side of a window of attention, where the file does not say; 0 without windows.
    pub(super) window: usize,
    pub(super) join: Join,
    /// Patches of a side of a square where the file does not say.
    pub(super) merge: usize,
    /// The key of that number.
    pub(super) merge_key: &'static str,
    pub(super) projector: &'static [Layer],
}

impl Family {
    /// Rows of a pass before those of patches.
    pub(super) fn class_rows(&self) -> usize {
        usize::from(self.places == Places::Class)
    }
}

/// The table of positions that is added to patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// None.
    None,
    /// One of a single grid, in the order of rows.
    Table,
    /// The same behind the row of a class, which is the first row of a pass.
    Class,
    /// One of a square grid, between whose rows and columns the places of a picture lie.
    Resampled,
    /// One of columns, and one of rows.
    Axes,
}

/// A rotation of the heads of queries and keys by rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rotation {
    pub(super) theta: f64,
    pub(super) style: RopeStyle,
    /// The style in GGUF files.
    pub(super) gguf_style: RopeStyle,
    /// The axes of the two halves of the pairs.
    pub(super) axes: [u8; 2],
    /// Whether rows have every second frequency of a head, and columns those between. Otherwise
    /// each axis has all frequencies of half a head.
    pub(super) alternates: bool,
}

/// The way in which a square of patches becomes one row of the projector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// The states one after another.
    Fold,
    /// For each element of a state the elements of all patches.
    FoldElements,
    /// Their mean.
    Mean,
    /// Their mean times the root of the width, then less `v.std_bias` and times `v.std_scale`.
    StandardMean,
}

/// A layer of a projector, by the name of its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Layer {
    /// A norm, and the number that is added under its root if it is not the tower's.
    Norm(NormKind, &'static str, Option<f32>),
    /// A root-mean-square norm without factors.
    BareNorm,
    Linear(&'static str),
    Activate(Activation),
}

/// The axes of [`Place::at`](crate::Place::at).
const ROW: u8 = 1;
const COLUMN: u8 = 2;

const SIGLIP: Family = Family {
    kind: TowerFamily::Gemma3,
    name: "gemma3",
    norm: NormKind::Layer,
    eps: None,
    has_layers: true,
    ffn: FeedForward::Plain(Activation::GeluTanh),
    is_signed: false,
    gemma_attention: false,
    places: Places::Table,
    rotation: None,
    window: 0,
    join: Join::Mean,
    merge: 4,
    merge_key: "projector.scale_factor",
    projector: &[
        Layer::Norm(NormKind::Rms, "mm.soft_emb_norm", None),
        Layer::Linear("mm.input_projection"),
    ],
};

const QWEN2: Family = Family {
    kind: TowerFamily::Qwen2Vl,
    name: "qwen2vl_merger",
    eps: Some(1e-6),
    ffn: FeedForward::Plain(Activation::GeluQuick),
    places: Places::None,
    rotation: Some(Rotation {
        theta: 1e4,
        style: RopeStyle::Halves,
        gguf_style: RopeStyle::Halves,
        axes: [ROW, COLUMN],
        alternates: false,
    }),
    join: Join::Fold,
    merge: 2,
    merge_key: "spatial_merge_size",
    projector: &[
        Layer::Linear("mm.0"),
        Layer::Activate(Activation::GeluErf),
        Layer::Linear("mm.2"),
    ],
    ..SIGLIP
};

const GEMMA4_PROJECTOR: &[Layer] = &[Layer::BareNorm, Layer::Linear("mm.input_projection")];

static FAMILIES: &[Family] = &[
    SIGLIP,
    Family {
        kind: TowerFamily::Idefics3,
        name: "idefics3",
        join: Join::Fold,
        projector: &[Layer::Linear("mm.model.fc")],
        ..SIGLIP
    },
    Family {
        kind: TowerFamily::InternVl,
        name: "internvl",
        ffn: FeedForward::Plain(Activation::GeluErf),
        places: Places::Class,
        join: Join::Fold,
        merge: 2,
        projector: &[
            Layer::Norm(NormKind::Layer, "mm.model.mlp.0", Some(1e-5)),
            Layer::Linear("mm.model.mlp.1"),
            Layer::Activate(Activation::GeluErf),
            Layer::Linear("mm.model.mlp.3"),
        ],
        ..SIGLIP
    },
    QWEN2,
    Family {
        kind: TowerFamily::Qwen25Vl,
        name: "qwen2.5vl_merger",
        norm: NormKind::Rms,
        ffn: FeedForward::Gated(Activation::Silu),
        window: 112,
        ..QWEN2
    },
    Family {
        kind: TowerFamily::Qwen3Vl,
        name: "qwen3vl_merger",
        ffn: FeedForward::Plain(Activation::GeluTanh),
        places: Places::Resampled,
        ..QWEN2
    },
    Family {
        kind: TowerFamily::Pixtral,
        name: "pixtral",
        norm: NormKind::Rms,
        eps: Some(1e-5),
        ffn: FeedForward::Gated(Activation::Silu),
        rotation: Some(Rotation {
            theta: 1e4,
            style: RopeStyle::Halves,
            gguf_style: RopeStyle::Interleaved,
            axes: [ROW, COLUMN],
            alternates: true,
        }),
        join: Join::FoldElements,
        merge: 1,
        projector: &[
            Layer::Linear("mm.patch_merger"),
            Layer::Linear("mm.1"),
            Layer::Activate(Activation::GeluErf),
            Layer::Linear("mm.2"),
        ],
        ..QWEN2
    },
    Family {
        kind: TowerFamily::Gemma4,
        name: "gemma4v",
        norm: NormKind::Rms,
        ffn: FeedForward::Gated(Activation::GeluTanh),
        is_signed: true,
        gemma_attention: true,
        places: Places::Axes,
        rotation: Some(Rotation {
            theta: 100.0,
            style: RopeStyle::HalvesOfHalves,
            gguf_style: RopeStyle::HalvesOfHalves,
            axes: [COLUMN, ROW],
            alternates: false,
        }),
        join: Join::StandardMean,
        merge: 3,
        projector: GEMMA4_PROJECTOR,
        ..SIGLIP
    },
    Family {
        kind: TowerFamily::Gemma4,
        name: "gemma4uv",
        has_layers: false,
        places: Places::Axes,
        join: Join::Fold,
        merge: 3,
        projector: GEMMA4_PROJECTOR,
        ..SIGLIP
    },
];

/// The row of a file's tower.
pub(super) fn family_of(keys: &Keys<'_>) -> Result<&'static Family, Error> {
    let metadata = keys.metadata();
    let name = match keys.opt_string("vision.projector_type")? {
        Some(name) => name,
        None => metadata.string(&keys.key("projector_type"))?,
    };
    FAMILIES.iter().find(|family| family.name == name).ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        keys.invalid("projector_type", format!("'{name}'"), known.join(", ")).into()
    })
}
