//! Streams of text beside requests with pictures, by numbers of passes.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex, OnceLock, mpsc},
};

use pelton::{
    Device, Engine, Error, Event, GenerateOptions, KvType, LoadOptions, Model, Picture, Prompt,
    Sampling, chat::Segment,
};

fn load(name: &str, options: LoadOptions) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision");
    let engine = Engine::builder().device(Device::Cpu).threads(2).build().unwrap();
    engine.load(folder.join(name), &options.kv(KvType::F32).context(512)).unwrap()
}

fn greedy(tokens: usize) -> GenerateOptions {
    let sampling = Sampling::greedy();
    GenerateOptions::default().sampling(sampling).max_tokens(tokens).ignore_eos(true)
}

/// A prompt with a picture of its own.
fn pictured(placeholder: &str, number: u32) -> Prompt {
    let rgb = (0..32 * 32 * 3).map(|i: u32| (i * 7 + number * 31) as u8).collect();
    let picture = Arc::new(Picture::new(32, 32, rgb).unwrap());
    let part = |text: &str, image| Segment { text: text.to_owned(), control_tokens: true, image };
    let segments = vec![part("a", None), part(placeholder, Some(0)), part("b", None)];
    Prompt::Segments { segments, images: vec![picture.into()] }
}

/// A stream of text has a token between two passes of the tower, and its tokens are those that it
/// has alone. The passes are counted whenever a token comes.
#[test]
fn streams_wait_one_pass_of_the_tower_at_most() {
    const STREAM: usize = 120;
    const REQUESTS: u32 = 8;
    // five passes of the tower for a picture: four tiles and the whole
    let alone = load("idefics3", LoadOptions::default());
    let expected: Vec<u32> =
        alone.generate("abc", greedy(STREAM)).unwrap().map(|token| token.unwrap().id).collect();
    let model = Arc::new(load("idefics3", LoadOptions::default().max_concurrent(3)));
    let (own, seen) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
    let (began, begun) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    own.set(Arc::downgrade(&model)).unwrap();
    let (model_of, tokens) = (Arc::clone(&own), Arc::clone(&seen));
    let sink = move |event| {
        match event {
            Event::Token(token) => {
                let model = model_of.get().and_then(std::sync::Weak::upgrade).unwrap();
                let mut tokens = tokens.lock().unwrap();
                if tokens.is_empty() {
                    began.send(()).unwrap();
                    // until the requests with pictures are in the queue
                    gone.recv().unwrap();
                }
                tokens.push((token.id, model.status().tower_passes));
            }
            Event::Finished { .. } => ended.send(()).unwrap(),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
        ControlFlow::Continue(())
    };
    let _stream = model.submit("abc", greedy(STREAM), sink).unwrap();
    begun.recv().unwrap();
    let others: Vec<_> =
        (0..REQUESTS).map(|i| model.generate(pictured("<image>", i), greedy(2)).unwrap()).collect();
    go.send(()).unwrap();
    end.recv().unwrap();
    for other in others {
        assert_eq!(other.collect::<Result<Vec<_>, _>>().unwrap().len(), 2);
    }
    let seen = seen.lock().unwrap();
    let found: Vec<u32> = seen.iter().map(|(id, _)| *id).collect();
    assert_eq!(found, expected);
    // all pictures are seen while the stream runs
    assert_eq!(seen.last().unwrap().1, 5 * u64::from(REQUESTS));
    for two in seen.windows(2) {
        assert!(two[1].1 - two[0].1 <= 1, "{two:?}");
    }
}

/// The patches of requests that wait are bounded, beside their tokens. Texts still enter the queue.
#[test]
fn pictures_that_wait_are_bounded_by_their_bytes() {
    // four tokens and 12 KiB of patches for a picture, and 1 KiB for each token that may wait
    let model = load("gemma3", LoadOptions::default().max_concurrent(1).queue_tokens(40));
    let picture = |number| pictured("<start_of_image>", number);
    assert_eq!(model.generate(picture(9), greedy(1)).unwrap().count(), 1);
    let (began, begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let mut is_first = true;
    let sink = move |event| {
        if matches!(event, Event::Token(_)) && std::mem::take(&mut is_first) {
            began.send(()).unwrap();
            gone.recv().unwrap();
        }
        ControlFlow::Continue(())
    };
    let _running = model.submit("abc", greedy(4), sink).unwrap();
    begun.recv().unwrap();
    let kept: Vec<_> = (0..3).map(|i| model.generate(picture(i), greedy(1)).unwrap()).collect();
    let refused = model.generate(picture(3), greedy(1)).err().unwrap();
    assert!(matches!(refused, Error::Busy { what: "bytes of pictures", .. }), "{refused}");
    let text = model.generate("a", greedy(1)).unwrap();
    // a picture of an earlier turn is not resized again, so it has no patches
    let known = model.generate(picture(9), greedy(1)).unwrap();
    go.send(()).unwrap();
    for stream in kept.into_iter().chain([text, known]) {
        assert_eq!(stream.collect::<Result<Vec<_>, _>>().unwrap().len(), 1);
    }
    // they are free as soon as the tower has seen the pictures, or the requests end
    for i in 0..3 {
        assert_eq!(model.generate(picture(i), greedy(1)).unwrap().count(), 1);
    }
}
