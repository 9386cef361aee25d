//! The lengths from which on prompts are streamed, and for which hosts they are kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use pelton_graph::HostExecutables;

use super::*;

/// A part of the host that counts its passes, and takes no time.
struct Counting(Arc<AtomicUsize>);

impl Executable for Counting {
    fn pipeline(&self) -> Pipeline {
        Pipeline {
            depth: 1,
            stages: 1,
            repeat: 1,
            phases_agree: true,
            exact_rows: usize::MAX,
            late_draws: false,
            streams: None,
        }
    }

    fn submit(&mut self, _: &Pass<'_>) -> Result<Ticket, Error> {
        Ok(Ticket(self.0.fetch_add(1, Ordering::Relaxed) as u64))
    }

    fn take(&mut self, _: Ticket) -> Result<Outputs<'_>, Error> {
        Ok(Outputs { logits: &[], samples: &[], hidden: &[], drafted: &[] })
    }

    fn copy_page(&mut self, _: usize, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }
}

/// A host with other threads takes another time, so its length is measured.
#[test]
fn lengths_are_kept_by_host() {
    let Some(device) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let choices = Choices::new(Records::at(folder.path().join("tuning.json")), &device);
    let spec = ModelSpec::default();
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = with_part_of_host(build(&checkpoint).unwrap().fuse(&all));
    let measured = |threads: Option<usize>, stream_from| {
        let matrices = SharedMatrices::default();
        let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
        let load = Load {
            device: Arc::clone(&device),
            plan: plan.clone(),
            limits: limits(&spec),
            available: None,
            choices: Some(&choices),
            persistent: Mode::Off,
        };
        let passes = Arc::new(AtomicUsize::new(0));
        let parts: Vec<Box<dyn Executable>> = vec![Box::new(Counting(Arc::clone(&passes)))];
        let rates_key = threads.map(|threads| format!("cpu, threads: {threads}"));
        let host = HostExecutables { parts, stream_from, rates_key };
        let executable = GpuExecutable::load(load, sources, &mut |_, _| {}).unwrap();
        let executable = executable.with_host(host, Some(&choices)).unwrap();
        assert!(executable.pipeline().streams.is_some());
        passes.load(Ordering::Relaxed) > 0
    };
    for (threads, expected) in
        [(Some(2), true), (Some(2), false), (Some(4), true), (Some(2), false), (None, true)]
    {
        assert_eq!(measured(threads, None), expected, "{threads:?}");
    }
    assert!(!measured(Some(8), Some(77)));
    assert_eq!(choices.all().len(), 2, "{:?}", choices.all());
}
