//! The model that a command is about.

use std::{
    io::{IsTerminal, stderr},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use pelton::{Checkpoint, Device, Engine, KvType, LoadOptions, Model};

use crate::output::WithHint;

/// What names the built-in model where a file is expected.
pub(crate) const BUILT_IN: &str = "built-in";

/// Flags of commands that run a model.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    /// What to run on: auto (a GPU if there is one), cpu, gpu, or gpu:N as `pelton devices` lists
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: Device,
    /// Threads on the processor; by default one for each physical core
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Positions to make room for; by default the model's own, but at most 4096
    #[arg(short, long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// How keys and values are kept
    #[arg(long, value_enum, default_value = "f16")]
    pub(crate) kv: Kv,
}

impl LoadArgs {
    /// The type of the caches' numbers.
    pub(crate) fn kv(&self) -> KvType {
        match self.kv {
            Kv::F16 => KvType::F16,
            Kv::F32 => KvType::F32,
            Kv::Q8_0 => KvType::Q8_0,
        }
    }
}

/// [`KvType`], for the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Kv {
    /// 16-bit numbers
    F16,
    /// 32-bit numbers: twice the memory
    F32,
    /// 8-bit numbers in blocks of 32: half the memory, a little less exact; on the processor only
    #[value(name = "q8_0")]
    Q8_0,
}

/// Loads a model; a bar shows how far it is if that takes more than a second.
pub(crate) fn load(file: &str, args: &LoadArgs, options: LoadOptions) -> Result<Model> {
    load_on(&engine(args)?, file, args, options)
}

/// As [`load`], on an engine that is there.
pub(crate) fn load_on(
    engine: &Engine,
    file: &str,
    args: &LoadArgs,
    options: LoadOptions,
) -> Result<Model> {
    let bar = LateBar::new();
    let kv = args.kv();
    let context = args.context.or(options.context);
    let options = LoadOptions { context, kv, ..options };
    let model = match file {
        BUILT_IN => engine.load_built_in_with(&options, &mut |done, all| bar.show(done, all)),
        file => engine.load_with(file, &options, &mut |done, all| bar.show(done, all)),
    };
    bar.bar.finish_and_clear();
    model.hint(hint(file))
}

/// The engine that the flags ask for.
pub(crate) fn engine(args: &LoadArgs) -> Result<Engine> {
    let threads = args.threads.map_or_else(pelton::default_threads, usize::from);
    Engine::on(args.device, threads)
        .hint("`pelton devices` lists what there is; `--device cpu` runs on the processor")
}

/// Opens a model file without loading it.
pub(crate) fn open(file: &str) -> Result<Checkpoint> {
    match file {
        BUILT_IN => Ok(pelton::built_in()?),
        file => Checkpoint::open(file).hint(hint(file)),
    }
}

fn hint(file: &str) -> String {
    match file {
        BUILT_IN => "--help lists what a model can be loaded with".to_owned(),
        file if Path::new(file).is_file() => {
            format!("`pelton inspect {file}` shows what can be read of it")
        }
        _ => format!("a model is the path of a .gguf file, or the word {BUILT_IN}"),
    }
}

/// A bar that appears when something has taken a second, and only on a terminal.
struct LateBar {
    begun: Instant,
    bar: ProgressBar,
}

impl LateBar {
    fn new() -> Self {
        Self { begun: Instant::now(), bar: ProgressBar::hidden() }
    }

    fn show(&self, done: u64, all: u64) {
        if self.begun.elapsed() < Duration::from_secs(1) {
            return;
        }
        if self.bar.is_hidden() && stderr().is_terminal() {
            let style = "loading {bar:32} {bytes} of {total_bytes}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(style) {
                self.bar.set_style(style);
            }
            self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
    }
}
