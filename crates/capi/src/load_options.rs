//! The options of a load: those of the table of the library, and those of speech.

use pelton::{LoadOption, LoadOptions, SpeechOptions};

use crate::{
    fault::Fault,
    settings::{self, Setting, count, flag, refused, setting, unknown},
};

/// The options of a load, of either kind of model.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) text: LoadOptions,
    pub(crate) speech: SpeechOptions,
    /// Whether the model is one of speech; otherwise the file decides.
    pub(crate) is_speech: bool,
}

/// The options of speech alone.
const SPEECH: &[Setting<Load>] = &[
    setting!("speech", flag, |load, speech| load.is_speech = speech),
    setting!("windows", count, |load, windows| load.speech.windows = windows),
    setting!("beams", count, |load, beams| load.speech.beams = beams),
];

/// The names of all options.
pub(crate) fn names() -> Vec<&'static str> {
    let table = LoadOptions::OPTIONS.iter().map(|option| option.name);
    table.chain(settings::names(SPEECH)).collect()
}

/// Sets an option of a load.
///
/// # Errors
///
/// There is no such option, or the value is not one of it.
pub(crate) fn set(load: &mut Load, name: &str, value: &str) -> Result<(), Fault> {
    if SPEECH.iter().any(|setting| setting.name == name) {
        return settings::set(SPEECH, load, name, value);
    }
    let option = LoadOption::find(name).ok_or_else(|| unknown("option", name, &names()))?;
    let set = option.set(&mut load.text, value);
    load.speech.kv = load.text.kv;
    set.map_err(|expected| refused(name, value, &expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_of_the_table_are_set_by_name() {
        for option in LoadOptions::OPTIONS {
            let mut load = Load::default();
            // a text that no option has
            let error = set(&mut load, option.name, "").unwrap_err().text;
            let start = format!("option '{}' is '', expected ", option.name);
            assert!(error.starts_with(&start), "{error}");
        }
        let mut load = Load::default();
        set(&mut load, "kv", "q8_0").unwrap();
        set(&mut load, "gpu_layers", "3").unwrap();
        set(&mut load, "beams", "2").unwrap();
        assert_eq!((load.text.kv, load.speech.kv), (pelton::KvType::Q8_0, pelton::KvType::Q8_0));
        assert_eq!((load.text.placement.gpu_layers, load.speech.beams), (Some(3), 2));
        let error = set(&mut load, "warmth", "1").unwrap_err().text;
        assert!(error.contains("there is no option 'warmth', expected one of context"), "{error}");
    }
}
