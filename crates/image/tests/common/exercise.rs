//! Arbitrary bytes as a picture: decoded within limits, resized and prepared.

use pelton_image::{Bounds, Filter, Job, Limits, Preprocessor, Tower, decode, resize};

/// Bounds that keep a run short.
pub(crate) const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    side: 4_096,
    pixels: 1 << 18,
    aspect: 200,
    memory: 8 << 20,
    time: std::time::Duration::from_secs(20),
};

const SETTINGS: &str = include_str!("../fixtures/preprocess/qwen2.5-vl.json");

/// Whether bytes are a picture.
pub(crate) fn exercise(bytes: &[u8]) -> bool {
    let job = Job::new("bytes", LIMITS, &|| false);
    let picture = match decode(bytes, &job) {
        Ok(picture) => picture,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let (width, height) = (picture.width(), picture.height());
    assert!(u64::from(width) * u64::from(height) <= LIMITS.pixels);
    assert_eq!(picture.rgb().len(), width as usize * height as usize * 3);
    let small = resize(&picture, 1 + width / 3, 1 + height / 2, Filter::Lanczos, &job);
    assert!(small.is_ok_and(|small| small.width() == 1 + width / 3));
    let tower = Tower { patch: 14, merge: 2 };
    let preprocessor = Preprocessor::from_json("settings", SETTINGS, tower);
    let prepared = preprocessor.and_then(|it| {
        let plan = it.plan(width, height, Bounds::default(), "it")?;
        it.prepare(&picture, &plan, &job)
    });
    if let Ok(prepared) = prepared {
        assert!(prepared.pixels.iter().all(|value| value.is_finite()));
    }
    true
}
