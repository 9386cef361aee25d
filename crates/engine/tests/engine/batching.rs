//! Requests of the built-in model that run together. Each gets the text that it gets alone, on the
//! CPU and on the first GPU, or else a software driver.

use std::{thread, time::Duration};

use pelton::{
    Engine, KvElement, KvMemory, LoadOptions, Model, ModelSource, Sampling, graph::Backend,
};
use pelton_cpu::Cpu;
use pelton_testing::Random;

use crate::request::{Request, Run};
#[cfg(feature = "gpu")]
use pelton_testing::{Need, skip};

fn load(backend: &(impl Backend + Clone + 'static), options: &LoadOptions) -> Model {
    Engine::with_backend(backend.clone()).load(ModelSource::BuiltIn, options).unwrap()
}

fn request(random: &mut Random) -> Request {
    let story = "Once upon a time there was a little fox who lived near the river. Every morning \
        she walked to the old bridge and looked for her friend, the heron. One day the heron was \
        not there, and the fox was sad. She asked the frog, and the frog said that the heron had \
        gone to the other side of the forest.";
    let starts = ["Long ago, there was a", "One day", story, story];
    let mut prompt = starts[random.below(4)].to_owned();
    prompt.push_str([" The", " She", " Then", ""][random.below(4)]);
    let sampling = match random.below(3) {
        0 => Sampling::greedy(),
        1 => Sampling::default().seed(random.bits()).repetition_penalty(1.2),
        _ => Sampling::default().seed(random.bits()).temperature(1.2),
    };
    Request::new(prompt).sampling(sampling).max_tokens(1 + random.below(60))
}

#[test]
fn thirty_two_requests_on_the_cpu() {
    requests_at_random_times_some_cancelled(&Cpu::new(2));
}

/// At most 8 rows a pass: up to 16 have the bits of the row alone.
#[cfg(feature = "gpu")]
#[test]
fn thirty_two_requests_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    requests_at_random_times_some_cancelled(&pelton::gpu::Gpu::open_checked(&adapter).unwrap());
}

fn requests_at_random_times_some_cancelled(backend: &(impl Backend + Clone + 'static)) {
    let mut random = Random::new(1);
    let requests: Vec<Request> = (0..32).map(|_| request(&mut random)).collect();
    let alone = load(backend, &LoadOptions::default().context(512));
    let expected: Vec<String> = requests
        .iter()
        .enumerate()
        .map(|(salt, request)| {
            let uncached = request.clone().cache_salt(salt as u64);
            alone.run(uncached).unwrap().text().unwrap()
        })
        .collect();
    assert_eq!(alone.status().prefix_hit_tokens, 0);
    let per_position = (0..alone.plan().groups.len())
        .map(|group| KvElement::F16.bytes(alone.plan().cache_len_per_position(group)) as u64);
    let bytes = 1024 * per_position.sum::<u64>();
    // room for two at full length
    let options =
        LoadOptions::default().context(512).max_concurrent(8).kv_memory(KvMemory::Bytes(bytes));
    let model = load(backend, &options);
    let mut streams = Vec::new();
    for request in &requests {
        streams.push(model.run(request.clone()).unwrap());
        thread::sleep(Duration::from_micros(random.below(4000) as u64));
    }
    let cancelled: Vec<usize> = (0..6).map(|_| random.below(32)).collect();
    for &i in &cancelled {
        streams[i].handle().cancel();
    }
    for (i, (stream, expected)) in streams.iter_mut().zip(&expected).enumerate() {
        let text = stream.text().unwrap();
        match cancelled.contains(&i) {
            true => assert!(expected.starts_with(&text), "{i}"),
            false => assert_eq!(&text, expected, "{i}"),
        }
    }
    assert!(model.status().prefix_hit_tokens > 0);
}
