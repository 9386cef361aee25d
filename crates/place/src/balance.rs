//! The layers of several devices that take about as long.

/// The cuts of a sequence of costs into one range for each device, none of them empty: the first
/// cost of each device after the first. The greatest time of a device, its costs over its speed, is
/// as small as possible. `None` if there are fewer costs than devices.
pub fn balance(costs: &[f64], speeds: &[f64]) -> Option<Vec<usize>> {
    let (count, devices) = (costs.len(), speeds.len());
    if devices == 0 || count < devices {
        return None;
    }
    let mut sums = vec![0.0];
    for cost in costs {
        sums.push(sums[sums.len() - 1] + cost);
    }
    // for each number of costs: the least greatest time on the devices so far, and the first
    // cost of the last of them
    let mut best: Vec<Vec<(f64, usize)>> =
        vec![sums.iter().map(|sum| (sum / speeds[0], 0)).collect()];
    for (device, speed) in speeds.iter().enumerate().skip(1) {
        let before = &best[device - 1];
        let of = |end: usize| {
            let begins = (device..end).map(|begin| {
                let time = (sums[end] - sums[begin]) / speed;
                (time.max(before[begin].0), begin)
            });
            begins.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
        };
        best.push((0..=count).map(of).collect());
    }
    let mut cuts = Vec::with_capacity(devices - 1);
    let mut end = count;
    for device in (1..devices).rev() {
        end = best[device][end].1;
        cuts.push(end);
    }
    cuts.reverse();
    Some(cuts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn greatest(costs: &[f64], speeds: &[f64], cuts: &[usize]) -> f64 {
        let ends = cuts.iter().copied().chain([costs.len()]);
        let begins = [0].into_iter().chain(cuts.iter().copied());
        let times = begins.zip(ends).zip(speeds);
        times.map(|((b, e), speed)| costs[b..e].iter().sum::<f64>() / speed).fold(0.0, f64::max)
    }

    /// All ascending cuts of `count` costs into ranges that are not empty.
    fn all(count: usize, cuts: usize) -> Vec<Vec<usize>> {
        match cuts {
            0 => vec![Vec::new()],
            _ => {
                let shorter = all(count, cuts - 1);
                let longer = |cuts: &Vec<usize>| {
                    let from = cuts.last().map_or(1, |last| last + 1);
                    let cuts = cuts.clone();
                    (from..count).map(move |next| [&cuts[..], &[next]].concat())
                };
                shorter.iter().flat_map(longer).collect()
            }
        }
    }

    proptest! {
        #[test]
        fn no_cuts_are_better(
            costs in proptest::collection::vec(0.0..10.0, 1..9),
            speeds in proptest::collection::vec(0.5..4.0, 1..5),
        ) {
            let found = balance(&costs, &speeds);
            let least = all(costs.len(), speeds.len() - 1)
                .iter()
                .map(|cuts| greatest(&costs, &speeds, cuts))
                .fold(f64::INFINITY, f64::min);
            match found {
                None => prop_assert!(costs.len() < speeds.len()),
                Some(cuts) => {
                    prop_assert_eq!(cuts.len() + 1, speeds.len());
                    prop_assert!(greatest(&costs, &speeds, &cuts) <= least + 1e-9);
                }
            }
        }
    }
}
