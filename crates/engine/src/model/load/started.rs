//! The caches of a resident plan, and the thread that runs its passes.

use std::sync::{Arc, OnceLock, mpsc};

use super::{
    super::{Loaded, Model, decode::Decoding, loras::Loras},
    resident::Resident,
};
use crate::{
    Error,
    api::{LoadOptions, Speculation},
    kv::{self, PageCache},
    schedule::{QueueBound, Resources, Scheduler, Shared, Targets, Worker},
};

impl Resident {
    /// The model, whose thread runs.
    pub(super) fn start(self, options: &LoadOptions) -> Result<Model, Error> {
        let Self { checkpoint, plan, limits, runner, tokenizer, rolls_back, .. } = self;
        let files = runner.files().clone();
        let snapshots = (!plan.states.is_empty()).then_some(limits.snapshots);
        let kv_bytes = kv::bytes(&plan, &limits);
        let kv =
            PageCache::new(&plan.groups, &limits.pages, snapshots, runner.pipeline.phases_agree)
                .reporting_to(options.cache_events.clone());
        let bound = Arc::new(QueueBound::new(options.queue_requests, options.queue_tokens));
        let shared = Arc::new(Shared::new(Arc::clone(&bound)));
        let loras = Loras::new(options, &plan)?;
        let (vision, eyes) = self.sight.unzip();
        let resources = Resources {
            runner,
            kv,
            limits: limits.clone(),
            plan: plan.clone(),
            loras: loras.defaults.clone(),
            reads_places: plan.has_places(),
            eyes,
        };
        let targets = Targets {
            first: options.target_ttft,
            between: options.target_tbt,
            prefill: options.prefill_budget,
        };
        let scheduler = Scheduler::new(resources, tokenizer.clone(), targets, bound, self.drafter);
        let (requests, receiver) = mpsc::channel();
        let worker = Arc::new(Worker::spawn(scheduler, receiver, Arc::clone(&shared))?);
        let loaded = Arc::new(Loaded {
            checkpoint,
            plan,
            limits,
            tokenizer,
            chat_template: OnceLock::new(),
            weight_bytes: self.weight_bytes,
            kv_bytes,
            pooling: self.pooling,
            speculation: if rolls_back { options.speculation } else { Speculation::Off },
            rolls_back,
            efforts: self.efforts,
            decoding: Decoding::default(),
            loras,
            placement: self.placement,
            vision,
            files,
        });
        Ok(Model { requests, loaded, shared, device: self.device, worker })
    }
}
