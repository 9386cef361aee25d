//! Words that depend on several options together.

use std::ffi::OsString;

use super::{
    convert,
    problem::Problem,
    speech::ALL,
    table::{DURATION, KV_KEYS, KV_VALUES, OFFSET},
    walk::{Walk, joined},
};

/// Adds the words that depend on several options together.
pub(super) fn finish(walk: &mut Walk) {
    if walk.command != "serve" && walk.models.len() > 1 {
        // the last one counts, as in llama.cpp
        walk.models = walk.models.split_off(walk.models.len() - 1);
    }
    if let Some(file) = walk.file.take() {
        match walk.models.pop().and_then(|model| convert::hub_file(&model, &file)) {
            Some(address) => walk.models.push(address),
            None => {
                let error = "a file of Hugging Face has no repository, expected -hf OWNER/NAME";
                walk.problems.push(Problem { error: error.to_owned(), hint: None });
            }
        }
    }
    // without a model among the options it is the first argument
    if walk.models.is_empty() && !walk.arguments.is_empty() && !walk.positionals.is_empty() {
        walk.models.push(walk.positionals.remove(0));
    }
    kv_types(walk);
    match walk.command.as_str() {
        "run" => {
            let models = walk.models.drain(..);
            walk.options.extend(models.map(|model| joined("--model", &model)));
        }
        "perplexity" => divergence(&mut walk.options),
        "quantize" => quantize_arguments(walk),
        "transcribe" => files(walk),
        _ => {}
    }
}

/// The types of keys and of values, of which one that is not given is f16.
fn kv_types(walk: &mut Walk) {
    let value_of = |word: &OsString, name: &str| {
        word.to_str()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
    };
    let side = |walk: &Walk, name| walk.options.iter().find_map(|word| value_of(word, name));
    let is_side =
        |word: &OsString| [KV_KEYS, KV_VALUES].iter().any(|name| value_of(word, name).is_some());
    let Some(at) = walk.options.iter().position(is_side) else { return };
    let [keys, values] =
        [KV_KEYS, KV_VALUES].map(|name| side(walk, name).unwrap_or_else(|| "f16".to_owned()));
    let types = if keys == values { keys } else { format!("{keys}/{values}") };
    walk.options[at] = joined("--kv", types.as_ref());
    walk.options.retain(|word| !is_side(word));
    for (name, _) in &mut walk.origins {
        if [KV_KEYS, KV_VALUES].contains(&name.as_str()) {
            "--kv".clone_into(name);
        }
    }
}

/// llama.cpp's file of logits is compared with where `--kl-divergence` stands too,
/// and written otherwise.
fn divergence(options: &mut Vec<OsString>) {
    let is_flag = |word: &OsString| word == "--base";
    if !options.iter().any(is_flag) {
        return;
    }
    let file = |word: &OsString| Some(word.to_str()?.strip_prefix("--save-base=")?.to_owned());
    if let Some(path) = options.iter().find_map(file) {
        options.retain(|word| !is_flag(word) && file(word).is_none());
        options.push(format!("--base={path}").into());
    }
}

/// llama-quantize's last argument is a number of threads.
fn quantize_arguments(walk: &mut Walk) {
    let count = walk.positionals.len() + walk.models.len();
    let threads = walk.positionals.last().and_then(|word| word.to_str()?.parse::<u16>().ok());
    let before = count.checked_sub(2).and_then(|at| walk.positionals.get(at));
    let is_type = |word: &OsString| {
        word.to_str().is_some_and(|text| pelton::weights::Quantize::from_name(text).is_some())
    };
    if let Some(threads) = threads
        && (count == 4 || count == 3 && before.is_some_and(is_type))
        && !walk.gives("--threads")
        && !walk.gives("-t")
    {
        walk.positionals.pop();
        walk.options.push(format!("--threads={threads}").into());
    }
}

/// Adds what whisper.cpp and OpenAI's program do with options that name formats and no place.
/// Both replace results.
fn files(walk: &mut Walk) {
    let typed = |walk: &Walk, names: &[&str]| {
        walk.origins.iter().any(|(_, typed)| names.contains(&typed.as_str()))
    };
    let outputs = [
        "-otxt",
        "--output-txt",
        "-osrt",
        "--output-srt",
        "-ovtt",
        "--output-vtt",
        "-ocsv",
        "--output-csv",
        "-oj",
        "--output-json",
        "-ojf",
        "--output-json-full",
        "-olrc",
        "--output-lrc",
    ];
    let has_place = walk.gives("--output") || walk.gives("-o") || walk.gives("--output-file");
    if typed(walk, &outputs) {
        if !has_place {
            // the name of each file with a second ending
            let positionals = match (walk.models.is_empty(), walk.positionals.len()) {
                (true, 2..) => &walk.positionals[1..],
                _ => &walk.positionals[..],
            };
            let files: Vec<OsString> = positionals.iter().chain(&walk.arguments).cloned().collect();
            walk.options.extend(files.iter().map(|file| joined("--output-file", file)));
        }
        if !walk.gives("--force") {
            walk.options.push("--force".into());
        }
    }
    if walk.gives("--output-file") && !walk.gives("--format") && !walk.gives("-f") {
        // whisper.cpp writes no file without a format
        walk.options.retain(|word| !word.to_string_lossy().starts_with("--output-file="));
        walk.note("-of", "a file is written with a format such as -osrt");
    }
    let openai = ["--output_format", "--output_dir"];
    if typed(walk, &openai) {
        if !walk.gives("--output") && !walk.gives("-o") {
            walk.options.push("--output=.".into());
        }
        if !walk.gives("--format") && !walk.gives("-f") {
            walk.options.push(format!("--format={ALL}").into());
        }
        if !walk.gives("--force") {
            walk.options.push("--force".into());
        }
    }
    clips(walk);
}

/// Joins whisper.cpp's offset and duration in one list of seconds.
fn clips(walk: &mut Walk) {
    let value = |walk: &Walk, name: &str| {
        walk.options.iter().find_map(|word| {
            word.to_str()?.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok()
        })
    };
    let (offset, duration) = (value(walk, OFFSET), value(walk, DURATION));
    if offset.is_none() && duration.is_none() {
        return;
    }
    walk.options.retain(|word| {
        let word = word.to_string_lossy();
        !word.starts_with(OFFSET) && !word.starts_with(DURATION)
    });
    let start = offset.unwrap_or(0.0);
    let end = duration.filter(|&length| length > 0.0).map(|length| start + length);
    let clip = match end {
        Some(end) => format!("--clip-timestamps={start},{end}"),
        None => format!("--clip-timestamps={start}"),
    };
    walk.options.push(clip.into());
}
