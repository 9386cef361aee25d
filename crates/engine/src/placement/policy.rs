//! The choice of the devices of a model: of the placements that the options allow the
//! first one that fits.
//!
//! 1. The single GPU, or all GPUs, have the whole model.
//! 2. Where the devices are Pelton's choice, the fewest of further GPUs hold it.
//! 3. The feed-forwards of the first layers leave the GPU, as few as the memory demands.
//! 4. Whole layers leave it, as few as the memory demands.
//! 5. The CPU has all.
//!
//! Options that name a placement leave out what they exclude. Several GPUs have as many bytes of
//! layers each, or as many as their memory holds. Keys and values stay with their layer.

use std::{iter, sync::Arc};

use pelton_graph::Plan;
use pelton_place::{borders, host_parts};

use super::{
    Chosen, Devices,
    candidate::{Candidate, Subject},
    wish::{FeedForwardWish, LayerWish, Wish},
};
use crate::{Error, api::LoadOptions};

/// The devices for a plan that is not fused.
///
/// # Errors
///
/// If no placement of its layers fits, or the one that the options demand is not possible.
pub(crate) fn choose(
    devices: &Devices,
    plan: &Plan,
    options: &LoadOptions,
) -> Result<Chosen, Error> {
    let subject = Subject::new(plan, options);
    let wish = Wish::of(devices, plan, options)?;
    let whole =
        Candidate { feed_forwards: wish.feed_forwards.first(), ..Candidate::whole(devices) };
    let candidates = iter::once(whole.clone())
        .filter(|_| wish.asks_memory())
        .chain(several(&wish, devices, options))
        .chain(fewest_feed_forwards(&wish, &whole, plan))
        .chain(fewest_layers(&wish, &whole, plan));
    for candidate in candidates {
        if let Some(placed) = fitting(&candidate, devices, &subject)? {
            return Ok(placed);
        }
    }
    let on_cpu = |cpu| Chosen::one(Arc::clone(cpu), Arc::clone(&devices.rates));
    let first = match (wish.layers, &devices.ram) {
        (LayerWish::All, Some(cpu)) => return Ok(on_cpu(cpu)),
        (LayerWish::Fewest, Some(cpu)) => {
            let placed = on_cpu(cpu);
            return placed.check(plan, options).map(|()| placed);
        }
        (LayerWish::Before(first), _) => Some(first).filter(|&first| first > 0),
        _ => None,
    };
    // the load says what is too large
    let mut best = Candidate { first, ..whole }.placements(&subject)?;
    Ok(best.swap_remove(0))
}

/// The whole model on the fewest further GPUs, which are opened when none before fits.
fn several<'a>(
    wish: &Wish,
    devices: &'a Devices,
    options: &'a LoadOptions,
) -> impl Iterator<Item = Candidate> + use<'a> {
    let more = devices.more.as_ref().filter(|_| wish.is_free);
    more.into_iter().flat_map(move |more| {
        let largest = move |count| devices.largest(count, options);
        // without its free memory nobody knows what a GPU holds
        let is_known = |several: &Devices| several.all.iter().all(|gpu| gpu.budget().is_some());
        let all = (1..=more.all().len() + 1).map(largest).take_while(is_known);
        all.map(|several| Candidate::whole(&several))
    })
}

/// The feed-forwards of the first layers in RAM, the fewest first.
fn fewest_feed_forwards(
    wish: &Wish,
    whole: &Candidate,
    plan: &Plan,
) -> impl Iterator<Item = Candidate> {
    let which = match wish.feed_forwards {
        FeedForwardWish::Fewest(which) => Some(which),
        FeedForwardWish::None | FeedForwardWish::First(..) => None,
    };
    let of =
        |which| host_parts(plan, which, usize::MAX).into_iter().map(move |part| (which, part.0));
    let all: Vec<_> = which.into_iter().flat_map(of).collect();
    let whole = whole.clone();
    all.into_iter().map(move |(which, layer)| Candidate {
        feed_forwards: Some((which, layer + 1)),
        ..whole.clone()
    })
}

/// The first layers on the CPU, the fewest first.
fn fewest_layers(wish: &Wish, whole: &Candidate, plan: &Plan) -> impl Iterator<Item = Candidate> {
    let all = if wish.layers == LayerWish::Fewest { borders(plan) } else { Vec::new() };
    let whole = whole.clone();
    all.into_iter().map(move |first| Candidate { first: Some(first), ..whole.clone() })
}

/// The best of a candidate's placements that fits; `None` if none does.
///
/// # Errors
///
/// If the model on the given devices has too few layers for them, or others than the options say.
fn fitting(
    candidate: &Candidate,
    given: &Devices,
    subject: &Subject<'_>,
) -> Result<Option<Chosen>, Error> {
    let is_whole = candidate.first.is_none() && candidate.devices.all.len() <= given.all.len();
    let placements = match candidate.placements(subject) {
        Err(error) if !is_whole => {
            tracing::debug!(%candidate, %error, "too few layers are left for all GPUs");
            return Ok(None);
        }
        placements => placements?,
    };
    for placed in placements {
        match placed.check(subject.plan, subject.options) {
            Ok(()) => return Ok(Some(placed)),
            Err(error) if candidate.feed_forwards.is_none() && candidate.first.is_none() => {
                tracing::info!(%candidate, %error, "the model does not fit");
            }
            Err(error) => tracing::debug!(%candidate, %error, "the model does not fit"),
        }
    }
    Ok(None)
}
