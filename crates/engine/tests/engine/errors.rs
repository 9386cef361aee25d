//! Kinds and sources of errors.

use std::{error::Error as _, fs, io};

use pelton::{EffortOptions, Engine, ErrorKind, GenerateOptions, LoadOptions, ModelSource};
use pelton_cpu::Cpu;

#[test]
fn kinds_and_sources_of_loads_and_requests() {
    let engine = Engine::with_backend(Cpu::new(1));
    let kind = |path: &str, options: &LoadOptions| engine.load(path, options).err().unwrap();
    let error = kind("/no/such/model.gguf", &LoadOptions::default());
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.gguf");
    fs::write(&file, b"GGUF\x03\x00").unwrap();
    let error = kind(file.to_str().unwrap(), &LoadOptions::default());
    assert_eq!(error.kind(), ErrorKind::InvalidModel);

    let load = |options: &LoadOptions| engine.load(ModelSource::BuiltIn, options);
    let refused = |options: LoadOptions| load(&options).err().unwrap().kind();
    assert_eq!(refused(LoadOptions::default().max_concurrent(0)), ErrorKind::InvalidInput);
    let ranks = EffortOptions::default().ranks(3);
    assert_eq!(refused(LoadOptions::default().effort(ranks)), ErrorKind::InvalidInput);

    let model = load(&LoadOptions::default().context(64)).unwrap();
    let refused = |prompt: &str, options: GenerateOptions| {
        model.generate(prompt, options).unwrap_err().kind()
    };
    let options = GenerateOptions::default;
    assert_eq!(refused(&"a b c ".repeat(100), options()), ErrorKind::TooLong);
    assert_eq!(refused("a", options().logprobs(1000)), ErrorKind::InvalidInput);
    assert_eq!(refused("a", options().effort(0.5)), ErrorKind::InvalidInput);
    assert_eq!(model.pooling().unwrap_err().kind(), ErrorKind::Unsupported);
}

/// An error of `main` is a sentence with its causes, each of them once.
#[test]
fn a_report_is_a_sentence() {
    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the file could not be read")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    let cause = || std::io::Error::other("the disk is gone");
    let report = pelton::Report::from(Outer(cause()));
    assert_eq!(format!("{report:?}"), "the file could not be read: the disk is gone");
    let report = pelton::Report::from(pelton::Error::Spawn(cause()));
    let text = format!("{report:?}");
    assert_eq!(text, "the thread that runs the model could not be started: the disk is gone");
}
