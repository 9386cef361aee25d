//! Hidden states and tokens that a pass finds on the device have the bits of those
//! that come from the host.

use std::sync::Arc;

use pelton::Checkpoint;
use pelton::graph::{
    Backend, BuildOptions, Hidden, Input, Pass, Phase, Row, Ticket, Want, build_head, build_with,
};
use pelton_cpu::Cpu;
use pelton_testing::npy;

use super::{Loaded, NAMES, file, folder, greedy};

/// The logits of each row of a pass.
const ALL: [Want<'static>; 6] = [
    Want::Logits { row: 0 },
    Want::Logits { row: 1 },
    Want::Logits { row: 2 },
    Want::Logits { row: 3 },
    Want::Logits { row: 4 },
    Want::Logits { row: 5 },
];

fn rows(inputs: impl IntoIterator<Item = Input>, position: u32) -> Vec<Row> {
    let row = |(position, input)| Row { input, position, slot: 0 };
    (position..).zip(inputs).map(row).collect()
}

impl Loaded {
    fn start(&mut self, rows: &[Row], hidden: Hidden<'_>, wants: &[Want<'_>]) -> Ticket {
        let tables = self.tables();
        let pass = Pass { tables: &tables, hidden, ..Pass::new(Phase::Decode, rows, wants) };
        self.executable.submit(&pass).unwrap()
    }

    fn logits(&mut self, ticket: Ticket) -> Vec<f32> {
        self.executable.take(ticket).unwrap().logits.to_vec()
    }
}

fn loaded(name: &str, backend: &dyn Backend) -> [Loaded; 2] {
    let checkpoint = Arc::new(Checkpoint::open(file(name)).unwrap());
    let options = BuildOptions { hidden: true, ..BuildOptions::default() };
    let head = build_head(&checkpoint, &options).unwrap().unwrap();
    let model = build_with(&checkpoint, &options).unwrap();
    [model, head].map(|plan| Loaded::new(plan, &checkpoint, backend))
}

/// A head goes on from rows of the pass before.
fn states_of_the_pass_before(backend: &dyn Backend) {
    for name in NAMES {
        let (ids, states) = (
            npy::integers(folder(name).join("ids.npy")),
            npy::floats(folder(name).join("hidden.npy")),
        );
        let [_, mut head] = loaded(name, backend);
        let width = head.plan.hidden_width();
        let known = |count: usize| rows(ids[1..=count].iter().map(|&id| Input::Token(id)), 0);
        let (_, after) = head.run(Phase::Decode, &ids[1..=5], 0, &states[..5 * width]);
        // rows that move within the buffer, also over each other
        for of in [&[4][..], &[0], &[2, 3, 4], &[4, 3, 3, 0], &[1, 2]] {
            let given: Vec<f32> = of
                .iter()
                .flat_map(|&row| &after[row as usize * width..][..width])
                .copied()
                .collect();
            let next = rows(of.iter().map(|&row| Input::Token(ids[row as usize])), 5);
            let ticket = head.start(&next, Hidden::Given(&given), &ALL[..of.len()]);
            let expected = head.logits(ticket);
            let first = head.start(&known(5), Hidden::Given(&states[..5 * width]), &[]);
            let mut first = Some(first);
            if head.executable.pipeline().depth < 2 {
                head.logits(first.take().unwrap());
            }
            let second = head.start(&next, Hidden::Before(of), &ALL[..of.len()]);
            if let Some(first) = first {
                head.logits(first);
            }
            assert_eq!(head.logits(second), expected, "{name} on {}: {of:?}", backend.name());
        }
    }
}

/// A head drafts from rows of its model, and the model verifies what the head has drafted: without
/// a wait between the passes, on backends that have partners.
fn values_of_partners(backend: &dyn Backend, expects_partners: bool) {
    for name in NAMES {
        let ids = npy::integers(folder(name).join("ids.npy"));
        let [mut model, mut head] = loaded(name, backend);
        let width = head.plan.hidden_width();
        let (of_model, of_head) = (model.executable.shared(), head.executable.shared());
        assert_eq!(of_model.is_some(), expects_partners);
        let (Some(of_model), Some(of_head)) = (of_model, of_head) else { return };
        assert!(model.executable.pair(of_head) && head.executable.pair(of_model));

        // by way of the host: a chunk, two drafted tokens, their verification
        let (_, states) = model.run(Phase::Decode, &ids[..5], 0, &[]);
        let chunk = rows(ids[2..5].iter().map(|&id| Input::Token(id)), 0);
        let given = Hidden::Given(&states[width..4 * width]);
        let tables = head.tables();
        let wants = [greedy(2)];
        let pass = Pass {
            tables: &tables,
            hidden: given,
            keeps_hidden: true,
            ..Pass::new(Phase::Decode, &chunk, &wants)
        };
        let ticket = head.executable.submit(&pass).unwrap();
        let outputs = head.executable.take(ticket).unwrap();
        let mut drafted = vec![outputs.samples[0].token.unwrap()];
        let last = outputs.hidden[2 * width..].to_vec();
        drafted.extend(head.more(3, Hidden::Given(&last), 2));
        let known = Input::Token(ids[5]);
        let inputs = drafted.iter().map(|&token| Input::Token(token));
        let verify = rows([known].into_iter().chain(inputs), 5);
        let ticket = model.start(&verify, Hidden::NONE, &ALL[..4]);
        let expected = model.logits(ticket);

        // a model with recurrent states runs from its beginning again
        let first =
            model.start(&rows(ids[..5].iter().map(|&id| Input::Token(id)), 0), Hidden::NONE, &[]);
        let second = head.start(&chunk, Hidden::Partner(&[1, 2, 3]), &[greedy(2)]);
        let (tables, more, wants) = (head.tables(), rows([Input::Sampled], 3), [greedy(0)]);
        let pass = Pass {
            tables: &tables,
            hidden: Hidden::Before(&[2]),
            repeat: 2,
            ..Pass::new(Phase::Decode, &more, &wants)
        };
        let third = head.executable.submit(&pass).unwrap();
        let found = (0..3).map(|i| Input::Drafted(3 + i));
        let verify = rows([known].into_iter().chain(found), 5);
        let fourth = model.start(&verify, Hidden::NONE, &ALL[..4]);
        model.executable.take(first).unwrap();
        let outputs = model.executable.take(fourth).unwrap();
        assert_eq!(outputs.drafted, drafted, "{name}");
        assert_eq!(outputs.logits, expected, "{name}");
        for (ticket, tokens) in [(second, &drafted[..1]), (third, &drafted[1..])] {
            let samples = head.executable.take(ticket).unwrap().samples;
            let samples: Vec<u32> = samples.iter().map(|sampled| sampled.token.unwrap()).collect();
            assert_eq!(samples, tokens, "{name}");
        }
        // rows that the partner's newest pass does not have
        let pass = Pass { tables: &tables, hidden: Hidden::Partner(&[4]), ..pass };
        let error = head.executable.submit(&Pass { repeat: 1, ..pass }).unwrap_err().to_string();
        assert!(error.contains("hidden state of row 4, expected one of 4"), "{error}");
    }
}

#[test]
fn other_passes_on_the_cpu() {
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        states_of_the_pass_before(&cpu);
        values_of_partners(&cpu, false);
    }
}

#[cfg(feature = "gpu")]
#[test]
fn other_passes_on_a_gpu() {
    use pelton_testing::{Need, skip};

    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let gpu = pelton::gpu::Gpu::open_checked(&adapter).unwrap();
    for gpu in [gpu.clone(), gpu.with_persistent(1, 60_000, 4)] {
        states_of_the_pass_before(&gpu);
        values_of_partners(&gpu, true);
    }
}
