//! Experts of old files, which have a tensor for each: `blk.0.ffn_gate.3.weight` is expert 3 of
//! `blk.0.ffn_gate_exps.weight`.

use std::collections::BTreeMap;

use super::tensors::TensorEntry;

/// Joins the tensors `[rows, row_len]` of the experts of a layer to one `[experts, rows, row_len]`,
/// in place of the first of them. Experts that are incomplete or of different types or shapes stay
/// as they are, and the model is refused for tensors of unknown names.
pub(crate) fn stacked(tensors: Vec<TensorEntry>) -> Vec<TensorEntry> {
    let mut groups: BTreeMap<String, BTreeMap<usize, usize>> = BTreeMap::new();
    for (at, tensor) in tensors.iter().enumerate() {
        if let Some((name, expert)) = expert_of(&tensor.name) {
            groups.entry(name).or_default().insert(expert, at);
        }
    }
    let mut joined: BTreeMap<usize, TensorEntry> = BTreeMap::new();
    let mut dropped = vec![false; tensors.len()];
    for (name, experts) in groups {
        let members: Vec<usize> = experts.values().copied().collect();
        if let Some(all) = join(name, &experts, &tensors) {
            members.iter().for_each(|&at| dropped[at] = true);
            joined.extend(members.first().map(|&at| (at, all)));
        }
    }
    let kept = tensors.into_iter().zip(dropped).enumerate();
    kept.filter_map(|(at, (tensor, dropped))| match dropped {
        true => joined.remove(&at),
        false => Some(tensor),
    })
    .collect()
}

/// The name of the joined tensor and the number of the expert, of a name of a single one.
fn expert_of(name: &str) -> Option<(String, usize)> {
    let (rest, expert) = name.strip_suffix(".weight")?.rsplit_once('.')?;
    let part = rest.strip_prefix("blk.")?.split_once('.')?.1;
    let is_part = ["ffn_gate", "ffn_up", "ffn_down"].contains(&part);
    Some((format!("{rest}_exps.weight"), expert.parse().ok()?)).filter(|_| is_part)
}

fn join(
    name: String,
    experts: &BTreeMap<usize, usize>,
    tensors: &[TensorEntry],
) -> Option<TensorEntry> {
    let first = &tensors[*experts.get(&0)?];
    let complete = experts.keys().copied().eq(0..experts.len());
    let alike =
        |&at: &usize| (tensors[at].dtype, tensors[at].shape()) == (first.dtype, first.shape());
    if !complete || first.shape().len() != 2 || !experts.values().all(alike) {
        return None;
    }
    let bytes: Vec<u8> =
        experts.values().flat_map(|&at| tensors[at].bytes.iter().copied()).collect();
    let shape = [first.shape()[0], first.shape()[1], experts.len()];
    TensorEntry::new(name, first.dtype, &shape, bytes.into())
}
