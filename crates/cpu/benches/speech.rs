//! Time of Whisper's encoder and decoder with random weights of published shapes.
//!
//! `cargo bench -p pelton-cpu --bench speech -- [THREADS] [TYPE] [MODEL]...` runs these models
//! (`tiny`, `base`, `small`) with matrices of this type (`f16`, `q8_0`, `q5_0`); by default all in
//! `f16`. Times are of the wall and, as the machine may be busy, of the CPU.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panic")]

use std::time::{Duration, Instant};

use pelton_cpu::Cpu;
use pelton_cpu::pool::default_threads;
use pelton_graph::{Backend, KvType, Op, Phase, Plan};
use pelton_quant::DType;
use pelton_testing::WhisperSpec;
use pelton_testing::speech::{Speech, Tokens};

/// The name, the width and the layers of each stack.
const MODELS: [(&str, usize, usize); 3] = [("tiny", 384, 4), ("base", 512, 6), ("small", 768, 12)];
const PROMPT: usize = 4;
const STEPS: usize = 40;
const BEAMS: usize = 3;

/// The time of the process on all its cores, where the system tells it.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    // user and system time in hundredths of a second
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn timed(what: &str, count: usize, run: &mut dyn FnMut()) {
    let (begun, cpu) = (Instant::now(), cpu_time());
    run();
    let each = |time: Duration| time.as_secs_f64() * 1e3 / count as f64;
    println!(
        "  {what:<28} {:8.2} ms, {:8.2} ms of the CPU",
        each(begun.elapsed()),
        each(cpu_time().saturating_sub(cpu))
    );
}

fn main() {
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let threads = words.iter().find_map(|word| word.parse().ok()).unwrap_or_else(default_threads);
    let types = [("f16", DType::F16), ("q8_0", DType::Q8_0), ("q5_0", DType::Q5_0)];
    let dtype = types.into_iter().find(|(name, _)| words.iter().any(|word| word == name));
    let (type_name, dtype) = dtype.unwrap_or(types[0]);
    words.retain(|word| MODELS.iter().any(|(name, ..)| name == word));
    for (name, width, layers) in MODELS {
        if !words.is_empty() && !words.iter().any(|word| word == name) {
            continue;
        }
        let spec = WhisperSpec {
            width,
            encoder_layers: layers,
            decoder_layers: layers,
            dtype,
            ..WhisperSpec::default()
        };
        println!("{name} {type_name}, {threads} threads");
        let cpu = Cpu::new(threads);
        let accepts = |op: &Op, plan: &Plan| cpu.accepts(op, plan);
        let mut model = Speech::load(&cpu, &spec, &accepts, (KvType::F16, false));
        let frames = spec.features(1);
        model.encode(&[(0, &frames)]);
        timed("encoder, a window", 3, &mut || {
            for _ in 0..3 {
                model.encode(&[(0, &frames)]);
            }
        });
        let tokens = [1; PROMPT + STEPS];
        for beams in [1, BEAMS] {
            let of = |beam, first, end: usize| Tokens {
                window: 0,
                beam,
                first,
                tokens: &tokens[first..end],
            };
            let prompts: Vec<Tokens<'_>> = (0..beams).map(|beam| of(beam, 0, PROMPT)).collect();
            model.append(Phase::Prompt, &prompts);
            timed(&format!("decoder, a step of {beams}"), STEPS, &mut || {
                for at in PROMPT..PROMPT + STEPS {
                    let step: Vec<Tokens<'_>> =
                        (0..beams).map(|beam| of(beam, at, at + 1)).collect();
                    model.append(Phase::Decode, &step);
                }
            });
        }
    }
}
