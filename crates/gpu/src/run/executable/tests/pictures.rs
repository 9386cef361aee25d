//! Texts after pictures: repeats and persistent kernels at coordinates other than the position, and
//! passes over pictures that run again.

use pelton_graph::{Place, TableEdit};
use pelton_testing::pictured::{PROMPT, after, embeddings, pictured, prompt};

use super::{
    persistent::{TURNS, coherent, fail, with_plan},
    *,
};

const FORCED: Mode = Mode::Forced { groups: 1, turns: TURNS, rows: 1 };
fn pictured_of(spec: &ModelSpec) -> Plan {
    pictured(build(&spec.checkpoint()).unwrap()).fuse(&all)
}

/// Submits a prompt of slot 1 with a picture, and a greedy draw.
fn submit_prompt(executable: &mut GpuExecutable, pages: &[u32]) -> Ticket {
    let embeddings = embeddings(&executable.plan);
    let (rows, places) = prompt(1);
    let tables = [TableEdit { group: 0, slot: 1, first: 0, pages }];
    let wants = [greedy(PROMPT - 1)];
    let pass = Pass {
        tables: &tables,
        places: &places,
        embeddings: &embeddings,
        ..Pass::new(Phase::Prompt, &rows, &wants)
    };
    executable.submit(&pass).unwrap()
}

fn greedy(row: u32) -> Want<'static> {
    Want::Sample(SampleWant { row, draw: Draw::GREEDY, recent: &[], pending: 0 })
}

/// The tokens of a pass.
fn taken(executable: &mut GpuExecutable, ticket: Ticket) -> Vec<Option<u32>> {
    let samples = executable.take(ticket).unwrap().samples;
    samples.iter().map(|sample| sample.token).collect()
}

/// Submits passes that decode from a position on.
fn decode(executable: &mut GpuExecutable, position: u32, repeat: u32, place: Place) -> Ticket {
    let rows = [Row { input: Input::Sampled, position, slot: 1 }];
    let (wants, places) = ([greedy(0)], [place]);
    let pass = Pass { places: &places, repeat, ..Pass::new(Phase::Decode, &rows, &wants) };
    executable.submit(&pass).unwrap()
}

/// The logits of a token after the text.
fn logits_of(executable: &mut GpuExecutable, position: u32, place: Place) -> Vec<u32> {
    let rows = [Row { input: Input::Token(5), position, slot: 1 }];
    let (wants, places) = ([Want::Logits { row: 0 }], [place]);
    let pass = Pass { places: &places, ..Pass::new(Phase::Decode, &rows, &wants) };
    let ticket = executable.submit(&pass).unwrap();
    executable.take(ticket).unwrap().logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Repeats, and passes one after the other, have the same coordinates and bits, by dispatches and
/// by persistent kernels.
#[test]
fn coordinates_advance_with_repeats() {
    let Some(device) = coherent() else { return };
    for (architecture, dtype) in [("llama", DType::Q4_0), ("qwen3", DType::Q8_0)] {
        let spec = ModelSpec { architecture, ..ModelSpec::wide(dtype) };
        let run = |persistent: Mode, repeats: &[u32]| {
            let mut executable = with_plan(&device, &spec, pictured_of(&spec), persistent);
            let ticket = submit_prompt(&mut executable, &[2]);
            let mut tokens = taken(&mut executable, ticket);
            let mut position = PROMPT;
            for &repeat in repeats {
                let ticket = decode(&mut executable, position, repeat, after(position));
                tokens.extend(taken(&mut executable, ticket));
                position += repeat;
            }
            let own = logits_of(&mut executable, position, after(position));
            let other = logits_of(&mut executable, position, Place::of(position));
            assert_ne!(own, other, "coordinates change nothing");
            (tokens, own)
        };
        let expected = run(Mode::Off, &[1; 9]);
        assert_eq!(expected.0.len(), 10);
        assert_eq!(run(Mode::Off, &[4, 5]), expected, "{architecture}");
        assert_eq!(run(FORCED, &[1; 9]), expected, "{architecture}");
        assert_eq!(run(FORCED, &[4, 5]), expected, "{architecture}");
    }
}

/// A pass over a picture that is in flight after a failed one runs again with its embeddings.
#[test]
fn pictures_run_again() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let run = |executable: &mut GpuExecutable, fails: bool| {
        let tables = [TableEdit { group: 0, slot: 2, first: 0, pages: &[1] }];
        let rows = [Row { input: Input::Token(5), position: 0, slot: 2 }];
        let (wants, places) = ([greedy(0)], [Place { at: [9; 3], ..Place::of(0) }]);
        if fails {
            fail(executable, 1);
        }
        let text =
            Pass { tables: &tables, places: &places, ..Pass::new(Phase::Decode, &rows, &wants) };
        let text = executable.submit(&text).unwrap();
        let picture = submit_prompt(executable, &[2]);
        if fails {
            let Inputs { row_places, embeddings, .. } = &executable.inputs;
            for buffer in [row_places, embeddings] {
                let poison = vec![1u8; buffer.size() as usize];
                executable.device.queue.write_buffer(buffer, 0, &poison);
            }
        }
        let mut tokens = taken(executable, text);
        tokens.extend(taken(executable, picture));
        (tokens, logits_of(executable, PROMPT, after(PROMPT)))
    };
    let load = |mode| with_plan(&device, &spec, pictured_of(&spec), mode);
    let expected = run(&mut load(Mode::Off), false);
    let mut failing = load(FORCED);
    assert!(failing.steps.persistent.is_some());
    assert_eq!(run(&mut failing, true), expected);
    assert_eq!(failing.repeat.count, 2);
}
