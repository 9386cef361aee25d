//! The devices that models run on: the CPU or a GPU.

use std::{fmt, str::FromStr, sync::Arc};

use pelton_cpu::Cpu;
use pelton_graph::Backend;

use crate::{Error, model::placement::Devices};

/// Where a model runs.
///
/// ```
/// use pelton::Device;
///
/// assert_eq!("gpu:1".parse(), Ok(Device::Gpu(Some(1))));
/// assert_eq!("gpu,cpu".parse(), Ok(Device::GpuAndCpu(None)));
/// assert!("tpu".parse::<Device>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// A hardware GPU if there is one, never a driver in software; else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first hardware GPU, or the one with this number in the list of `pelton devices`.
    Gpu(Option<usize>),
    /// Such a GPU, and the CPU for the layers of a model that do not fit it. [`Auto`](Self::Auto) is this
    /// where there is a GPU.
    GpuAndCpu(Option<usize>),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || {
            format!("'{text}' is no device, expected auto, cpu, gpu, gpu:N, or gpu:N,cpu for both")
        };
        if let Some(gpu) = text.strip_suffix(",cpu") {
            return match gpu.parse().map_err(|_| fail())? {
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
        }
    }
}

impl Device {
    /// Opens the device, and says why [`Auto`](Self::Auto) is no GPU; `threads` are for the CPU, and
    /// whether it may repack weights.
    pub(crate) fn open(
        self,
        threads: usize,
        repack: bool,
    ) -> Result<(Devices, Option<String>), Error> {
        let cpu = || -> Arc<dyn Backend> {
            Arc::new(match repack {
                true => Cpu::new(threads),
                false => Cpu::new(threads).in_file_order(),
            })
        };
        match self {
            Self::Cpu => Ok((Devices::one(cpu()), None)),
            #[cfg(feature = "gpu")]
            Self::Gpu(number) | Self::GpuAndCpu(number) => {
                let main = Arc::new(pelton_gpu::Gpu::open(&pelton_gpu::choose(number)?)?);
                let spills = matches!(self, Self::GpuAndCpu(_));
                Ok((Devices { main, ram: Some(cpu()), spills }, None))
            }
            #[cfg(feature = "gpu")]
            Self::Auto => match pelton_gpu::choose(None) {
                Ok(adapter) => {
                    let main = Arc::new(pelton_gpu::Gpu::open(&adapter)?);
                    Ok((Devices { main, ram: Some(cpu()), spills: true }, None))
                }
                Err(error) => {
                    let reason = match error {
                        pelton_graph::Error::Device { what, .. } => what,
                        other => other.to_string(),
                    };
                    Ok((Devices::one(cpu()), Some(reason)))
                }
            },
            #[cfg(not(feature = "gpu"))]
            Self::Gpu(_) | Self::GpuAndCpu(_) => Err(Error::NoGpu),
            #[cfg(not(feature = "gpu"))]
            Self::Auto => {
                let reason = "this build has no GPU support".to_owned();
                Ok((Devices::one(cpu()), Some(reason)))
            }
        }
    }
}
