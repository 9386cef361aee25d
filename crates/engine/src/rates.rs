//! The measured rates of devices, which are kept in a file of the user's cache directory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use pelton_graph::{Backend, LinkRates, Rates};
use pelton_records::Records;
use serde_json::{Value, json};

use crate::Error;

/// The rates that are known, by the [keys](Backend::rates_key) of devices.
pub(crate) struct KnownRates {
    records: Option<Records<Value>>,
    /// Those that this process has measured.
    measured: Mutex<BTreeMap<String, Rates>>,
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

    /// The rates of a device, if they were measured.
    pub(crate) fn get(&self, device: &dyn Backend) -> Option<Rates> {
        let key = device.rates_key()?;
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = || parsed(&self.records.as_ref()?.get(&key)?);
        measured.get(&key).copied().or_else(kept)
    }

    /// Measures the rates of a device, and keeps them. A file that cannot be written is ignored: the next process measures
    /// again.
    ///
    /// # Errors
    ///
    /// As [`Backend::measure_rates`].
    pub(crate) fn measure(&self, device: &dyn Backend) -> Result<(), Error> {
        let Some(key) = device.rates_key() else { return Ok(()) };
        let rates = device.measure_rates()?;
        tracing::info!(key, ?rates, "the rates of a device are measured");
        if let Some(records) = &self.records {
            let _ = records.update(&key, |entry| *entry = entry_of(&rates));
        }
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.insert(key, rates);
        Ok(())
    }
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
    let (read, step) = (positive("read")?, time("step")?);
    Some(Rates { read, step, multiply: positive("multiply"), link })
}

/// The entry of rates.
fn entry_of(rates: &Rates) -> Value {
    let &Rates { read, step, multiply, link } = rates;
    let mut entry = json!({ "read": read, "step": step });
    if let Some(multiply) = multiply {
        entry["multiply"] = json!(multiply);
    }
    if let Some(LinkRates { up, hop }) = link {
        (entry["up"], entry["hop"]) = (json!(up), json!(hop));
    }
    entry
}

#[cfg(test)]
mod tests {
    use pelton_graph::{Error as GraphError, Executable, Limits, Needs, Op, Plan};

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
        let gpu = Rates { read: 3e12, step: 2.8e-6, multiply: Some(2e14), link };
        let cpu = Rates { read: 64.8e9, step: 0.0, multiply: None, link: None };
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
}
