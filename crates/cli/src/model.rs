//! The model of a command.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use pelton::{
    Checkpoint, Device, Engine, Error, KvMemory, KvType, LoadOptions, Model, ModelSource,
    weights::Quantize,
};

use crate::{
    effort::EffortArgs,
    fit::FitArgs,
    hints, hub, memory,
    names::{BUILT_IN, DEMONSTRATION},
    output::{Hint, WithHint, note},
    progress::Progress,
};

/// Flags of commands that run a model.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    /// Run on auto (a GPU if there is one), cpu, gpu or gpu:N of `pelton devices`, or on several:
    /// gpu:N,cpu or gpu:0,gpu:1
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: Device,
    /// Use N threads on the CPU; by default one for each physical core
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Keep weights in the order of the file, which takes less memory. A CPU with AVX2 or AVX-512 is
    /// slower then: without this option weights are copied for it at load
    #[arg(long)]
    pub(crate) no_repack: bool,
    /// Set the context length in tokens, for a prompt and its answer; 0 for the model's own. By default serve and chat take the
    /// model's own as far as half of the free memory holds it, run at most 4096 of it. Other commands
    /// take what the given lengths need
    #[arg(short, long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Element type of keys and values
    #[arg(long, value_enum, default_value = "f16")]
    pub(crate) kv: Kv,
    /// Apply a LoRA adapter to all texts, with a scale that is 1 by default; may be given several times.
    /// An adapter is a .gguf file, or a directory that PEFT saved, or the name of either
    #[arg(long, value_name = "PATH[=SCALE]", value_parser = lora)]
    pub(crate) lora: Vec<(PathBuf, f32)>,
    /// Convert matrices of F32, F16 and BF16, as directories have them, to block formats while the
    /// model is loaded: q8_0, q6_k, q4_k_m, q4_0 or another type of `pelton quantize`
    #[arg(long, value_name = "TYPE", value_parser = quantize)]
    pub(crate) quantize: Option<Quantize>,
    #[command(flatten)]
    pub(crate) effort: EffortArgs,
    /// Limit the memory for keys and values: auto (what all sequences need), bytes with a suffix K, M or
    /// G, or a percentage of the free memory such as 50%
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = memory::parse)]
    pub(crate) kv_memory: KvMemory,
    #[command(flatten)]
    pub(crate) fit: FitArgs,
}

impl LoadArgs {
    /// The options of a load with these flags, which go before those of the command.
    pub(crate) fn options(&self, options: LoadOptions) -> LoadOptions {
        let with_lora =
            |options: LoadOptions, (path, scale): &(PathBuf, f32)| options.lora(path, *scale);
        let mut options = self.lora.iter().fold(options, with_lora);
        options = options.kv(self.kv()).kv_memory(self.kv_memory);
        options = self.fit.options(options, self.device);
        options = match self.context {
            // the model's own
            Some(0) => {
                options.context = None;
                options.fit_context()
            }
            context => {
                options.context = context.or(options.context);
                options
            }
        };
        options.quantize = self.quantize.or(options.quantize);
        self.effort.apply(options)
    }

    /// The element type of the caches.
    pub(crate) fn kv(&self) -> KvType {
        self.kv.into()
    }

    /// Threads on the CPU.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or_else(pelton::default_threads, usize::from)
    }
}

/// [`KvType`], for the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Kv {
    /// 16 bits an element
    F16,
    /// 32 bits an element: twice the memory
    F32,
    /// 8 bits an element in blocks of 32: half the memory, a little less exact
    #[value(name = "q8_0")]
    Q8_0,
}

impl From<Kv> for KvType {
    fn from(kv: Kv) -> Self {
        match kv {
            Kv::F16 => Self::F16,
            Kv::F32 => Self::F32,
            Kv::Q8_0 => Self::Q8_0,
        }
    }
}

/// Parses the path of an adapter, with a scale after the last `=` if there is one.
fn lora(text: &str) -> Result<(PathBuf, f32), String> {
    let (path, scale) = match text.rsplit_once('=') {
        Some((path, scale)) => match scale.parse::<f32>() {
            Ok(scale) if scale.is_finite() => (path, scale),
            _ => return Err("expected a number after =".to_owned()),
        },
        None => (text, 1.0),
    };
    match path {
        "" => Err("expected a path".to_owned()),
        path => Ok((path.into(), scale)),
    }
}

/// Parses the name of a mixture of formats.
pub(crate) fn quantize(text: &str) -> Result<Quantize, String> {
    Quantize::from_name(text).ok_or_else(|| format!("expected one of {}", Quantize::names()))
}

/// Loads a model; a bar shows the progress of a load that takes more than a second.
pub(crate) fn load(file: &str, args: &LoadArgs, options: LoadOptions) -> Result<Model> {
    // downloads come before the GPU is opened
    let file = hub::local(file, args.device)?;
    let options = hub::localized(args.options(options), args.device)?;
    load_local(&engine(args)?, &file, args, options)
}

/// As [`load`], on an engine that exists.
pub(crate) fn load_on(
    engine: &Engine,
    file: &str,
    args: &LoadArgs,
    options: LoadOptions,
) -> Result<Model> {
    let file = hub::local(file, args.device)?;
    let options = hub::localized(args.options(options), args.device)?;
    load_local(engine, &file, args, options)
}

/// Loads a model of this machine with complete options.
fn load_local(engine: &Engine, file: &str, args: &LoadArgs, options: LoadOptions) -> Result<Model> {
    let bar = Progress::new("loading {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
    let counter = bar.counter().clone();
    let options = options.progress(move |progress| counter.set(progress.done, progress.total));
    let model = engine.load(source(file), &options);
    drop(bar);
    match model {
        Err(error @ Error::Context { .. }) if args.context.is_none() => {
            Err(error).hint("without --context it is the sum of the lengths on the command line")
        }
        model => {
            let model = model.map_err(|error| hints::of_load(error, file))?;
            args.effort.say(&model, engine.backend() != "cpu");
            args.fit.say(model.checkpoint());
            Ok(model)
        }
    }
}

/// As [`load`], and says in one line of standard error what runs. A context longer than the model's is cut to
/// that.
pub(crate) fn load_and_say(file: &str, args: &LoadArgs, options: LoadOptions) -> Result<Model> {
    let options = if args.context.is_some() { options.fit_context() } else { options };
    let model = load(file, args, options)?;
    if file == BUILT_IN {
        note!("{DEMONSTRATION}");
    }
    note!("{}", model.summary());
    if model.placement().devices.len() > 1 {
        note!("{}", model.placement());
    }
    if let Some(asked) = args.context.filter(|&asked| asked > model.context()) {
        note!("--context {asked} is more than the model has: it is {} now", model.context());
    }
    Ok(model)
}

/// The engine of the flags.
pub(crate) fn engine(args: &LoadArgs) -> Result<Engine> {
    engine_on(args.device, args.threads(), !args.no_repack)
}

/// The engine of a device.
pub(crate) fn engine_on(device: Device, threads: usize, repack: bool) -> Result<Engine> {
    let engine = Engine::builder().device(device).threads(threads);
    engine.repack(repack).build().map_err(|error| match software_gpu(device) {
        Some(name) => {
            let hint = format!(
                "{name} is a driver in software, slower than --device cpu; --device gpu:0 runs on it"
            );
            Hint { error: error.into(), hint }.into()
        }
        None => {
            let hint = "`pelton doctor` shows why; `--device cpu` runs on the CPU".to_owned();
            Hint { error: error.into(), hint }.into()
        }
    })
}

/// The name of the first GPU where all are drivers in software, of which `--device gpu` chooses none.
#[cfg(feature = "gpu")]
fn software_gpu(device: Device) -> Option<String> {
    let first = pelton::gpu::adapters().into_iter().next()?;
    (device == Device::Gpu(None)).then(|| first.name().to_owned())
}

#[cfg(not(feature = "gpu"))]
fn software_gpu(_: Device) -> Option<String> {
    None
}

/// The model that a name on the command line stands for.
pub(crate) fn source(name: &str) -> ModelSource {
    match name {
        BUILT_IN => ModelSource::BuiltIn,
        path => path.into(),
    }
}

/// Opens a model file without loading it.
pub(crate) fn open(file: &str) -> Result<Checkpoint> {
    match &*hub::local(file, Device::Auto)? {
        BUILT_IN => Ok(pelton::built_in()?),
        file => Checkpoint::open(file).map_err(|error| hints::of_load(error, file)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    /// Each flag with a value that is not the default.
    fn flags() -> Vec<String> {
        let command = LoadArgs::augment_args(Command::new("load"));
        let mut all = Vec::new();
        for argument in command.get_arguments() {
            let name = argument.get_long().unwrap();
            let value = match name {
                "device" => "cpu",
                "threads" => "7",
                "context" => "77",
                "kv" | "quantize" => "q8_0",
                "kv-memory" | "fit-margin" => "1G",
                "gpu-layers" | "host-experts" | "n-cpu-moe" => "5",
                "host-ffn" => "auto",
                "split" => "3,2",
                "stream-from" => "5",
                "fit-budget" => "gpu:0=1G",
                "lora" => "a.gguf=0.5",
                "effort" => "0.5,mode=bucket,table=file",
                _ if !argument.get_action().takes_values() => "",
                _ => panic!("--{name} is new: give it a value here"),
            };
            let flag = match value {
                "" => format!("--{name}"),
                value => format!("--{name}={value}"),
            };
            all.push(flag);
        }
        all
    }

    fn parse(words: &[String]) -> LoadArgs {
        let command = LoadArgs::augment_args(Command::new("load"));
        let words = std::iter::once("load").chain(words.iter().map(String::as_str));
        let matches = command.try_get_matches_from(words).unwrap_or_else(|e| panic!("{e}"));
        LoadArgs::from_arg_matches(&matches).unwrap()
    }

    /// The input of a load: its options, and those of the engine.
    fn of_run(words: &[String]) -> String {
        let args = parse(words);
        let options = args.options(LoadOptions::default());
        format!("{options:?} {:?} {} {}", args.device, args.threads(), args.no_repack)
    }

    /// The same of a server, whose own options are taken back.
    fn of_serve(words: &[String]) -> String {
        let config = crate::commands::serve::config_of(words).unwrap();
        let mut options = config.load;
        let default = LoadOptions::default();
        options.max_concurrent = default.max_concurrent;
        options.fit_context = default.fit_context;
        options.queue_requests = default.queue_requests;
        options.queue_tokens = default.queue_tokens;
        let (device, threads) = (config.device, config.threads);
        format!("{options:?} {device:?} {threads} {}", config.in_file_order)
    }

    /// No flag of a load is ignored by the server.
    #[test]
    fn run_and_serve_load_alike() {
        assert_eq!(of_serve(&[]), of_run(&[]));
        for flag in flags() {
            let words = [flag];
            assert_ne!(of_run(&words), of_run(&[]), "{words:?}");
            assert_eq!(of_serve(&words), of_run(&words), "{words:?}");
        }
    }
}
