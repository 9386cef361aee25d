//! The names of a tower's tensors, and what becomes of them.

/// A rule for a module, whose `weight` and `bias` it concerns, or for one tensor.
pub(super) struct Rule {
    from: &'static str,
    to: &'static str,
    change: Change,
    /// Whether the module is `from.linear`, with bounds of its inputs and outputs next to it.
    is_clipped: bool,
}

/// The change of a tensor's values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None.
    None,
    /// One is added.
    PlusOne,
    /// The matrices of patches `[outputs, channels, side, side]`, one for each frame if there are
    /// several `[outputs, channels, frames, side, side]`. MLX has the channels last.
    Patches,
    /// The same of a matrix `[outputs, side · side · channels]`.
    Pixels,
    /// The channels of each row or of a vector `[side · side · channels]` one after another.
    Planes,
    /// The first two dimensions change places.
    Swapped,
    /// The matrices of queries, keys and values, which are the thirds of one.
    Thirds,
}

pub(super) const fn keep(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, change: Change::None, is_clipped: false }
}

pub(super) const fn clipped(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, change: Change::None, is_clipped: true }
}

pub(super) const fn patches(from: &'static str) -> Rule {
    Rule { from, to: "v.patch_embd", change: Change::Patches, is_clipped: false }
}

pub(super) const fn pixels(from: &'static str) -> Rule {
    Rule { from, to: "v.patch_embd", change: Change::Pixels, is_clipped: false }
}

pub(super) const fn planes(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, change: Change::Planes, is_clipped: false }
}

pub(super) const fn swapped(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, change: Change::Swapped, is_clipped: false }
}

pub(super) const fn thirds(from: &'static str) -> Rule {
    Rule { from, to: FUSED, change: Change::Thirds, is_clipped: false }
}

pub(super) const fn plus_one(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, change: Change::PlusOne, is_clipped: false }
}

/// The name of a matrix of queries, keys and values.
pub(super) const FUSED: &str = "attn_qkv";

const ENDS: &[&str] = &["", ".weight", ".bias"];
const CLIPPED_ENDS: &[&str] = &[".input_min", ".input_max", ".output_min", ".output_max"];

/// The name in GGUF and the change of the first rule for a name.
pub(super) fn find(groups: &[&[Rule]], name: &str) -> Option<(String, Change)> {
    groups.iter().flat_map(|group| group.iter()).find_map(|rule| {
        let rest = name.strip_prefix(rule.from)?;
        let rest =
            if rule.is_clipped { rest.strip_prefix(".linear").unwrap_or(rest) } else { rest };
        let is_known = ENDS.contains(&rest) || rule.is_clipped && CLIPPED_ENDS.contains(&rest);
        is_known.then(|| (format!("{}{rest}", rule.to), rule.change))
    })
}
