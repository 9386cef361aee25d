//! The options of a load.

use std::{mem, time::Duration};

use pelton::{
    DraftSource, KvMemory, KvType, LoadOptions, Pooling, Quantize, Speculation, SpeechOptions,
};

use crate::settings::{Setting, amount, count, flag, parsed, scaled};

/// The options of a load, of either kind of model.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) text: LoadOptions,
    pub(crate) speech: SpeechOptions,
    /// Whether the model is one of speech; otherwise the file decides.
    pub(crate) is_speech: bool,
}

const EFFORT: &str = "a number above 0 and at most 1";

pub(crate) const SETTINGS: &[Setting<Load>] = &[
    Setting {
        name: "context",
        set: |load, value| count(value).map(|context| load.text.context = Some(context)),
    },
    Setting {
        name: "fit_context",
        set: |load, value| flag(value).map(|fit| load.text.fit_context = fit),
    },
    Setting {
        name: "max_concurrent",
        set: |load, value| count(value).map(|most| load.text.max_concurrent = Some(most)),
    },
    Setting {
        name: "rows",
        set: |load, value| count(value).map(|rows| load.text.rows = Some(rows)),
    },
    Setting { name: "pooling", set: pooling },
    Setting {
        name: "lora",
        set: |load, value| {
            let (path, scale) = scaled(value)?;
            load.text = mem::take(&mut load.text).lora(path, scale);
            Ok(())
        },
    },
    Setting {
        name: "quantize",
        set: |load, value| {
            let to = Quantize::from_name(value).ok_or("the name of a mixture, such as Q4_K_M")?;
            load.text.quantize = Some(to);
            Ok(())
        },
    },
    Setting { name: "kv", set: kv },
    Setting {
        name: "kv_bytes",
        set: |load, value| {
            let bytes = parsed(value, "a whole number from 0")?;
            load.text.kv_memory = KvMemory::Bytes(bytes);
            Ok(())
        },
    },
    Setting {
        name: "kv_share",
        set: |load, value| {
            amount(value).map(|share| load.text.kv_memory = KvMemory::ShareOfFree(share as f32))
        },
    },
    Setting {
        name: "queue_requests",
        set: |load, value| count(value).map(|requests| load.text.queue_requests = requests),
    },
    Setting {
        name: "queue_tokens",
        set: |load, value| count(value).map(|tokens| load.text.queue_tokens = tokens),
    },
    Setting {
        name: "prefill_budget",
        set: |load, value| seconds(value).map(|time| load.text.prefill_budget = time),
    },
    Setting {
        name: "speculation",
        set: |load, value| speculation(value).map(|setting| load.text.speculation = setting),
    },
    Setting {
        name: "draft",
        set: |load, value| {
            load.text.draft = Some(DraftSource::Model(value.into()));
            Ok(())
        },
    },
    Setting {
        name: "draft_effort",
        set: |load, value| {
            amount(value).map(|effort| load.text.draft = Some(DraftSource::Effort(effort)))
        },
    },
    Setting {
        name: "draft_head",
        set: |load, value| {
            flag(value).map(|head| load.text.draft = head.then_some(DraftSource::Head))
        },
    },
    Setting {
        name: "effort",
        set: |load, value| {
            let level: pelton::EffortLevel = parsed(value, EFFORT)?;
            load.text.effort = Some(level.into());
            Ok(())
        },
    },
    Setting {
        name: "speech",
        set: |load, value| flag(value).map(|speech| load.is_speech = speech),
    },
    Setting {
        name: "windows",
        set: |load, value| count(value).map(|windows| load.speech.windows = windows),
    },
    Setting {
        name: "beams",
        set: |load, value| count(value).map(|beams| load.speech.beams = beams),
    },
];

/// The names of the options.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

fn pooling(load: &mut Load, value: &str) -> Result<(), String> {
    let all = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last];
    let found = all.into_iter().find(|pooling| pooling.to_string() == value);
    load.text.pooling = Some(found.ok_or("none, mean, cls or last")?);
    Ok(())
}

fn kv(load: &mut Load, value: &str) -> Result<(), String> {
    let all = [KvType::F16, KvType::F32, KvType::Q8_0];
    let found = all.into_iter().find(|kv| kv.to_string() == value).ok_or("f16, f32 or q8_0")?;
    (load.text.kv, load.speech.kv) = (found, found);
    Ok(())
}

/// Seconds as a time.
pub(crate) fn seconds(value: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(amount(value)?).map_err(|_| "a number of seconds".to_owned())
}

/// Whether tokens are drafted.
pub(crate) fn speculation(value: &str) -> Result<Speculation, String> {
    parsed(value, "auto, off or always")
}
