//! Many streams at the same time.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::start;

/// 64 streams for a time: no error, no long pause, and each text as it is alone. The time is
/// `PELTON_SOAK` in seconds, or one round.
#[test]
fn many_streams() {
    let server = start(|config| {
        config.load = config.load.clone().context(256).sequences(16).queue_requests(128);
    });
    let body = |i: usize| {
        json!({"prompt": format!("Once upon a time number {}", i % 8), "max_tokens": 24,
               "seed": i % 8, "stream": true})
    };
    let text = |i: usize| {
        let chunks = server.post("/v1/completions", &body(i)).chunks();
        let texts = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap());
        texts.collect::<String>()
    };
    let alone: Vec<String> = (0..8).map(text).collect();
    let seconds = std::env::var("PELTON_SOAK").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    std::thread::scope(|scope| {
        for i in 0..64 {
            let (alone, text) = (&alone, &text);
            scope.spawn(move || {
                loop {
                    let begun = Instant::now();
                    assert_eq!(text(i), alone[i % 8]);
                    assert!(begun.elapsed() < Duration::from_secs(60));
                    if Instant::now() >= end {
                        break;
                    }
                }
            });
        }
    });
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("pelton_requests_running{model=\"built-in\"} 0\n"), "{metrics}");
}
