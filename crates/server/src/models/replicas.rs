//! The replicas of a model of text: whole copies, each on a device of its own, or on its threads of
//! the CPU.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use pelton::{AsyncTokenStream, EffortUse, Error, GenerateOptions, Model, Status, Token};

use super::Encoded;
use super::balance::{self, Balance, Place, Prefix, Set};

/// The replicas of a model, of which a single one is the usual case. Clones are handles of the
/// same.
#[derive(Clone)]
pub(crate) struct Replicas {
    models: Vec<Model>,
    balance: Arc<Balance>,
}

/// The facts about one replica at a moment.
pub(crate) struct Replica<'a> {
    pub(crate) model: &'a Model,
    /// Its requests, those that wait included.
    pub(crate) requests: usize,
    /// Why it answers no more, if it was given up.
    pub(crate) gone: Option<Error>,
}

/// A text that a replica generates. If that is given up before the first token, another one begins
/// anew.
pub(crate) struct Run {
    replicas: Replicas,
    stream: AsyncTokenStream,
    place: Place,
    /// The prompt and the options, until the first token.
    again: Option<(Encoded, GenerateOptions)>,
}

impl Replicas {
    /// Replicas of one model.
    ///
    /// # Errors
    ///
    /// If they would not give the same text for the same request.
    pub(crate) fn new(models: Vec<Model>) -> Result<Self, String> {
        let key = |model: &Model| model.placement().fingerprint();
        let [first, others @ ..] = models.as_slice() else {
            return Err("0 replicas, expected at least 1".to_owned());
        };
        if let Some(i) = others.iter().position(|other| key(other) != key(first)) {
            return Err(format!(
                "its replica 0 is on {}, and replica {} on {}, expected equal devices: a text must not \
                 depend on the replica",
                first.summary().device,
                i + 1,
                others[i].summary().device
            ));
        }
        let pays = |model: &Model| matches!(model.effort_use(), Some(EffortUse::Runs { .. }));
        if models.iter().any(pays) && !models.iter().all(pays) {
            tracing::warn!("efforts below 1 are faster on some replicas only, and run there only");
        }
        let balance = Arc::new(Balance::new(models.len()));
        Ok(Self { models, balance })
    }

    /// The first one that answers, for all that is the same of each.
    pub(crate) fn first(&self) -> &Model {
        self.models.iter().find(|model| model.check().is_ok()).unwrap_or(&self.models[0])
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Replica<'_>> {
        self.models.iter().enumerate().map(|(i, model)| Replica {
            model,
            requests: self.balance.requests(i),
            gone: model.check().err(),
        })
    }

    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.models.len()
    }

    /// The load of all together.
    pub(crate) fn status(&self) -> Status {
        self.models.iter().map(Model::status).sum()
    }

    /// Submits a request for a text at the replica that probably has the longest part of its
    /// prompt.
    ///
    /// # Errors
    ///
    /// As [`Model::stream`].
    pub(crate) fn stream(&self, prompt: &Encoded, options: &GenerateOptions) -> Result<Run, Error> {
        let (stream, place) = self.submit_text(prompt, options)?;
        // a constraint takes long to compile, and a task that waits for tokens must not do that
        let moves = self.count() > 1 && options.constraint.is_none();
        let again = moves.then(|| (prompt.clone(), options.clone()));
        Ok(Run { replicas: self.clone(), stream, place, again })
    }

    fn submit_text(
        &self,
        prompt: &Encoded,
        options: &GenerateOptions,
    ) -> Result<(AsyncTokenStream, Place), Error> {
        let loras = options.loras.as_ref().map(|loras| {
            loras.iter().map(|lora| (lora.name.as_str(), lora.scale.to_bits())).collect::<Vec<_>>()
        });
        let prefix = self.balance.prefix((options.cache_salt, loras), &prompt.tokens);
        self.submit_at(&prefix, |model, place| {
            Ok((model.stream(prompt.prompt(), options.clone())?, place))
        })
    }

    /// Submits a request at the replica with the fewest. It counts there until its place is
    /// dropped.
    ///
    /// # Errors
    ///
    /// As `submit`.
    pub(crate) fn submit<T>(
        &self,
        submit: impl FnMut(&Model, Place) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.submit_at(&Prefix::default(), submit)
    }

    /// Submits a request at one replica after the other until one takes it.
    fn submit_at<T>(
        &self,
        prefix: &Prefix,
        mut submit: impl FnMut(&Model, Place) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut untried: Set = balance::first(self.models.len());
        let mut refused = Error::Stopped;
        for (replica, model) in self.models.iter().enumerate() {
            if let Err(error) = model.check() {
                untried &= !balance::of(replica);
                refused = error;
            }
        }
        while let Some(place) = self.balance.place(prefix, untried) {
            let replica = place.replica();
            match submit(&self.models[replica], place) {
                // another one may have room, or be there still
                Err(error @ (Error::Busy { .. } | Error::Gone(_))) => {
                    untried &= !balance::of(replica);
                    refused = error;
                }
                outcome => return outcome,
            }
        }
        Err(refused)
    }
}

impl Run {
    /// The next token.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Token, Error>>> {
        loop {
            let item = ready!(Pin::new(&mut self.stream).poll_next(context));
            let again = self.again.take();
            let Some((prompt, options)) =
                again.filter(|_| matches!(item, Some(Err(Error::Gone(_)))))
            else {
                if let Some(Ok(token)) = &item {
                    self.place.push(token.id);
                }
                return Poll::Ready(item);
            };
            match self.replicas.submit_text(&prompt, &options) {
                Ok((stream, place)) => (self.stream, self.place) = (stream, place),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            self.again = Some((prompt, options));
        }
    }

    /// The text so far, by its sizes and times.
    pub(crate) fn stream(&self) -> &AsyncTokenStream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use pelton::{Device, Engine, LoadOptions, ModelSource};
    use pelton_testing::fake::{self, Failure, Fake};

    use super::*;

    fn model(fake: &Fake, options: &LoadOptions) -> Model {
        let (plan, checkpoint) = fake::plan(50, 1000, &[None]);
        Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, options).unwrap()
    }

    fn replicas(fakes: &[Fake], options: &LoadOptions) -> Replicas {
        Replicas::new(fakes.iter().map(|fake| model(fake, options)).collect()).unwrap()
    }

    fn prompt(seed: u32) -> Vec<u32> {
        (0..200).map(|i| (i * i + i * seed) % 50).collect()
    }

    fn start(replicas: &Replicas, prompt: &[u32]) -> Result<Run, Error> {
        replicas.stream(&prompt.to_vec().into(), &GenerateOptions::default().max_tokens(20))
    }

    /// The replica that answers, or the error.
    fn run(replicas: &Replicas, prompt: &[u32]) -> Result<usize, Error> {
        end(start(replicas, prompt)?)
    }

    fn end(mut run: Run) -> Result<usize, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut count = 0;
            while let Some(token) = poll_fn(|context| run.poll_next(context)).await {
                token?;
                count += 1;
            }
            assert_eq!(count, 20);
            Ok(run.place.replica())
        })
    }

    #[test]
    fn requests_that_wait_move_to_another_one() {
        let fakes = [Fake::default(), Fake::default()];
        let replicas = replicas(&fakes, &LoadOptions::default());
        (0..3).for_each(|i| fakes[0].fail_after(i, Failure::Take));
        let runs: Vec<_> = (0..5).map(|_| start(&replicas, &prompt(1)).unwrap()).collect();
        let ends: Vec<_> = runs.into_iter().map(end).collect();
        assert!(
            ends[..3].iter().all(|end| matches!(end, Err(Error::Graph(_) | Error::Pass(_)))),
            "{ends:?}"
        );
        assert!(ends[3..].iter().all(|end| matches!(end, Ok(1))), "{ends:?}");
        // all fail, and none is left
        (0..3).for_each(|i| fakes[1].fail_after(i, Failure::Take));
        let runs: Vec<_> = (0..5).map(|_| start(&replicas, &prompt(1))).collect();
        let ends: Vec<_> = runs.into_iter().map(|run| run.and_then(end)).collect();
        assert!(ends[3..].iter().all(|end| matches!(end, Err(Error::Gone(_)))), "{ends:?}");
    }

    #[test]
    fn others_answer_for_one_that_is_given_up() {
        let fakes = [Fake::default(), Fake::default()];
        let replicas = replicas(&fakes, &LoadOptions::default());
        assert!(matches!(run(&replicas, &prompt(1)), Ok(0)));
        assert!(replicas.all().all(|replica| replica.gone.is_none() && replica.requests == 0));
        (0..3).for_each(|i| fakes[0].fail_after(i, Failure::Take));
        // prompts whose pages the first one has
        let failed = (0..3).filter(|_| run(&replicas, &prompt(1)).is_err()).count();
        assert_eq!(failed, 3);
        while replicas.all().all(|replica| replica.gone.is_none()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for seed in 1..4 {
            assert!(matches!(run(&replicas, &prompt(seed)), Ok(1)));
        }
        let gone: Vec<bool> = replicas.all().map(|replica| replica.gone.is_some()).collect();
        assert_eq!(gone, [true, false]);
        assert!(replicas.first().check().is_ok());
        // the counts of both, which come after the answers
        while replicas.status().ended < 7 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(replicas.status().failed_passes, 3);
        (0..3).for_each(|i| fakes[1].fail_after(i, Failure::Take));
        while !matches!(run(&replicas, &prompt(1)), Err(Error::Gone(_))) {}
        assert!(replicas.all().all(|replica| replica.gone.is_some()));
        assert!(replicas.first().check().is_err());
    }

    #[test]
    fn others_take_what_a_full_queue_refuses() {
        let fakes = [(); 2].map(|()| Fake::default().slow_passes(Duration::from_millis(20)));
        let replicas = replicas(&fakes, &LoadOptions::default().queue_requests(1));
        let waits = |running| {
            while replicas.status().running < running {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let first = start(&replicas, &prompt(1)).unwrap();
        waits(1);
        let second = start(&replicas, &prompt(1)).unwrap();
        let third = start(&replicas, &prompt(1)).unwrap();
        assert_eq!([&first, &second, &third].map(|run| run.place.replica()), [0, 0, 1]);
        waits(2);
        let fourth = start(&replicas, &prompt(1)).unwrap();
        assert_eq!(fourth.place.replica(), 1);
        assert!(matches!(start(&replicas, &prompt(1)), Err(Error::Busy { .. })));
        let requests: Vec<usize> = replicas.all().map(|replica| replica.requests).collect();
        assert_eq!(requests, [2, 2]);
        drop((first, second, third, fourth));
        assert!(replicas.all().all(|replica| replica.requests == 0));
    }

    #[test]
    fn requests_without_prefixes_go_where_the_fewest_are() {
        let fakes = [Fake::default(), Fake::default()];
        let replicas = replicas(&fakes, &LoadOptions::default());
        let places: Vec<Place> =
            (0..3).map(|_| replicas.submit(|_, place| Ok(place)).unwrap()).collect();
        assert_eq!(places.iter().map(Place::replica).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn replicas_on_unlike_devices_are_refused() {
        let options = LoadOptions::default().context(64);
        let engine = Engine::builder().device(Device::Cpu).threads(1).build().unwrap();
        let other = engine.load(ModelSource::BuiltIn, &options).unwrap();
        let models = vec![model(&Fake::default(), &options), other];
        let refusal = Replicas::new(models).err().unwrap();
        assert!(
            refusal.contains("replica 1 on cpu, 1 thread, expected equal devices"),
            "{refusal}"
        );
    }
}
