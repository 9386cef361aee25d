//! Rules that turn names and values of tensors into those of GGUF.

use super::config::Config;
use super::gather::View;

/// A rule for tensors with one name in the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Name in the source after the prefix and the block's number: of a module, whose `weight`
    /// and `bias` the rule concerns, or of a tensor. `*` stands for an expert's number.
    pub(super) from: &'static str,
    /// Name in GGUF: of a module if `from` is a module, else of a tensor.
    pub(super) to: &'static str,
    pub(super) how: How,
}

/// Change of a tensor's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// None: the tensor stays a part of the memory-mapped file.
    Keep,
    /// Dimensions of length 1 are removed.
    Squeeze,
    /// −exp(x), as f32, of a transform's result if there is one.
    NegExp(Option<Transform>),
    /// The tensor of one expert, which is stacked with those of the others.
    Expert,
    /// Parts of the tensor in another order.
    Parts(Transform),
    /// Codes of MXFP4 `[…, rows, blocks, 16]`, which are combined with the tensor of scales.
    Mxfp4Blocks(Pieces),
    /// Scales of MXFP4, used by the rule of the codes.
    Mxfp4Scales,
}

/// Splits or reorders a tensor of a shape; an error names what was expected of the shape.
pub(super) type Transform = fn(&Config, &[usize]) -> Result<Vec<Part>, String>;

/// Names of the tensors that even and odd rows become, or of a single one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces {
    One(&'static str),
    EvenOdd(&'static str, &'static str),
}

/// A tensor that results from a transform.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its name in GGUF, or empty for that of the rule.
    pub(super) to: &'static str,
    /// Its contents, one view after another.
    pub(super) views: Vec<View>,
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
}

impl Part {
    /// A part that consists of one view, with the view's shape.
    pub(super) fn of(to: &'static str, view: View) -> Self {
        Self { to, shape: view.shape(), views: vec![view] }
    }
}

/// A rule that keeps the values.
pub(super) const fn keep(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, how: How::Keep }
}

/// A rule for the tensors of single experts.
pub(super) const fn expert(from: &'static str, to: &'static str) -> Rule {
    Rule { from, to, how: How::Expert }
}

/// A rule with a transform.
pub(super) const fn parts(from: &'static str, to: &'static str, with: Transform) -> Rule {
    Rule { from, to, how: How::Parts(with) }
}

/// A rule that changes values.
pub(super) const fn change(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { from, to, how }
}

/// A match of a rule: the names in GGUF and the expert's number.
#[derive(Debug)]
pub(super) struct Match<'a> {
    pub(super) rule: &'a Rule,
    /// `.weight` or `.bias`, or nothing if the rule concerns one tensor.
    pub(super) suffix: &'static str,
    pub(super) expert: Option<usize>,
}

/// The first rule for this name.
pub(super) fn find<'a>(groups: &[&'a [Rule]], name: &str) -> Option<Match<'a>> {
    groups.iter().flat_map(|group| group.iter()).find_map(|rule| {
        if rule.is_of_tensor()
            && let Some(expert) = matches(rule.from, name)
        {
            return Some(Match { rule, suffix: "", expert });
        }
        [".weight", ".bias"].into_iter().find_map(|suffix| {
            let expert = matches(rule.from, name.strip_suffix(suffix)?)?;
            match rule.to.strip_suffix(suffix) {
                // A stacked tensor, whose name has the suffix in some files only.
                Some(_) => Some(Match { rule, suffix: "", expert }),
                None if rule.is_of_tensor() && !rule.to.is_empty() => None,
                None => Some(Match { rule, suffix, expert }),
            }
        })
    })
}

impl Rule {
    /// Whether the rule concerns a single tensor, whose name has no suffix or is the whole `from`.
    fn is_of_tensor(&self) -> bool {
        // the last has no suffix in files of Hunyuan 3
        const ENDS: [&str; 4] = [".weight", ".bias", ".scale", "exp_probs_b"];
        self.to.is_empty()
            || ENDS.iter().any(|suffix| self.to.ends_with(suffix))
            || matches!(self.how, How::NegExp(_))
    }
}

/// Whether a name fits a pattern, with the number in the place of `*`.
fn matches(pattern: &str, name: &str) -> Option<Option<usize>> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(None),
        Some((before, after)) => {
            let number = name.strip_prefix(before)?.strip_suffix(after)?;
            Some(Some(decimal(number)?))
        }
    }
}

/// A decimal number below 2^16 without leading zeros.
pub(super) fn decimal(text: &str) -> Option<usize> {
    let canonical = text == "0" || !text.starts_with('0');
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u16 = (canonical && digits).then(|| text.parse().ok())??;
    Some(number.into())
}
