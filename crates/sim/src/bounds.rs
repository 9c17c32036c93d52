//! How few machines any strategy could do with: by the work, by the demand of each window if it could be poured, and by
//! packing tasks that cannot be cut.

use serde::Serialize;

use crate::cpu::{Demand, WINDOW_MS, quantile};
use crate::workload::{Run, Shape, Workload};

/// Machines that are needed at least, as fractions of machines.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Bounds {
    /// The mean demand over what may be used of a machine.
    pub work: f64,
    /// The 99th percentile of the demand over what may be used of a machine.
    pub fluid: f64,
    /// The 99th percentile over windows of the machines that their tasks need, none of them cut; nothing if machines
    /// differ.
    pub pack: Option<f64>,
}

/// The bounds of a workload, if so large a part of a machine may be used.
#[must_use]
pub fn bounds(workload: &Workload, shape: &Shape, target: f64) -> Bounds {
    let mut demand = Demand::new(workload, 1);
    for run in &workload.runs {
        demand.add(0, run);
    }
    let mut windows: Vec<f64> = demand.row(0).collect();
    if windows.is_empty() {
        return Bounds::default();
    }
    let usable = shape.mean_size() * target;
    #[expect(clippy::cast_precision_loss, reason = "a mean over windows that fit memory")]
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    let is_even = shape.cores.iter().all(|cores| *cores == shape.cores[0]);
    let pack = is_even.then(|| {
        let mut machines: Vec<f64> =
            sizes(workload, windows.len()).iter_mut().map(|sizes| f64::from(packed(sizes, usable))).collect();
        quantile(&mut machines, 0.99)
    });
    Bounds { work: mean / usable, fluid: quantile(&mut windows, 0.99) / usable, pack }
}

/// What each task asks for in each window, in the mean of millionths of a core.
fn sizes(workload: &Workload, windows: usize) -> Vec<Vec<f64>> {
    let mut sizes = vec![Vec::new(); windows];
    for run in &workload.runs {
        let last = run.end_ms().saturating_sub(workload.from_ms).div_ceil(WINDOW_MS).min(windows as u64);
        for window in run.start_ms.saturating_sub(workload.from_ms) / WINDOW_MS..last {
            let from = workload.from_ms + window * WINDOW_MS;
            let size = within(run, from, from + WINDOW_MS);
            if size > 0.0 {
                sizes[usize::try_from(window).expect("below their number")].push(size);
            }
        }
    }
    sizes
}

#[expect(clippy::cast_precision_loss, reason = "a window's demand is far below 2^53")]
fn within(run: &Run, from: u64, to: u64) -> f64 {
    let work = |(begins, ends, cores): (u64, u64, u64)| ends.min(to).saturating_sub(begins.max(from)) * cores;
    run.stretches().into_iter().map(work).sum::<u64>() as f64 / (to - from) as f64
}

/// The bound L2 of bin packing (S. Martello, P. Toth, Lower Bounds and Reduction Procedures for the Bin Packing Problem,
/// 1990): what is larger than half a bin has a bin of its own, and what is at least of some size goes only where so much
/// is left. What is larger than a bin counts as one.
fn packed(sizes: &mut [f64], bin: f64) -> u32 {
    sizes.sort_by(|a, b| b.total_cmp(a));
    let mut sums = Vec::with_capacity(sizes.len() + 1);
    sums.push(0.0);
    for size in sizes.iter() {
        sums.push(sums[sums.len() - 1] + size);
    }
    let larger_than = |bound: f64| sizes.partition_point(|size| *size > bound);
    let halves = larger_than(bin / 2.0);
    let count = |places: usize| u32::try_from(places).expect("tasks of a window are fewer than 2^32");
    let mut most = count(halves);
    let mut end = halves;
    while end <= sizes.len() {
        // Sizes down to the last before `end` take part; at first only those above a half.
        let least = if end > halves { sizes[end - 1] } else { bin / 2.0 };
        let full = larger_than(bin - least).min(halves);
        let room = bin * f64::from(count(halves - full)) - (sums[halves] - sums[full]);
        let over = ((sums[end] - sums[halves] - room) / bin - 1e-9).ceil().max(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of tasks")]
        let over = over as u32;
        most = most.max(count(halves) + over);
        end += 1;
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(sizes: &[f64], expected: u32) {
        assert_eq!(packed(&mut sizes.to_vec(), 10.0), expected, "{sizes:?}");
    }

    #[test]
    fn what_cannot_be_cut_needs_more_than_its_sum() {
        check(&[], 0);
        check(&[6.0, 6.0, 6.0], 3);
        check(&[6.0, 6.0, 4.0, 4.0], 2);
        // Sum 20.5, but no two of them share a bin, and 5 fits beside none.
        check(&[7.5, 8.0, 5.0], 3);
        check(&[6.0, 6.0, 5.0, 5.0], 3);
        check(&[25.0], 1);
        check(&[5.0; 4], 2);
    }

    /// The fewest bins, by trying all.
    fn fewest(sizes: &[f64], bins: &mut Vec<f64>) -> usize {
        let Some((size, rest)) = sizes.split_first() else { return bins.len() };
        let mut best = usize::MAX;
        for at in 0..bins.len() {
            if bins[at] + size <= 10.0 {
                bins[at] += size;
                best = best.min(fewest(rest, bins));
                bins[at] -= size;
            }
        }
        bins.push(*size);
        best = best.min(fewest(rest, bins));
        bins.pop();
        best
    }

    proptest! {
        #[test]
        fn no_packing_is_below_the_bound(sizes in prop::collection::vec(1..=10u32, 0..8)) {
            let mut sizes: Vec<f64> = sizes.into_iter().map(f64::from).collect();
            let best = fewest(&sizes, &mut Vec::new());
            let bound = packed(&mut sizes, 10.0) as usize;
            let fluid = sizes.iter().sum::<f64>() / 10.0;
            prop_assert!(bound <= best && fluid <= f64::from(u32::try_from(bound).unwrap()) + 1e-6, "{bound} {best}");
        }
    }
}
