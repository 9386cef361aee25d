//! Options of other systems, as llama.cpp and vLLM spell them: those that have a counterpart stand for it, the
//! others are answered with a sentence that says what to use.

use std::{env, ffi::OsString, process::ExitCode};

use clap::{
    Command,
    error::{ContextKind, ErrorKind},
};

use crate::output::note;

/// Further names of options, by the options' ids.
const ALIASES: &[(&str, &[&str])] = &[
    ("tokens", &["n-predict", "predict", "num-predict", "max-tokens", "max-new-tokens"]),
    ("context", &["ctx-size", "num-ctx", "max-model-len"]),
    ("temperature", &["temp"]),
    ("repetition_penalty", &["repeat-penalty"]),
    ("penalty_window", &["repeat-last-n"]),
    ("typical_p", &["typical"]),
    ("system", &["system-prompt"]),
    ("template", &["template", "chat-template-file"]),
    ("chat_template", &["template", "chat-template-file"]),
    ("stop", &["reverse-prompt"]),
    ("grammar", &["grammar-file"]),
    ("json_schema", &["json-schema-file"]),
    ("parallel", &["max-num-seqs"]),
    ("replicas", &["data-parallel-size", "dp-size"]),
    ("draft", &["model-draft"]),
    ("to", &["outtype"]),
];

/// Further letters of options, by the options' ids.
const LETTERS: &[(&str, char)] = &[("seed", 's'), ("stop", 'r')];

/// Names of several letters after one hyphen, which would be read as a letter with its value.
const LONG_LETTERS: &[(&str, &str)] = &[
    ("-np", "--parallel"),
    ("-dp", "--replicas"),
    ("-sys", "--system"),
    ("-md", "--draft"),
    ("-hf", "--hf-repo"),
    ("-hfr", "--hf-repo"),
    ("-hff", "--hf-file"),
    ("-hft", "--hf-token"),
    ("-mu", "--model-url"),
    ("-ngl", "--n-gpu-layers"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-cmoe", "--cpu-moe"),
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-fa", "--flash-attn"),
    ("-cnv", "--conversation"),
    ("-mg", "--main-gpu"),
    ("-ts", "--tensor-split"),
    ("-sm", "--split-mode"),
    ("-ub", "--ubatch-size"),
    ("-cb", "--cont-batching"),
    ("-ot", "--override-tensor"),
];

/// Types of keys and values.
const CACHES: [&str; 3] = ["f16", "f32", "q8_0"];

/// Options that other systems spell otherwise, for errors: Pelton's, and the beginnings of theirs.
const SPELT: &[(&str, &[&str])] = &[
    ("--kv", &["-ctk", "-ctv", "--cache-type-k", "--cache-type-v"]),
    ("--device", &["-ngl", "--n-gpu-layers", "--gpu-layers"]),
    ("--gpu-layers", &["-ngl", "--n-gpu-layers"]),
    ("--parallel", &["-np"]),
    ("--system", &["-sys"]),
    ("--draft", &["-md"]),
];

const ITSELF: &str = "Pelton chooses this by itself; leave the option out";
const ONE_GPU: &str = "a model runs on one device: --device gpu:N, as `pelton devices` lists them";
const EFFORT: &str =
    "one option has all of effort: --effort 0.5,mode=bucket,ranks=4,buckets=FILE,table=FILE";
const IN_CHAT: &str = "`pelton chat MODEL` is a conversation";

/// Options without a counterpart.
const FOREIGN: &[(&str, &str)] = &[
    ("--flash-attn", ITSELF),
    ("--mlock", ITSELF),
    ("--no-mmap", ITSELF),
    ("--numa", ITSELF),
    ("--jinja", ITSELF),
    ("-b", ITSELF),
    ("--batch-size", ITSELF),
    ("--ubatch-size", ITSELF),
    ("--cont-batching", ITSELF),
    ("--no-warmup", ITSELF),
    ("--dtype", "weights are computed in the types of the file; --quantize converts them"),
    ("--gpu-memory-utilization", "--kv-memory 80% sets the memory for keys and values"),
    (
        "--override-tensor",
        "--host-experts N keeps the experts of the first N layers in the CPU's memory",
    ),
    ("--main-gpu", ONE_GPU),
    ("--tensor-split", ONE_GPU),
    ("--split-mode", ONE_GPU),
    ("--tensor-parallel-size", ONE_GPU),
    ("-i", IN_CHAT),
    ("--interactive", IN_CHAT),
    ("--conversation", IN_CHAT),
    ("--effort-mode", EFFORT),
    ("--effort-table", EFFORT),
    ("--ranks", EFFORT),
    ("--buckets", EFFORT),
    ("--hf-file", "--hf-repo https://huggingface.co/OWNER/NAME/blob/main/FILE names a file"),
    (
        "--hf-token",
        "the environment variable HF_TOKEN holds the token, so that no list of processes shows it",
    ),
    ("--ignore-eos", "--logit-bias ID=-inf forbids a token, such as the one that ends texts"),
];

/// Commands of other systems.
const COMMANDS: &[(&str, &str)] = &[
    ("ps", "`pelton serve` lists its models at /v1/models"),
    (
        "search",
        "https://huggingface.co/models lists models; `pelton pull OWNER/NAME` downloads one",
    ),
    ("generate", "`pelton run MODEL PROMPT` continues or answers a prompt"),
];

/// A command line with the options of other systems as Pelton's. The first word is the program, the second one the
/// command.
///
/// # Errors
/// A sentence, if an option is known and has no counterpart, or a value is wrong.
pub(crate) fn translated(words: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let command = words.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let mut out = Vec::with_capacity(words.len());
    let mut caches: Vec<OsString> = Vec::new();
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.to_str() else {
            out.push(word);
            continue;
        };
        let (name, given) = match text.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(OsString::from(value))),
            _ => (text, None),
        };
        let long = LONG_LETTERS.iter().find(|(short, _)| *short == name);
        let name = long.map_or(name, |(_, long)| long).to_owned();
        let mut value = || given.clone().or_else(|| rest.next()).unwrap_or_default();
        match name.as_str() {
            "--" => {
                out.push(word);
                out.extend(rest.by_ref());
            }
            // a text, which may look like an option
            "-p" | "--prompt" | "--stop" | "--system" => {
                out.extend([name.into(), value()]);
            }
            "-n" | "--tokens" | "--n-predict" | "--predict" | "--num-predict" => {
                let value = value();
                if value != "-1" {
                    out.extend([name.into(), value]);
                }
            }
            "--n-gpu-layers" | "--gpu-layers" => match value().to_str() {
                Some("0") => out.push("--device=cpu".into()),
                Some("all" | "auto") => {}
                Some(layers) => match layers.parse::<i32>() {
                    // one for all, and speech runs on one device
                    Ok(layers) if layers < 0 || command == "transcribe" => {}
                    Ok(layers) => out.push(format!("--gpu-layers={layers}").into()),
                    Err(_) => {
                        return Err(format!(
                            "{name} has no number, expected 0 for the CPU, or layers"
                        ));
                    }
                },
                None => {
                    return Err(format!("{name} has no number, expected 0 for the CPU, or layers"));
                }
            },
            // more layers than any model has
            "--cpu-moe" => out.push("--n-cpu-moe=100000".into()),
            "--cache-type-k" | "--cache-type-v" => {
                let kind = value();
                if !CACHES.iter().any(|known| kind == *known) {
                    let (found, known) = (kind.to_string_lossy(), CACHES.join(", "));
                    return Err(format!("{text} is {found:?}, expected one of {known}"));
                }
                caches.push(kind);
            }
            "--hf-repo" | "--model-url" => {
                let mut model = value();
                let text = model.to_string_lossy().into_owned();
                let has_prefix = text.contains("://")
                    || ["hf:", "hf.co/", "huggingface.co/"]
                        .iter()
                        .any(|start| text.starts_with(start));
                if name == "--hf-repo" && !has_prefix {
                    model = [OsString::from("hf:"), model].into_iter().collect();
                }
                match &*command {
                    "run" => out.extend(["--model".into(), model]),
                    _ => out.insert(2.min(out.len()), model),
                }
            }
            "-m" | "--model" if command != "run" => out.insert(2.min(out.len()), value()),
            _ if FOREIGN.iter().any(|(foreign, _)| *foreign == name) && long.is_some() => {
                return Err(foreign(&name).unwrap_or_default());
            }
            _ if long.is_some() => out.push(name.into()),
            _ => out.push(word),
        }
    }
    caches.dedup();
    match caches.len() {
        0 => {}
        // not at the end, which may be behind `--`
        1 => {
            let at = 2.min(out.len());
            out.splice(at..at, [OsString::from("--kv"), caches.remove(0)]);
        }
        _ => {
            return Err(
                "keys and values have different types, expected one for both: --kv TYPE".into()
            );
        }
    }
    Ok(out)
}

/// An option as the command line has it.
fn as_typed(name: &str, words: &[String]) -> String {
    let typed = |option: &str| words.iter().any(|word| word.split('=').next() == Some(option));
    let theirs = SPELT.iter().find(|(own, _)| *own == name && !typed(own));
    let found = theirs.and_then(|(_, names)| names.iter().find(|other| typed(other)));
    found.copied().unwrap_or(name).to_owned()
}

/// A sentence about an option without a counterpart.
fn foreign(name: &str) -> Option<String> {
    let (_, hint) = FOREIGN.iter().find(|(foreign, _)| *foreign == name)?;
    Some(format!("{name} is no option of Pelton\nhint: {hint}"))
}

/// A command and its subcommands with the further names of options that they have.
pub(crate) fn with_aliases(mut command: Command) -> Command {
    let mut longs: Vec<String> = Vec::new();
    let mut letters: Vec<char> = vec!['h', 'V'];
    for argument in command.get_arguments() {
        longs.extend(argument.get_long().map(str::to_owned));
        letters.extend(argument.get_short());
    }
    let has = |command: &Command, id: &str| {
        command.get_arguments().any(|argument| argument.get_id() == id && !argument.is_positional())
    };
    for (id, names) in ALIASES {
        if has(&command, id) {
            let free = names.iter().copied().filter(|name| !longs.iter().any(|long| long == name));
            command = command.mut_arg(id, |argument| argument.aliases(free.collect::<Vec<_>>()));
        }
    }
    for (id, letter) in LETTERS {
        if has(&command, id) && !letters.contains(letter) {
            command = command.mut_arg(id, |argument| argument.short_alias(*letter));
        }
    }
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_aliases))
}

/// Whether a word of the command line has characters that change what a terminal shows.
fn has_unsafe_word() -> bool {
    env::args_os().any(|word| word.to_string_lossy().contains(pelton_printable::is_unsafe))
}

/// Writes why a command line is refused, with the option or command that was meant; or the help that it asks for.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let text = |kind| error.get(kind).map(ToString::to_string);
    let sentence = match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg).map(|found| {
            let words: Vec<String> =
                env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let name = as_typed(found.split('=').next().unwrap_or_default(), &words);
            foreign(&name).unwrap_or_else(|| {
                let hint = match text(ContextKind::SuggestedArg) {
                    Some(similar) => format!("{similar} is similar; --help lists all options"),
                    None => {
                        "--help lists the options; -p gives a prompt that begins with -".to_owned()
                    }
                };
                format!("{name} is no option of this command\nhint: {hint}")
            })
        }),
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).and_then(|found| {
            let (_, hint) = COMMANDS.iter().find(|(command, _)| *command == found)?;
            Some(format!("there is no command {found}\nhint: {hint}"))
        }),
        _ => None,
    };
    match sentence {
        Some(sentence) => note!("error: {sentence}"),
        // clap repeats words as they are, and a word may be the name of a file of others
        None if error.use_stderr() && has_unsafe_word() => {
            note!("{}", error.render().to_string().trim_end());
        }
        // to a closed pipe it cannot be written
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}
