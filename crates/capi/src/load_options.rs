//! The options of a load.

use std::mem;

use pelton::{
    DraftSource, EffortLevel, KvMemory, KvType, LoadOptions, Pooling, Quantize, Speculation,
    SpeechOptions,
};

use crate::settings::{
    Setting, amount, count, flag, parsed, scaled, seconds, setting, whole, word,
};

/// The options of a load, of either kind of model.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) text: LoadOptions,
    pub(crate) speech: SpeechOptions,
    /// Whether the model is one of speech; otherwise the file decides.
    pub(crate) is_speech: bool,
}

pub(crate) const SETTINGS: &[Setting<Load>] = &[
    setting!("context", count, |load, context| load.text.context = Some(context)),
    setting!("fit_context", flag, |load, fit| load.text.fit_context = fit),
    setting!("max_concurrent", count, |load, most| load.text.max_concurrent = Some(most)),
    setting!("rows", count, |load, rows| load.text.rows = Some(rows)),
    setting!("pooling", pooling, |load, pooling| load.text.pooling = Some(pooling)),
    Setting {
        name: "lora",
        set: |load, value| {
            let (path, scale) = scaled(value)?;
            load.text = mem::take(&mut load.text).lora(path, scale);
            Ok(())
        },
    },
    setting!("quantize", quantize, |load, to| load.text.quantize = Some(to)),
    setting!("kv", kv, |load, kv| (load.text.kv, load.speech.kv) = (kv, kv)),
    setting!("kv_bytes", whole, |load, bytes| load.text.kv_memory = KvMemory::Bytes(bytes)),
    setting!("kv_share", amount, |load, share| {
        load.text.kv_memory = KvMemory::ShareOfFree(share as f32);
    }),
    setting!("queue_requests", count, |load, requests| load.text.queue_requests = requests),
    setting!("queue_tokens", count, |load, tokens| load.text.queue_tokens = tokens),
    setting!("prefill_budget", seconds, |load, time| load.text.prefill_budget = time),
    setting!("speculation", speculation, |load, setting| load.text.speculation = setting),
    setting!("draft", word, |load, path| load.text.draft = Some(DraftSource::Model(path.into()))),
    setting!("draft_head", flag, |load, head| {
        load.text.draft = head.then_some(DraftSource::Head);
    }),
    setting!("effort", effort, |load, level| load.text.effort = Some(level.into())),
    setting!("speech", flag, |load, speech| load.is_speech = speech),
    setting!("windows", count, |load, windows| load.speech.windows = windows),
    setting!("beams", count, |load, beams| load.speech.beams = beams),
];

fn pooling(value: &str) -> Result<Pooling, String> {
    let all = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last];
    let found = all.into_iter().find(|pooling| pooling.to_string() == value);
    found.ok_or_else(|| "none, mean, cls or last".to_owned())
}

fn kv(value: &str) -> Result<KvType, String> {
    let all = [KvType::F16, KvType::F32, KvType::Q8_0];
    let found = all.into_iter().find(|kv| kv.to_string() == value);
    found.ok_or_else(|| "f16, f32 or q8_0".to_owned())
}

fn quantize(value: &str) -> Result<Quantize, String> {
    Quantize::from_name(value).ok_or_else(|| "the name of a mixture, such as Q4_K_M".to_owned())
}

/// A level of effort.
pub(crate) fn effort(value: &str) -> Result<EffortLevel, String> {
    parsed(value, "a number above 0 and at most 1")
}

/// Whether tokens are drafted.
pub(crate) fn speculation(value: &str) -> Result<Speculation, String> {
    parsed(value, "auto, off or always")
}
