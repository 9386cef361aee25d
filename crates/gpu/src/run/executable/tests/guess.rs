//! Passes of a part of a model that were recorded before they came.

use pelton_graph::{BuildOptions, Hidden, TableEdit, build_with};

use super::{
    persistent::{TURNS, coherent, with_plan},
    *,
};

/// Tokens that each of two streams samples, of which the second begins later and is at other
/// positions.
const TOKENS: u32 = 8;

/// Decodes two streams in turn. Returns their tokens and hidden states, and the passes that were
/// recorded before they came.
fn decode(executable: &mut GpuExecutable, expects: bool) -> (Vec<Sampled>, Vec<u32>, usize) {
    let (mut samples, mut states, mut recorded) = (Vec::new(), Vec::new(), 0);
    for position in 0..TOKENS {
        for slot in 0..2 {
            let begins = 3 * slot;
            let Some(at) = position.checked_sub(begins) else { continue };
            let input = if at == 0 { Input::Token(5 + slot) } else { Input::Sampled };
            let rows = [Row { input, position: at, slot }];
            let wants =
                [Want::Sample(SampleWant { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 })];
            let pages = [slot];
            let edits = [TableEdit { group: 0, slot, first: 0, pages: &pages }];
            let tables = if at == 0 { &edits[..] } else { &[] };
            let hidden = Hidden::Given(&[]);
            let pass = Pass::new(Phase::Decode, &rows, &wants);
            let pass = Pass { tables, hidden, keeps_hidden: true, ..pass };
            if !expects {
                executable.guesses.clear();
            }
            let before = executable.guesses.recorded();
            let ticket = executable.submit(&pass).unwrap();
            // one was taken, and one is recorded in its place
            let after = executable.guesses.recorded();
            recorded += usize::from(before > 0 && after == before);
            let outputs = executable.take(ticket).unwrap();
            samples.extend_from_slice(outputs.samples);
            states.extend(outputs.hidden.iter().map(|x| x.to_bits()));
        }
    }
    (samples, states, recorded)
}

/// Their bits are those of passes that are recorded as they come, by dispatches and
/// by persistent kernels.
#[test]
fn passes_recorded_before_they_come_change_no_bit() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let options = BuildOptions { hidden: true, ..BuildOptions::default() };
    let plan = build_with(&spec.checkpoint(), &options).unwrap().fuse(&all);
    for mode in [Mode::Off, Mode::Forced { groups: 1, turns: TURNS, rows: 1 }] {
        let mut executable = with_plan(&device, &spec, plan.clone(), mode);
        executable.in_flight.hurry();
        let (samples, states, recorded) = decode(&mut executable, false);
        assert_eq!(recorded, 0);
        assert_eq!((samples.len() as u32, states.is_empty()), (2 * TOKENS - 3, false));
        executable.guesses.clear();
        let expecting = decode(&mut executable, true);
        assert_eq!((&expecting.0, &expecting.1), (&samples, &states));
        // the first two passes of a stream come unexpected or without commands
        assert!(expecting.2 as u32 >= 2 * TOKENS - 3 - 2 * 3, "{}", expecting.2);
    }
}
