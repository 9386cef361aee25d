//! The table that explains a placement.

use std::{fmt, ops::Range};

use pelton_graph::{Limits, Needs, Op, Plan};

use crate::{
    host::{FeedForwards, HostShare},
    predict::Prediction,
};

/// The part of a model that each device has, and the memory that it takes there. It
/// displays as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// Positions of a sequence.
    pub context: usize,
    /// Sequences that run at the same time.
    pub sequences: usize,
    /// Rows of a pass.
    pub rows: usize,
    /// The devices, in the order in which a pass goes through them.
    pub devices: Vec<DeviceShare>,
    /// The tokens from which on a prompt streams weights from the memory of the CPU; `None` before
    /// the load, and where no weight is streamed.
    pub stream_from: Option<usize>,
    /// The predicted speed; `None` if rates of the devices are not known.
    pub prediction: Option<Prediction>,
}

/// The part of a model that a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceShare {
    /// The device's name.
    pub device: String,
    /// Its layers.
    pub layers: Range<usize>,
    /// Whether it has the embedding table.
    pub embedding: bool,
    /// Whether it has the output matrix.
    pub output: bool,
    /// The feed-forwards that it has of layers of a GPU, and the layers from the first one to the
    /// last one with such a feed-forward.
    pub feed_forwards: Option<(FeedForwards, Range<usize>)>,
    /// The memory that its part needs.
    pub needs: Needs,
    /// Bytes that it may take; `None` if that is not known.
    pub budget: Option<u64>,
}

impl Placement {
    /// The placement of a load with these limits.
    pub fn new(limits: &Limits, devices: Vec<DeviceShare>, prediction: Option<Prediction>) -> Self {
        let &Limits { context, sequences, rows, .. } = limits;
        Self { context, sequences, rows, devices, stream_from: None, prediction }
    }

    /// A key of the software's version, of the devices, of their layers and of the length from
    /// which on prompts stream weights. Where it differs, the same request can have another text.
    pub fn fingerprint(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        // FNV-1a
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let share = |share: &DeviceShare| match &share.feed_forwards {
            None => format!("{} {:?}\n", share.device, share.layers),
            Some(of) => format!("{} {:?} {of:?}\n", share.device, share.layers),
        };
        let stream = self.stream_from.map(|tokens| format!("stream from {tokens}\n"));
        let all: String = self.devices.iter().map(share).chain(stream).collect();
        let all = all.bytes().chain(version.bytes()).fold(0xcbf2_9ce4_8422_2325, hash);
        format!("pelton-{version}-{:08x}", all as u32 ^ (all >> 32) as u32)
    }
}

impl DeviceShare {
    /// The share of a device with a part of a model.
    pub fn new(device: &str, part: &Plan, needs: Needs, budget: Option<u64>) -> Self {
        let mut layers = part.steps.iter().filter_map(|step| step.layer);
        let first = layers.next().unwrap_or(0);
        let end = layers.next_back().map_or(first, |last| last + 1);
        let has_layers = part.steps.iter().any(|step| step.layer.is_some());
        Self {
            device: device.to_owned(),
            layers: first..if has_layers { end.max(first + 1) } else { first },
            embedding: part.steps.iter().any(|step| matches!(step.op, Op::Embed { .. })),
            output: part.has_results(),
            feed_forwards: None,
            needs,
            budget,
        }
    }

    /// The share of a CPU that has nothing but feed-forwards.
    pub fn of_host(device: &str, budget: Option<u64>) -> Self {
        Self {
            device: device.to_owned(),
            layers: 0..0,
            embedding: false,
            output: false,
            feed_forwards: None,
            needs: Needs::default(),
            budget,
        }
    }

    /// The same share with feed-forwards of layers of a GPU.
    #[must_use]
    pub fn with_host(self, HostShare { which, layers, needs }: HostShare) -> Self {
        Self { feed_forwards: Some((which, layers)), needs: self.needs.plus(&needs), ..self }
    }

    /// Its parts in words: `layers 0-15 and the embedding`.
    pub fn parts(&self) -> String {
        let layers = named(&self.layers);
        let embedding = self.embedding.then(|| "the embedding".to_owned());
        let output = self.output.then(|| "the output".to_owned());
        let of_host = |(which, layers): &(FeedForwards, Range<usize>)| {
            Some(format!("the {} of {}", which.name(), named(layers)?))
        };
        let host = self.feed_forwards.as_ref().and_then(of_host);
        let all: Vec<String> =
            layers.into_iter().chain(host).chain(embedding).chain(output).collect();
        match all.as_slice() {
            [before @ .., last] if before.len() > 1 => format!("{} and {last}", before.join(", ")),
            _ => all.join(" and "),
        }
    }
}

/// Layers in words: `layers 0-15`.
fn named(&Range { start, end }: &Range<usize>) -> Option<String> {
    match end - start {
        0 => None,
        1 => Some(format!("layer {start}")),
        _ => Some(format!("layers {start}-{}", end - 1)),
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context, sequences, rows, devices, stream_from, prediction } = self;
        let plural = if *sequences == 1 { "" } else { "s" };
        write!(f, "placement (context {context}, {sequences} sequence{plural}, rows {rows})")?;
        for share in devices {
            write!(f, "\n  {}: {}: ", share.device, share.parts())?;
            let mapped = ("weights in the file's map", share.needs.mapped);
            let terms = [mapped].into_iter().chain(share.needs.terms());
            let terms = terms.filter(|(_, bytes)| *bytes > 0);
            let terms = terms.map(|(name, bytes)| format!("{} of {name}", Size(bytes)));
            f.write_str(&terms.collect::<Vec<_>>().join(", "))?;
            if let Some(budget) = share.budget {
                write!(f, "; {} are free", Size(budget))?;
            }
        }
        if let Some(tokens) = stream_from {
            write!(f, "\n  prompts of {tokens} tokens and more stream weights to the GPU")?;
        }
        match prediction {
            Some(prediction) => write!(f, "\n  {prediction}"),
            None => Ok(()),
        }
    }
}

/// A number of bytes, which displays as `377 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.0 as f64 / f64::from(1 << 20);
        match self.0 >> 20 {
            0..10 => write!(f, "{mib:.1} MiB"),
            10..10_240 => write!(f, "{mib:.0} MiB"),
            _ => write!(f, "{:.1} GiB", mib / 1024.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use pelton_graph::build;
    use pelton_testing::ModelSpec;

    use super::*;
    use crate::cut;

    #[test]
    fn all_parts_are_named_once() {
        let plan = build(&ModelSpec { layers: 3, ..ModelSpec::default() }.checkpoint()).unwrap();
        let parts = |layers: &[usize]| {
            let shares = cut(&plan, layers).unwrap().into_iter();
            let words = shares.map(|part| DeviceShare::new("d", &part, Needs::default(), None));
            words.map(|share| share.parts()).collect::<Vec<_>>()
        };
        assert_eq!(parts(&[]), ["layers 0-2, the embedding and the output"]);
        assert_eq!(parts(&[0]), ["the embedding", "layers 0-2 and the output"]);
        assert_eq!(parts(&[1, 3]), ["layer 0 and the embedding", "layers 1-2", "the output"]);
        let needs = Needs { weights: 3 << 20, mapped: 20 << 30, ..Needs::default() };
        let share = DeviceShare::new("cpu", &plan, needs, Some(24 << 30));
        let mut placement = Placement {
            context: 4096,
            sequences: 1,
            rows: 512,
            devices: vec![share],
            stream_from: None,
            prediction: None,
        };
        assert_eq!(
            placement.to_string(),
            "placement (context 4096, 1 sequence, rows 512)\n  cpu: layers 0-2, the embedding and the \
             output: 20.0 GiB of weights in the file's map, 3.0 MiB of weights; 24.0 GiB are free"
        );
        let key = placement.fingerprint();
        placement.stream_from = Some(64);
        let line = "\n  prompts of 64 tokens and more stream weights to the GPU";
        assert!(placement.to_string().ends_with(line), "{placement}");
        assert_ne!(placement.fingerprint(), key);
    }
}
