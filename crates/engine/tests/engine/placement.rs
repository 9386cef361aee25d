//! The choice of devices: what fits, what leaves the GPU, and what is said about it.

use std::sync::Arc;

use pelton::{
    Checkpoint, Engine, Error, LoadOptions, Needs, Placement, Sampling,
    graph::{
        Backend, Error as GraphError, Executable, HostExecutables, Limits, LinkRates, Op, Plan,
        Rates,
    },
};
use pelton_cpu::Cpu;
use pelton_quant::DType;
use pelton_testing::ModelSpec;

/// A CPU that stands for a GPU of its own memory: all that a plan needs is its own, but for the
/// weights of the host.
#[derive(Clone)]
struct Card {
    cpu: Cpu,
    memory: u64,
    /// Whether feed-forwards can be in the memory of another device.
    has_host: bool,
}

impl Backend for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.cpu.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, GraphError> {
        let needs = self.cpu.needs(plan, limits)?;
        let bytes =
            |i: usize| plan.weights[i].dtype.bytes_of(plan.weights[i].len()).unwrap() as u64;
        let parts = plan.host_parts();
        let of_host: u64 = (0..parts.len()).filter(|&i| parts[i].is_some()).map(bytes).sum();
        let streamed = if plan.host.is_empty() { 0 } else { 5000 };
        let weights = needs.weights + needs.mapped - of_host;
        Ok(Needs { weights, mapped: 0, streamed, staging: 1000, ..needs })
    }

    fn has_host_parts(&self) -> bool {
        self.has_host
    }

    fn load_with_host(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        host: HostExecutables,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, GraphError> {
        assert_eq!(host.parts.len(), plan.host.len());
        self.load(plan, checkpoint, limits, progress)
    }

    fn budget(&self) -> Option<u64> {
        Some(self.memory)
    }

    fn rates_key(&self) -> Option<String> {
        // a driver in software has none
        (self.memory > 1 << 39).then(|| "card".to_owned())
    }

    fn measure_rates(&self) -> Result<Rates, GraphError> {
        let link = Some(LinkRates { up: 2e9, hop: 1e-4 });
        Ok(Rates { step: 1e-6, link, ..Rates::reading(1e9) })
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, GraphError> {
        self.needs(&plan, &limits)?.check("card", self.memory, 0)?;
        self.cpu.load(plan, checkpoint, limits, progress)
    }
}

fn spec() -> ModelSpec {
    ModelSpec { layers: 8, ..ModelSpec::wide(DType::Q8_0) }
}

fn file() -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().unwrap();
    std::fs::write(file.path(), spec().file(&[])).unwrap();
    file
}

fn engine(memory: u64, spills: bool) -> Engine {
    cards(&[memory], spills)
}

/// An engine on cards of these memories.
fn cards(memories: &[u64], spills: bool) -> Engine {
    of_cards(memories, spills, false)
}

fn of_cards(memories: &[u64], spills: bool, has_host: bool) -> Engine {
    let card =
        |&memory| -> Arc<dyn Backend> { Arc::new(Card { cpu: Cpu::new(1), memory, has_host }) };
    Engine::with_devices(memories.iter().map(card).collect(), Cpu::new(1), spills)
}

fn options() -> LoadOptions {
    LoadOptions::default().context(256).rows(64).gpu_margin(0)
}

/// The memory for the whole model on the card: caches take at most 0.9 of what is free for them.
fn enough() -> u64 {
    let needs = placement(1 << 40).unwrap().devices[0].needs;
    needs.most() + needs.caches / 8
}

/// The placement on a card of this memory.
fn placement(memory: u64) -> Result<Placement, Error> {
    engine(memory, true).placement(file().path(), &options())
}

/// The layers on the card, and whether the placement keeps within its memory.
fn on_card(placement: &Placement) -> usize {
    let card = placement.devices.iter().find(|share| share.device == "card");
    card.map_or(0, |share| share.layers.len())
}

#[test]
fn layers_leave_one_by_one() {
    let whole = placement(1 << 40).unwrap();
    assert_eq!((whole.devices.len(), on_card(&whole)), (1, 8));
    let enough = enough();
    let mut before = (0, u64::MAX);
    for part in 0..=20 {
        let memory = enough * part / 20;
        let placement = placement(memory).unwrap();
        let all: usize = placement.devices.iter().map(|share| share.layers.len()).sum();
        assert_eq!(all, 8, "{placement}");
        for share in &placement.devices {
            assert!(share.budget.is_none_or(|budget| share.needs.most() <= budget), "{placement}");
        }
        // more memory never leaves more of the weights to the CPU
        let in_ram: u64 = placement
            .devices
            .iter()
            .filter(|share| share.device == "cpu")
            .map(|share| share.needs.mapped)
            .sum();
        let now = (on_card(&placement), in_ram);
        assert!(now.0 >= before.0 && now.1 <= before.1, "{before:?}, then {now:?}: {placement}");
        before = now;
    }
    assert_eq!(before.0, 8);
    // one byte less than the whole model needs
    let almost = placement(whole.devices[0].needs.most() - 1).unwrap();
    assert_eq!((almost.devices.len(), almost.devices[0].device.as_str()), (2, "cpu"));
    assert!(on_card(&almost) >= 7);
}

#[test]
fn layers_that_are_given() {
    let file = file();
    for (layers, devices, on) in [(0, 1, 0), (1, 2, 0), (3, 2, 2), (8, 2, 7), (9, 1, 8), (99, 1, 8)]
    {
        let options = options().gpu_layers(layers);
        let placement = engine(1 << 40, false).placement(file.path(), &options).unwrap();
        assert_eq!((placement.devices.len(), on_card(&placement)), (devices, on), "{placement}");
    }
    // a card alone is not left
    let error = engine(1000, false).load(file.path(), &options()).err().unwrap();
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn a_limit_and_a_margin_of_the_memory() {
    let file = file();
    let of = |options: LoadOptions| {
        let engine = engine(1 << 40, true);
        on_card(&engine.placement(file.path(), &options).unwrap())
    };
    let enough = enough();
    assert_eq!(of(options().gpu_memory(enough)), 8);
    assert!(of(options().gpu_memory(enough / 2)) < 8);
    assert!(of(options().gpu_memory(enough).gpu_margin(enough / 2)) < 8);
    let mut free = LoadOptions::default().context(256).rows(64);
    // without a margin of its own, a limit is what the load may take
    free.placement.gpu_memory = Some(enough);
    assert_eq!(of(free), 8);
}

/// The layers of each device, the CPU's first if it has some.
fn layers(placement: &Placement) -> Vec<usize> {
    placement.devices.iter().map(|share| share.layers.len()).collect()
}

#[test]
fn several_cards_share_layers() {
    let file = file();
    let of = |memories: &[u64], spills, options: LoadOptions| {
        cards(memories, spills).placement(file.path(), &options)
    };
    let plenty = 1 << 40;
    // the output takes the time of a part of a layer
    assert_eq!(layers(&of(&[plenty; 2], false, options()).unwrap()), [4, 4]);
    let four = of(&[plenty; 4], false, options()).unwrap();
    assert_eq!(layers(&four).iter().sum::<usize>(), 8);
    assert!(layers(&four).iter().all(|&count| (1..=3).contains(&count)), "{four}");
    // a choice of the layers, in whole and wrong
    let given = |split: &[usize]| of(&[plenty; 2], false, options().split(split));
    assert_eq!(layers(&given(&[6, 2]).unwrap()), [6, 2]);
    for split in [&[6, 3][..], &[8], &[4, 2, 2], &[9, 0], &[usize::MAX, 9]] {
        let error = given(split).unwrap_err().to_string();
        assert!(error.contains("expected a number for each, 8 in all"), "{split:?}: {error}");
    }
    let error = engine(plenty, true).placement(file.path(), &options().split([4, 4]));
    assert!(error.unwrap_err().to_string().contains("expected several GPUs"));
    // the last layers on the cards, the others on the CPU
    let some = of(&[plenty; 2], false, options().gpu_layers(5)).unwrap();
    assert_eq!(layers(&some), [4, 2, 2]);
    assert_eq!(some.devices[0].device, "cpu");
    // more cards than layers
    assert!(of(&[plenty; 12], false, options()).is_err());
    // a card of less memory has fewer layers, and both hold theirs
    let enough = enough();
    let unequal = of(&[enough / 2, enough], false, options()).unwrap();
    assert!(layers(&unequal)[0] < layers(&unequal)[1], "{unequal}");
    for share in &unequal.devices {
        assert!(share.needs.most() <= share.budget.unwrap(), "{unequal}");
    }
    // neither does: layers leave for the CPU
    let spilled = of(&[enough / 3; 2], true, options()).unwrap();
    assert_eq!((spilled.devices.len(), layers(&spilled).iter().sum::<usize>()), (3, 8));
    assert!(of(&[0; 2], true, options()).unwrap().devices[0].device == "cpu");
}

/// Requests at the same time, of which each device runs another one, have the texts
/// that they have alone.
#[test]
fn streams_over_several_cards() {
    let file = file();
    let ids = |engine: &Engine| -> Vec<Vec<u32>> {
        let model = engine.load(file.path(), &options().max_concurrent(5)).unwrap();
        let streams: Vec<_> = (0..5_u32)
            .map(|i| {
                let request = pelton::GenerateOptions::default()
                    .max_tokens(20 + 3 * i as usize)
                    .ignore_eos(true)
                    .sampling(Sampling::greedy());
                let prompt: Vec<u32> = (i..i + 10 + 20 * i).map(|id| id % 80).collect();
                model.generate(prompt, request).unwrap()
            })
            .collect();
        let texts = streams.into_iter();
        texts.map(|stream| stream.map(|token| token.unwrap().id).collect()).collect()
    };
    let expected = ids(&engine(1 << 40, false));
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [20, 23, 26, 29, 32]);
    for count in [2, 3] {
        assert_eq!(ids(&cards(&vec![1 << 40; count], false)), expected, "{count} cards");
    }
}

/// The texts of all placements are those of the CPU alone.
#[test]
fn texts_are_those_of_one_device() {
    let file = file();
    let enough = enough();
    let texts = [u64::MAX, enough * 7 / 8, enough * 3 / 4, enough / 2, 0].map(|memory| {
        let model = engine(memory, true).load(file.path(), &options()).unwrap();
        let devices = model.placement().devices.len();
        let request = pelton::GenerateOptions::default()
            .max_tokens(20)
            .ignore_eos(true)
            .sampling(Sampling::greedy());
        let prompt: Vec<u32> = (0..70).collect();
        let stream = model.generate(prompt, request).unwrap();
        let ids: Vec<u32> = stream.map(|token| token.unwrap().id).collect();
        assert_eq!(ids.len(), 20);
        (devices, model.summary().device, ids)
    });
    let devices = texts.each_ref().map(|(devices, ..)| *devices);
    assert_eq!((devices[0], devices[1], devices[2], devices[4]), (1, 2, 2, 1));
    for (_, device, ids) in &texts[1..] {
        assert_eq!(*ids, texts[0].2, "{device}");
    }
    assert_eq!(texts[0].1, "card");
    assert!(texts[2].1.starts_with("card with layers "), "{}", texts[2].1);
    assert!(texts[2].1.contains(", cpu with layers 0-"), "{}", texts[2].1);
    assert!(texts[4].1.starts_with("cpu, 1 thread (card has not the memory"), "{}", texts[4].1);
}

/// The layers whose feed-forwards are in the memory of the CPU.
fn in_ram(placement: &Placement) -> usize {
    let cpu = placement.devices.iter().find(|share| share.device == "cpu");
    cpu.and_then(|share| share.feed_forwards.as_ref()).map_or(0, |(_, layers)| layers.len())
}

#[test]
fn feed_forwards_leave_before_layers() {
    let file = file();
    let of = |memory| of_cards(&[memory], true, true).placement(file.path(), &options()).unwrap();
    let enough = enough();
    assert_eq!(in_ram(&of(enough)), 0);
    let mut before = (usize::MAX, usize::MAX);
    for part in 0..=20 {
        let placement = of(enough * part / 20);
        let layers: usize = placement.devices.iter().map(|share| share.layers.len()).sum();
        assert_eq!(layers, 8, "{placement}");
        for share in &placement.devices {
            assert!(share.budget.is_none_or(|budget| share.needs.most() <= budget), "{placement}");
        }
        let now = (8 - on_card(&placement), in_ram(&placement));
        // whole layers leave where no number of feed-forwards suffices
        assert!(now.0 == 0 || now.1 == 0, "{placement}");
        assert!(now.0 <= before.0, "{placement}");
        assert!(now.0 > 0 || before.0 > 0 || now.1 <= before.1, "{placement}");
        before = now;
    }
    let half = of(enough * 3 / 4).to_string();
    assert!(half.contains("cpu: the feed-forwards of layer"), "{half}");
    assert!(half.contains("card: layers 0-7, the embedding and the output"), "{half}");
}

#[test]
fn feed_forwards_that_are_given() {
    use pelton::HostLayers::{Auto, First, IfAny};
    let file = file();
    let plenty = 1 << 40;
    let of = |has_host, options: LoadOptions| {
        of_cards(&[plenty], false, has_host).placement(file.path(), &options)
    };
    for (layers, expected) in [(0, 0), (1, 1), (5, 5), (8, 8), (99, 8)] {
        let placement = of(true, options().host_ffn(First(layers))).unwrap();
        assert_eq!((in_ram(&placement), on_card(&placement)), (expected, 8), "{placement}");
    }
    // they fit
    assert_eq!(in_ram(&of(true, options().host_ffn(Auto)).unwrap()), 0);
    // as llama.cpp does in a model without experts, whose feed-forwards may leave
    assert_eq!(in_ram(&of(true, options().host_experts(IfAny(3))).unwrap()), 0);
    assert_eq!(in_ram(&of(true, options().host_experts(IfAny(3)).host_ffn(First(2))).unwrap()), 2);
    // next to whole layers
    let both = of(true, options().host_ffn(First(5)).gpu_layers(6)).unwrap();
    assert_eq!((in_ram(&both), on_card(&both)), (2, 5), "{both}");
    assert!(both.to_string().contains("layers 0-2, the feed-forwards of layers 3-4"), "{both}");
    for (has_host, wrong, expected) in [
        (true, options().host_experts(First(1)), "the model has no experts"),
        (
            false,
            options().host_ffn(First(1)),
            "no feed-forwards that can stay in RAM next to 'card'",
        ),
        (true, options().host_ffn(Auto).host_experts(Auto), "expected one of both"),
    ] {
        let error = of(has_host, wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!("auto".parse(), Ok(Auto));
    assert_eq!("12".parse(), Ok(First(12)));
    assert!("-1".parse::<pelton::HostLayers>().is_err());
}

/// The texts of all placements are those of the CPU alone.
#[test]
fn texts_with_feed_forwards_in_ram() {
    let file = file();
    let text = |has_host, options: LoadOptions| {
        let engine = of_cards(&[1 << 40], false, has_host);
        let model = engine.load(file.path(), &options).unwrap();
        let request = pelton::GenerateOptions::default()
            .max_tokens(12)
            .ignore_eos(true)
            .sampling(Sampling::greedy());
        let prompt: Vec<u32> = (0..70).collect();
        let ids = model.generate(prompt, request).unwrap().map(|token| token.unwrap().id);
        (ids.collect::<Vec<u32>>(), model.summary().device)
    };
    let (expected, _) = text(false, options());
    let (got, device) = text(true, options().host_ffn(pelton::HostLayers::First(3)));
    assert_eq!(got, expected);
    assert!(device.ends_with(", cpu with the feed-forwards of layers 0-2"), "{device}");
}

/// A speed is predicted once all rates are measured, and the measurement happens
/// when it is asked for.
#[test]
fn predicted_speeds() {
    use pelton::HostLayers::First;
    let file = file();
    let engine = of_cards(&[1 << 40, 1 << 40], false, true);
    let of = |options: LoadOptions| engine.placement(file.path(), &options).unwrap().prediction;
    assert_eq!(engine.unmeasured(), ["cpu", "card", "card"]);
    assert_eq!(of(options()), None);
    engine.measure().unwrap();
    assert!(engine.unmeasured().is_empty());
    let counts = |options| {
        let prediction = of(options).unwrap();
        assert_eq!(prediction.depth, 128);
        let terms = prediction.terms.iter();
        let counts: Vec<_> = terms.map(|term| (term.name.clone(), term.count)).collect();
        (
            counts
                .into_iter()
                .filter(|(name, _)| name == "hops")
                .map(|(_, count)| count)
                .sum::<usize>(),
            prediction,
        )
    };
    // from one card to the other, and the token back
    let (hops, whole) = counts(options());
    assert_eq!((hops, whole.terms.len(), whole.prompt.is_none()), (2, 3, true));
    // from the CPU to the first card, to the second one, and back
    assert_eq!(counts(options().gpu_layers(5)).0, 3);
    // to the CPU and back for each of five feed-forwards too
    let (hops, hosted) = counts(options().host_ffn(First(5)));
    assert_eq!((hops, hosted.terms[0].name.as_str()), (7, "RAM"));
    let read: [u64; 2] =
        [whole, hosted.clone()].map(|all| all.terms.iter().map(|term| term.bytes).sum());
    assert!(read[0].abs_diff(read[1]) < 8, "the same weights on other devices: {read:?}");
    // matrices of five layers in Q8_0, at the rate of the link
    let prompt = hosted.prompt.unwrap();
    assert_eq!(prompt.rows, 64);
    assert!(prompt.bytes > 5 * 3 * 256 * 512, "{prompt:?}");
    assert!((prompt.stream.as_secs_f64() - prompt.bytes as f64 / 2e9).abs() < 1e-8);

    let software = of_cards(&[1 << 30], false, true);
    assert!(software.unmeasured().is_empty());
    software.measure().unwrap();
    assert_eq!(software.placement(file.path(), &options()).unwrap().prediction, None);
}

/// The automatic choice has the first card, then the fewest that hold the model, then the CPU.
#[test]
fn the_fewest_cards_that_hold_the_model() {
    let file = file();
    let enough = enough();
    let of = |memories: &[u64], options: LoadOptions| {
        let card = |&memory| -> Arc<dyn Backend> {
            Arc::new(Card { cpu: Cpu::new(1), memory, has_host: true })
        };
        let engine = Engine::with_auto(memories.iter().map(card).collect(), Cpu::new(1));
        let placement = engine.placement(file.path(), &options).unwrap();
        for share in &placement.devices {
            assert!(share.budget.is_none_or(|budget| share.needs.most() <= budget), "{placement}");
        }
        placement
    };
    let names = |placement: &Placement| -> Vec<String> {
        placement.devices.iter().map(|share| share.device.clone()).collect()
    };
    assert_eq!(names(&of(&[enough; 4], options())), ["card"]);
    let two = of(&[enough * 2 / 3; 4], options());
    assert_eq!((names(&two).len(), layers(&two)), (2, vec![4, 4]), "{two}");
    let three = of(&[enough / 2; 4], options());
    assert_eq!((names(&three).len(), layers(&three).iter().sum::<usize>()), (3, 8), "{three}");
    // the largest ones, in their order
    let largest = of(&[enough / 2, enough / 8, enough * 9 / 10], options());
    assert_eq!(names(&largest), ["card", "card"], "{largest}");
    assert_eq!(largest.devices[0].budget, Some(enough / 2), "{largest}");
    // another one alone holds it
    let other = of(&[enough / 8, enough], options());
    assert_eq!((names(&other).len(), other.devices[0].budget), (1, Some(enough)), "{other}");
    // all together do not suffice, or the devices of layers are given
    for placement in [
        of(&[enough / 8; 2], options()),
        of(&[enough * 2 / 3; 4], options().gpu_layers(3)),
        of(&[enough * 2 / 3; 4], options().host_ffn(pelton::HostLayers::Auto)),
    ] {
        assert_eq!(names(&placement), ["cpu", "card"], "{placement}");
    }
    // one card does not wait for others that nobody opened
    assert_eq!(names(&of(&[enough * 2 / 3], options())), ["cpu", "card"]);
}

/// The text of a model over several cards is that of one, and its devices are named.
#[test]
fn a_text_of_the_automatic_choice() {
    let file = file();
    let enough = enough();
    let text = |memories: &[u64]| {
        let card = |&memory| -> Arc<dyn Backend> {
            Arc::new(Card { cpu: Cpu::new(1), memory, has_host: true })
        };
        let engine = Engine::with_auto(memories.iter().map(card).collect(), Cpu::new(1));
        let model = engine.load(file.path(), &options()).unwrap();
        let request = pelton::GenerateOptions::default()
            .max_tokens(12)
            .ignore_eos(true)
            .sampling(Sampling::greedy());
        let prompt: Vec<u32> = (0..70).collect();
        let ids = model.generate(prompt, request).unwrap().map(|token| token.unwrap().id);
        (ids.collect::<Vec<u32>>(), model.summary().device)
    };
    let (expected, device) = text(&[enough]);
    assert_eq!(device, "card");
    let (got, device) = text(&[enough * 2 / 3; 2]);
    assert_eq!(got, expected);
    assert!(device.contains("card with layers 4-7") && !device.contains("cpu"), "{device}");
}
