//! The division of an effort among groups of matrices.
//!
//! The divergence of a model is taken as the sum of those of its groups alone, which were measured
//! at some fractions. Then the best division reads less of the group whose divergence grows the
//! least for a byte, until the mean fraction is the effort. This greedy choice among the segments
//! of the groups' lower convex hulls is the optimum of that sum.

/// A group of matrices.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Its bytes.
    pub(crate) bytes: f64,
    /// Fractions below 1, descending, and the divergence at each, all other groups whole.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A segment of a hull.
#[derive(Clone, Copy)]
struct Segment {
    group: usize,
    /// Bytes that it saves.
    saved: f64,
    /// Divergence for each of them.
    slope: f64,
}

impl Group {
    /// The segments of the lower convex hull of divergence over saved bytes, from fraction 1 on.
    fn hull(&self, group: usize) -> Vec<Segment> {
        let mut hull = vec![(0.0, 0.0)];
        let mut greatest: f64 = 0.0;
        for &(fraction, divergence) in &self.points {
            // less is read for no less divergence; a lower one is noise
            greatest = greatest.max(divergence);
            let point = (self.bytes * (1.0 - fraction), greatest);
            while let [.., before, last] = hull.as_slice() {
                if slope(*before, *last) < slope(*last, point) {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        let segment = |ends: &[(f64, f64)]| Segment {
            group,
            saved: ends[1].0 - ends[0].0,
            slope: slope(ends[0], ends[1]),
        };
        hull.windows(2).map(segment).collect()
    }
}

fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0)
}

/// The fraction of each group whose mean, weighted by bytes, is `effort`, or the least that was
/// measured.
pub(crate) fn divide(groups: &[Group], effort: f64) -> Vec<f64> {
    let mut segments: Vec<Segment> =
        groups.iter().enumerate().flat_map(|(i, group)| group.hull(i)).collect();
    segments.sort_by(|a, b| a.slope.total_cmp(&b.slope));
    let bytes: f64 = groups.iter().map(|group| group.bytes).sum();
    let mut left = bytes * (1.0 - effort);
    let mut saved = vec![0.0; groups.len()];
    for segment in segments {
        let part = segment.saved.min(left);
        saved[segment.group] += part;
        left -= part;
    }
    groups.iter().zip(saved).map(|(group, saved)| 1.0 - saved / group.bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(groups: &[Group], fractions: &[f64]) -> f64 {
        let bytes: f64 = groups.iter().map(|group| group.bytes).sum();
        groups.iter().zip(fractions).map(|(g, f)| g.bytes * f).sum::<f64>() / bytes
    }

    /// The sum of the divergences, interpolated between the points.
    fn sum(groups: &[Group], fractions: &[f64]) -> f64 {
        let of = |(group, &fraction): (&Group, &f64)| {
            let mut before = (1.0, 0.0);
            for &(at, divergence) in &group.points {
                if fraction >= at {
                    let part = (before.0 - fraction) / (before.0 - at);
                    return before.1 + part * (divergence - before.1);
                }
                before = (at, divergence);
            }
            before.1
        };
        groups.iter().zip(fractions).map(of).sum()
    }

    #[test]
    fn the_best_division_of_all() {
        let curve = |bytes: f64, a: f64, power: i32| Group {
            bytes,
            points: (1..9)
                .map(|i| f64::from(i) / 10.0)
                .map(|saved| (1.0 - saved, a * saved.powi(power)))
                .collect(),
        };
        let groups = [curve(1.0, 0.2, 2), curve(3.0, 0.5, 3), curve(2.0, 1.0, 2)];
        for effort in [0.9, 0.75, 0.5, 0.3] {
            let found = divide(&groups, effort);
            assert!((mean(&groups, &found) - effort).abs() < 1e-12, "{effort}");
            let best = sum(&groups, &found);
            assert!(best < sum(&groups, &[effort; 3]), "{effort}");
            // no division on a grid is better
            for i in 20..=100 {
                for j in 20..=100 {
                    let [a, b] = [i, j].map(|i| f64::from(i) / 100.0);
                    let c = (effort * 6.0 - a - 3.0 * b) / 2.0;
                    if (0.2..=1.0).contains(&c) {
                        assert!(best <= sum(&groups, &[a, b, c]) + 1e-12, "{effort}: {a} {b} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn noise_and_limits() {
        let points = vec![(0.8, 0.01), (0.6, 0.005), (0.4, 0.5)];
        let groups = [Group { bytes: 1.0, points }];
        for effort in [0.9, 0.5] {
            assert!((divide(&groups, effort)[0] - effort).abs() < 1e-12);
        }
        // below what was measured
        assert!((divide(&groups, 0.1)[0] - 0.4).abs() < 1e-12);
    }
}
