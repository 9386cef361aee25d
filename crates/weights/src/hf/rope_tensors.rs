//! Tensors of rotary frequencies, which GGUF has in place of keys.

use pelton_quant::DType;

use super::config::Config;
use super::rope::{Rope, Scaling};
use crate::gguf::TensorEntry;
use crate::{Error, Problem};

/// Divisor of the angles that do not turn, of llama.cpp's converter.
const STILL: f32 = 1e30;

/// The tensors of a scaling; `head_dim` is the width of a head with full attention.
pub(super) fn tensors(
    config: &Config,
    rope: &Rope,
    head_dim: usize,
) -> Result<Vec<TensorEntry>, Error> {
    match &rope.scaling {
        Scaling::Llama3(llama3) => {
            let theta = rope.theta.unwrap_or(10_000.0);
            let divisors = llama3.divisors(theta, rope.dims(head_dim));
            Ok(vec![tensor(config, "rope_freqs.weight", &divisors)?])
        }
        Scaling::Long { long, short, .. } => {
            let pairs = rope.dims(head_dim) / 2;
            for (key, list) in [("long_factor", long), ("short_factor", short)] {
                if list.len() != pairs {
                    let found = format!("a list of {}", list.len());
                    let expected = format!("{pairs} numbers, half the rotated dimensions");
                    return Err(config.unsupported(key, found, &expected));
                }
            }
            Ok(vec![
                tensor(config, "rope_factors_long.weight", long)?,
                tensor(config, "rope_factors_short.weight", short)?,
            ])
        }
        Scaling::Proportional => {
            let turning = rope.dims(head_dim) / 2;
            let divisors: Vec<_> =
                (0..head_dim / 2).map(|pair| if pair < turning { 1.0 } else { STILL }).collect();
            Ok(vec![tensor(config, "rope_freqs.weight", &divisors)?])
        }
        Scaling::None | Scaling::Linear { .. } | Scaling::Yarn(_) => Ok(Vec::new()),
    }
}

fn tensor(config: &Config, name: &str, values: &[f32]) -> Result<TensorEntry, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    TensorEntry::new(name.to_owned(), DType::F32, &[values.len()], bytes.into()).ok_or_else(|| {
        config.all.error(Problem::ConfigValue {
            key: "head_dim".to_owned(),
            found: "too small for rotary embedding".to_owned(),
            expected: "at least 2 rotated dimensions".to_owned(),
        })
    })
}
