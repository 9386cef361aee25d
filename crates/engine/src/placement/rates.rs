//! The measured rates of devices, which are kept in a file of the user's cache directory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use pelton_graph::{Backend, LinkRates, Plan, Rates, WeightKind};
use pelton_records::Records;
use serde_json::{Map, Value, json};

use crate::Error;

/// The key of the rates by format within an entry.
const FORMATS: &str = "formats";

/// The rates that are known, by the [keys](Backend::rates_key) of devices. An entry has the rates
/// of the device itself, and those of its passes over weights of a format.
pub(crate) struct KnownRates {
    records: Option<Records<Value>>,
    /// The entries that this process has measured.
    measured: Mutex<BTreeMap<String, Value>>,
}

impl KnownRates {
    /// Those that were kept, if any are to be.
    pub(crate) fn new(records: Option<Records<Value>>) -> Self {
        Self { records, measured: Mutex::default() }
    }

    /// Those of the user's cache directory.
    pub(crate) fn of_user() -> Self {
        Self::new(Records::of_user("rates.json"))
    }

    fn entry(&self, key: &str) -> Option<Value> {
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.get(key).cloned().or_else(|| self.records.as_ref()?.get(key))
    }

    /// Keeps an entry. A file that cannot be written is ignored: the next process measures again.
    fn keep(&self, key: String, entry: Value) {
        if let Some(records) = &self.records {
            let _ = records.update(&key, |kept| kept.clone_from(&entry));
        }
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.insert(key, entry);
    }

    /// The rates of a device, if they were measured.
    pub(crate) fn get(&self, device: &dyn Backend) -> Option<Rates> {
        parsed(&self.entry(&device.rates_key()?)?)
    }

    /// The rates of a device with the weights of a plan: those of passes over their format,
    /// or else of the device.
    pub(crate) fn of_plan(&self, device: &dyn Backend, plan: &Plan) -> Option<Rates> {
        let entry = self.entry(&device.rates_key()?)?;
        let of_format = format_of(plan).and_then(|format| parsed(&entry[FORMATS][format]));
        of_format.or_else(|| parsed(&entry))
    }

    /// Measures the rates of a device, and keeps them in place of all that were known of it.
    ///
    /// # Errors
    ///
    /// As [`Backend::measure_rates`].
    pub(crate) fn measure(&self, device: &dyn Backend) -> Result<(), Error> {
        let Some(key) = device.rates_key() else { return Ok(()) };
        let rates = device.measure_rates()?;
        tracing::info!(key, ?rates, "the rates of a device are measured");
        self.keep(key, entry_of(&rates));
        Ok(())
    }

    /// Keeps the rates of passes over the weights of a plan, if those of the device itself are
    /// known.
    pub(crate) fn keep_of_plan(&self, device: &dyn Backend, plan: &Plan, rates: &Rates) {
        let Some((key, format)) = device.rates_key().zip(format_of(plan)) else { return };
        tracing::info!(key, format, ?rates, "the rates of passes are measured");
        let Some(mut entry) = self.entry(&key).filter(|entry| parsed(entry).is_some()) else {
            return;
        };
        if !entry[FORMATS].is_object() {
            entry[FORMATS] = Value::Object(Map::new());
        }
        entry[FORMATS][format] = entry_of(rates);
        self.keep(key, entry);
    }
}

/// The format with the most bytes of a plan's matrices.
fn format_of(plan: &Plan) -> Option<&'static str> {
    let mut bytes: BTreeMap<&'static str, usize> = BTreeMap::new();
    for weight in plan.weights.iter().filter(|weight| weight.kind != WeightKind::Vector) {
        *bytes.entry(weight.dtype.name()).or_default() +=
            weight.dtype.bytes_of(weight.len()).unwrap_or(0);
    }
    bytes.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(format, _)| format)
}

/// The rates of an entry, unless one is no rate that a device can have.
fn parsed(entry: &Value) -> Option<Rates> {
    const SECONDS: f64 = 10.0;
    let number = |name: &str| entry[name].as_f64();
    // in a second
    let positive = |name: &str| number(name).filter(|value| (1e3..1e18).contains(value));
    let time = |name: &str| number(name).filter(|value| (0.0..SECONDS).contains(value));
    let link = match (entry.get("up"), entry.get("hop")) {
        (None, None) => None,
        _ => Some(LinkRates { up: positive("up")?, hop: time("hop")? }),
    };
    let [cache, few, multiply] = ["cache", "few", "multiply"].map(positive);
    Some(Rates { read: positive("read")?, cache, few, multiply, step: time("step")?, link })
}

/// The entry of rates.
fn entry_of(rates: &Rates) -> Value {
    let &Rates { read, cache, few, multiply, step, link } = rates;
    let mut entry = json!({ "read": read, "step": step });
    for (name, rate) in [("cache", cache), ("few", few), ("multiply", multiply)] {
        if let Some(rate) = rate {
            entry[name] = json!(rate);
        }
    }
    if let Some(LinkRates { up, hop }) = link {
        (entry["up"], entry["hop"]) = (json!(up), json!(hop));
    }
    entry
}

#[cfg(test)]
mod tests {
    use pelton_graph::{Error as GraphError, Executable, Limits, Needs, Op};
    use pelton_quant::DType;

    use super::*;

    /// A device of stated rates.
    struct Stated(&'static str, Rates);

    impl Backend for Stated {
        fn name(&self) -> &str {
            self.0
        }

        fn accepts(&self, _: &Op, _: &Plan) -> bool {
            false
        }

        fn needs(&self, _: &Plan, _: &Limits) -> Result<Needs, GraphError> {
            Ok(Needs::default())
        }

        fn rates_key(&self) -> Option<String> {
            (self.0 != "software").then(|| self.0.to_owned())
        }

        fn measure_rates(&self) -> Result<Rates, GraphError> {
            Ok(self.1)
        }

        fn load(
            &self,
            _: Plan,
            _: std::sync::Arc<pelton_weights::Checkpoint>,
            _: Limits,
            _: &mut dyn FnMut(u64, u64),
        ) -> Result<Box<dyn Executable>, GraphError> {
            Err(GraphError::Profile)
        }
    }

    #[test]
    fn rates_outlive_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::at(folder.path().join("rates.json"));
        let link = Some(LinkRates { up: 25.2e9, hop: 2.5e-4 });
        let gpu = Rates { step: 2.8e-6, multiply: Some(2e14), link, ..Rates::reading(3e12) };
        let cpu = Rates::reading(64.8e9);
        let devices = [Stated("gpu", gpu), Stated("cpu", cpu), Stated("software", gpu)];
        let first = KnownRates::new(Some(records.clone()));
        for device in &devices {
            assert_eq!(first.get(device), None);
            first.measure(device).unwrap();
        }
        for known in [first, KnownRates::new(Some(records.clone()))] {
            assert_eq!(known.get(&devices[0]), Some(gpu));
            assert_eq!(known.get(&devices[1]), Some(cpu));
            assert_eq!(known.get(&devices[2]), None, "a driver in software");
        }
        // no number is made up of an entry that no device can have
        for text in [
            r#"{"gpu": 1}"#,
            r#"{"gpu": {"read": 0, "step": 1}}"#,
            r#"{"gpu": {"read": 1e12, "step": 1, "up": 1e10}}"#,
            r#"{"gpu": {"read": 1e12, "step": 1e300}}"#,
            r#"{"gpu": {"read": 1e-300, "step": 1}}"#,
        ] {
            std::fs::write(records.file(), text).unwrap();
            assert_eq!(KnownRates::new(Some(records.clone())).get(&devices[0]), None, "{text}");
        }
        assert_eq!(KnownRates::new(None).get(&devices[0]), None);
    }

    /// Passes over weights of one format tell nothing of another, and a new measurement of the
    /// device forgets them.
    #[test]
    fn rates_of_a_format() {
        let plan = |dtype| {
            let spec = pelton_testing::ModelSpec::wide(dtype);
            pelton_graph::build(&spec.checkpoint()).unwrap()
        };
        let [q4, q8] = [DType::Q4_0, DType::Q8_0].map(plan);
        let folder = tempfile::tempdir().unwrap();
        let records = Records::at(folder.path().join("rates.json"));
        let of_device = Rates { step: 1e-6, ..Rates::reading(64.8e9) };
        let cpu = Stated("cpu", of_device);
        let of_passes = Rates {
            cache: Some(4e9),
            few: Some(2e11),
            multiply: Some(3e11),
            ..Rates { read: 5e10, ..of_device }
        };
        let known = KnownRates::new(Some(records.clone()));
        known.keep_of_plan(&cpu, &q4, &of_passes);
        assert_eq!(known.of_plan(&cpu, &q4), None, "the device is not known");
        known.measure(&cpu).unwrap();
        known.keep_of_plan(&cpu, &q4, &of_passes);
        for known in [&known, &KnownRates::new(Some(records.clone()))] {
            assert_eq!(known.of_plan(&cpu, &q4), Some(of_passes));
            assert_eq!(known.of_plan(&cpu, &q8), Some(of_device));
            assert_eq!(known.get(&cpu), Some(of_device));
        }
        known.measure(&cpu).unwrap();
        assert_eq!(known.of_plan(&cpu, &q4), Some(of_device));
    }
}
