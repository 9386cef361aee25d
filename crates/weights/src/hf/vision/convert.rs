//! Tensors of a tower under their names in GGUF.

use std::collections::HashMap;

use pelton_quant::DType;

use super::super::float8;
use super::super::gather::View;
use super::super::rules::decimal;
use super::super::stored::{Source, Stored};
use super::rules::{Change, FUSED, find};
use super::towers::{DEEPSTACK_RULES, Tower};
use crate::gguf::TensorEntry;
use crate::{Problem, clip};

/// Colours of a pixel.
const CHANNELS: usize = 3;
/// Starts of the names of a tower's own tensors.
const STARTS: &[&str] = &["vision_tower.", "vision_model.", "visual.", "vision_embedder."];
/// Starts of the names of the tensors that join it to the text.
const JOINTS: &[&str] = &["multi_modal_projector.", "connector.", "mlp1.", "embed_vision."];
/// Ends of names of FP8 scales, which belong to a weight.
const SCALES: &[&str] = &["_scale_inv", "_scale"];

/// Start of the names of networks that make further embeddings, before their numbers.
const DEEPSTACK: &str = "deepstack_merger_list.";

/// The tower's tensors among those of a model, sorted by name. `deepstack` has the layers of the
/// tower whose states become further embeddings.
pub(super) fn tensors(
    tower: &Tower,
    deepstack: &[usize],
    sources: &HashMap<String, Source>,
) -> Result<Vec<TensorEntry>, Problem> {
    let mut made = Vec::new();
    let mut names: Vec<&String> = sources.keys().collect();
    names.sort();
    for name in names {
        let Some(own) = own_name(name) else { continue };
        let is_scale =
            |end: &&str| name.strip_suffix(*end).is_some_and(|weight| sources.contains_key(weight));
        if tower.unused.iter().any(|start| own.starts_with(start))
            || own.ends_with(".position_ids")
            || own.ends_with(".inv_freq")
            || SCALES.iter().any(is_scale)
        {
            continue;
        }
        let unknown =
            || Problem::UnknownTensor { tensor: name.clone(), architecture: clip::ARCHITECTURE };
        let numbered = |start: &str| {
            let (number, rest) = own.strip_prefix(start)?.split_once('.')?;
            Some((decimal(number)?, rest))
        };
        let (to, change) = if let Some((number, rest)) = numbered(tower.block) {
            let (to, change) = find(tower.blocks, rest).ok_or_else(unknown)?;
            (format!("v.blk.{number}.{to}"), change)
        } else if let Some((number, rest)) = numbered(DEEPSTACK) {
            let layer = deepstack.get(number).ok_or_else(unknown)?;
            let (to, change) = find(&[DEEPSTACK_RULES], rest).ok_or_else(unknown)?;
            (format!("v.deepstack.{layer}.{to}"), change)
        } else {
            find(tower.globals, own).ok_or_else(unknown)?
        };
        make(&sources[name], sources, to, change, &mut made)?;
    }
    Ok(made)
}

/// The name of a tensor of the tower within it; `None` of other tensors.
fn own_name(name: &str) -> Option<&str> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    if JOINTS.iter().any(|start| name.starts_with(start)) {
        return Some(name);
    }
    let own = STARTS.iter().find_map(|start| name.strip_prefix(start))?;
    Some(own.strip_prefix("vision_model.").unwrap_or(own))
}

fn make(
    source: &Source,
    sources: &HashMap<String, Source>,
    to: String,
    change: Change,
    made: &mut Vec<TensorEntry>,
) -> Result<(), Problem> {
    let fault = |fault: String| source.fault(fault);
    if source.shape.contains(&0) {
        return Err(fault(format!("has shape {:?}, expected elements", source.shape)));
    }
    let (dtype, bytes) = match source.stored {
        Stored::F8E4M3 | Stored::F8E5M2 => {
            let scale = SCALES.iter().find_map(|end| sources.get(&format!("{}{end}", source.name)));
            (DType::BF16, float8::expanded(source, scale).map_err(fault)?)
        }
        stored => match stored.dtype() {
            Some(dtype) => (dtype, source.bytes.clone()),
            None => {
                return Err(fault(format!("has type {stored:?}, expected F32, F16, BF16 or FP8")));
            }
        },
    };
    // a scalar is one of one element
    let shape = if source.shape.is_empty() { vec![1] } else { source.shape.clone() };
    if change == Change::PlusOne {
        let mut values = vec![0.0; shape.iter().product()];
        pelton_quant::decode(dtype, &bytes, &mut values)
            .map_err(|error| fault(error.to_string()))?;
        let bytes = values.iter().flat_map(|value| (value + 1.0).to_le_bytes()).collect();
        made.push(source.entry(to, DType::F32, &shape, bytes)?);
        return Ok(());
    }
    let parts = match change {
        Change::Patches => frames(to, &shape),
        Change::Pixels => pixels(to, &shape),
        Change::Planes => planes(to, &shape),
        Change::Swapped if shape.len() < 2 => {
            Err(format!("has shape {shape:?}, expected two dimensions at least"))
        }
        Change::Swapped => Ok(vec![(to, View::new(&shape).swapped(0, 1))]),
        Change::Thirds => thirds(&to, &shape),
        Change::None | Change::PlusOne => Ok(vec![(to, View::new(&shape))]),
    };
    for (to, view) in parts.map_err(fault)? {
        let bytes = view.take(&bytes, dtype.block_bytes());
        let of_view = view.shape();
        // planes stay one dimension
        let shape = if change == Change::Planes { &shape } else { &of_view };
        made.push(source.entry(to, dtype, shape, bytes)?);
    }
    Ok(())
}

/// Tensors that are made of one, by their names.
type Parts = Result<Vec<(String, View)>, String>;

/// The matrix of each frame of patches `[outputs, channels, side, side]`; other shapes stay.
fn frames(to: String, shape: &[usize]) -> Parts {
    let view = View::new(shape);
    let of_frames = |view: View, count| {
        let name = |frame| if frame == 0 { to.clone() } else { format!("{to}.{frame}") };
        let frame = |frame| (name(frame), view.clone().narrow(0, frame, 1).without_first());
        Ok((0..count).map(frame).collect())
    };
    match *shape {
        [_, CHANNELS, _, _] | [_] | [_, _] => Ok(vec![(to, view)]),
        [_, _, _, CHANNELS] => Ok(vec![(to, view.swapped(1, 3).swapped(2, 3))]),
        [_, CHANNELS, count @ 1..=2, _, _] => of_frames(view.swapped(0, 2).swapped(1, 2), count),
        [_, count @ 1..=2, _, _, CHANNELS] => {
            // [frames, outputs, channels, rows, columns]
            of_frames(view.swapped(0, 1).swapped(2, 4).swapped(3, 4), count)
        }
        _ => Err(format!("has shape {shape:?}, expected patches of three channels")),
    }
}

/// Patches `[outputs, channels, side, side]` of a matrix `[outputs, side · side · channels]`.
fn pixels(to: String, shape: &[usize]) -> Parts {
    let side = shape.last().map_or(0, |len| (len / CHANNELS).isqrt());
    match *shape {
        [_] => Ok(vec![(to, View::new(shape))]),
        [_, len] if side * side * CHANNELS == len => {
            let view = View::new(shape).split(1, &[side, side, CHANNELS]);
            Ok(vec![(to, view.swapped(1, 3).swapped(2, 3))])
        }
        _ => Err(format!("has shape {shape:?}, expected square patches of three channels")),
    }
}

/// Values `[.., channels · side · side]` of `[.., side · side · channels]`.
fn planes(to: String, shape: &[usize]) -> Parts {
    let last = shape.len().saturating_sub(1);
    match *shape {
        [len] | [_, len] if len.is_multiple_of(CHANNELS) => {
            let view = View::new(shape).split(last, &[len / CHANNELS, CHANNELS]);
            Ok(vec![(to, view.swapped(last, last + 1))])
        }
        _ => Err(format!("has shape {shape:?}, expected patches of three channels")),
    }
}

/// The thirds of the rows of one tensor.
fn thirds(to: &str, shape: &[usize]) -> Parts {
    let rows = shape.first().copied().unwrap_or_default();
    if !rows.is_multiple_of(3) {
        let fault = format!("has shape {shape:?}, expected rows of queries, keys and values");
        return Err(fault);
    }
    let names = ["attn_q", "attn_k", "attn_v"].map(|name| to.replace(FUSED, name));
    let part = |i| View::new(shape).narrow(0, i * rows / 3, rows / 3);
    Ok((0..).zip(names).map(|(i, name)| (name, part(i))).collect())
}
