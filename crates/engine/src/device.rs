//! The names of devices that models run on: the CPU or a GPU. `placement` opens them.

use std::{fmt, str::FromStr};

/// Where a model runs.
///
/// ```
/// use pelton::Device;
///
/// assert_eq!("gpu:1".parse(), Ok(Device::Gpu(Some(1))));
/// assert_eq!("gpu,cpu".parse(), Ok(Device::GpuAndCpu(None)));
/// assert_eq!("gpu:0,gpu:1".parse::<Device>().unwrap().to_string(), "gpu:0,gpu:1");
/// assert!("tpu".parse::<Device>().is_err() && "gpu:1,gpu:0".parse::<Device>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// A hardware GPU if there is one, never a driver in software; else the CPU. A model that does
    /// not fit the GPU has the fewest of several GPUs that hold it, or the CPU for some layers.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first hardware GPU, or the one with this number in the list of `pelton devices`.
    Gpu(Option<usize>),
    /// Such a GPU, and the CPU for the layers of a model that do not fit it. [`Auto`](Self::Auto)
    /// is this where there is a GPU.
    GpuAndCpu(Option<usize>),
    /// Several GPUs, each with some of the layers.
    Gpus(Gpus),
}

/// Several GPUs, by their numbers in the list of `pelton devices`, and whether the CPU has the
/// layers that do not fit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// A bit for each number.
    bits: u64,
    pub(crate) cpu: bool,
}

impl Gpus {
    /// The numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |number| self.bits >> number & 1 == 1)
    }

    /// Parses at least two of `gpu:N` with commas, whose numbers ascend.
    fn parse(text: &str, cpu: bool) -> Option<Self> {
        let mut bits = 0_u64;
        for gpu in text.split(',') {
            let number: u32 = gpu.strip_prefix("gpu:")?.parse().ok()?;
            let bit = 1_u64.checked_shl(number).filter(|&bit| bit > bits)?;
            bits |= bit;
        }
        (bits.count_ones() > 1).then_some(Self { bits, cpu })
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || {
            format!(
                "'{text}' is no device, expected auto, cpu, gpu, gpu:N, or several with ascending \
                 numbers and commas: gpu:0,gpu:1 or gpu:N,cpu"
            )
        };
        let (gpus, cpu) = match text.strip_suffix(",cpu") {
            Some(gpus) => (gpus, true),
            None => (text, false),
        };
        if gpus.contains(',') {
            return Gpus::parse(gpus, cpu).map(Self::Gpus).ok_or_else(fail);
        }
        if cpu {
            return match gpus.parse().map_err(|_| fail())? {
                Self::Gpu(number) => Ok(Self::GpuAndCpu(number)),
                _ => Err(fail()),
            };
        }
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu(None)),
            _ => {
                let number = text.strip_prefix("gpu:").ok_or_else(fail)?;
                Ok(Self::Gpu(Some(number.parse().map_err(|_| fail())?)))
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(None) => f.write_str("gpu"),
            Self::Gpu(Some(number)) => write!(f, "gpu:{number}"),
            Self::GpuAndCpu(number) => write!(f, "{},cpu", Self::Gpu(*number)),
            Self::Gpus(gpus) => {
                let names: Vec<String> =
                    gpus.numbers().map(|number| format!("gpu:{number}")).collect();
                write!(f, "{}{}", names.join(","), if gpus.cpu { ",cpu" } else { "" })
            }
        }
    }
}

impl Device {
    /// The numbers of its GPUs, ascending; the first one if it does not say which.
    /// [`Auto`](Self::Auto) has the first.
    pub fn gpus(self) -> impl Iterator<Item = usize> {
        let bits = match self {
            Self::Cpu => 0,
            Self::Auto => 1,
            Self::Gpu(number) | Self::GpuAndCpu(number) => u32::try_from(number.unwrap_or(0))
                .ok()
                .and_then(|n| 1_u64.checked_shl(n))
                .unwrap_or(0),
            Self::Gpus(gpus) => gpus.bits,
        };
        Gpus { bits, cpu: false }.numbers()
    }

    /// The devices of `count` whole copies of a model: one for each GPU that is listed.
    /// [`Auto`](Self::Auto) and `gpu` are the first GPUs with hardware. Copies on the CPU share it.
    /// A single copy has the whole device.
    ///
    /// ```
    /// use pelton::Device;
    ///
    /// let listed: Device = "gpu:0,gpu:2".parse()?;
    /// assert_eq!(listed.replicas(2)?, [Device::Gpu(Some(0)), Device::Gpu(Some(2))]);
    /// assert_eq!(listed.replicas(1)?, [listed]);
    /// assert!(listed.replicas(3).is_err() && Device::Cpu.replicas(0).is_err());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the count is 0, or there are more or fewer GPUs than it. Also if the device has layers on
    /// both a GPU and the CPU.
    pub fn replicas(self, count: usize) -> Result<Vec<Self>, String> {
        self.replicas_of(count, hardware)
    }

    /// As [`replicas`](Self::replicas), with the numbers of the GPUs that `hardware` finds.
    fn replicas_of(
        self,
        count: usize,
        hardware: impl FnOnce() -> Vec<usize>,
    ) -> Result<Vec<Self>, String> {
        let gpus = match self {
            _ if count == 0 => return Err("0 replicas, expected at least 1".to_owned()),
            _ if count == 1 => return Ok(vec![self]),
            Self::Cpu => return Ok(vec![Self::Cpu; count]),
            Self::GpuAndCpu(_) | Self::Gpus(Gpus { cpu: true, .. }) => {
                return Err(format!(
                    "{count} replicas on {self}, expected GPUs alone: each has a whole model"
                ));
            }
            Self::Auto | Self::Gpu(None) => {
                let mut gpus = hardware();
                if gpus.len() < count {
                    return Err(format!(
                        "{count} replicas on {self}, expected at most {}, the number of GPUs with hardware; \
                         --device cpu runs replicas on the CPU",
                        gpus.len()
                    ));
                }
                gpus.truncate(count);
                gpus
            }
            Self::Gpu(Some(_)) | Self::Gpus(_) => self.gpus().collect(),
        };
        match gpus.len() == count {
            true => Ok(gpus.into_iter().map(|number| Self::Gpu(Some(number))).collect()),
            false => Err(format!("{count} replicas on {self}, expected a list of as many GPUs")),
        }
    }
}

/// The numbers of the GPUs that are no drivers in software.
#[cfg(feature = "gpu")]
fn hardware() -> Vec<usize> {
    let all = pelton_gpu::adapters().into_iter().enumerate();
    all.filter(|(_, gpu)| gpu.kind() != pelton_gpu::Kind::Software)
        .map(|(number, _)| number)
        .collect()
}

#[cfg(not(feature = "gpu"))]
fn hardware() -> Vec<usize> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_has_a_device() {
        let of = |device: &str, count: usize| {
            let device: Device = device.parse().unwrap();
            // the first one is a driver in software
            let devices = device.replicas_of(count, || vec![1, 2, 3])?;
            Ok::<_, String>(devices.iter().map(Device::to_string).collect::<Vec<_>>().join(" "))
        };
        let ok = |text: &str| Ok::<_, String>(text.to_owned());
        assert_eq!(of("auto", 2), ok("gpu:1 gpu:2"));
        assert_eq!(of("gpu", 3), ok("gpu:1 gpu:2 gpu:3"));
        assert_eq!(of("gpu:0,gpu:1", 2), ok("gpu:0 gpu:1"));
        assert_eq!(of("cpu", 3), ok("cpu cpu cpu"));
        for device in ["auto", "cpu", "gpu", "gpu:1", "gpu:0,cpu", "gpu:0,gpu:1", "gpu:0,gpu:1,cpu"]
        {
            assert_eq!(of(device, 1), ok(device));
            assert!(of(device, 0).unwrap_err().contains("at least 1"));
        }
        let refusal = |device: &str, count: usize| of(device, count).unwrap_err();
        assert!(refusal("auto", 4).contains("at most 3, the number of GPUs"));
        assert!(refusal("gpu:0,gpu:1", 3).contains("3 replicas on gpu:0,gpu:1"));
        for device in ["gpu:1", "gpu:0,gpu:1,gpu:2"] {
            assert!(refusal(device, 2).contains("expected a list of as many GPUs"));
        }
        for device in ["gpu:0,cpu", "gpu:0,gpu:1,cpu"] {
            assert!(refusal(device, 2).contains("GPUs alone"));
        }
    }
}
