//! How much of each machine is asked for, in windows of fifteen seconds. A run costs the same however long it is: whole
//! windows are entered as differences, and added up at the end.

use crate::workload::{Run, Shape, Workload};

/// A window.
pub const WINDOW_MS: u64 = 15_000;

/// What is asked for by row (a machine, or all of them) and window, in millionths of a core times milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    from_ms: u64,
    /// Whole windows that are measured.
    windows: usize,
    /// By row, then window: what lies in it alone, and what begins with it and goes on.
    cells: Vec<(i64, i64)>,
}

impl Demand {
    pub(crate) fn new(workload: &Workload, rows: usize) -> Demand {
        let windows = usize::try_from((workload.to_ms - workload.from_ms) / WINDOW_MS).expect("windows fit memory");
        Demand { from_ms: workload.from_ms, windows, cells: vec![(0, 0); rows * windows] }
    }

    pub(crate) fn add(&mut self, row: usize, run: &Run) {
        for (from, to, cores) in run.stretches() {
            self.add_stretch(row, (from, to), cores);
        }
    }

    fn add_stretch(&mut self, row: usize, (from, to): (u64, u64), cores: u64) {
        let end = self.windows as u64 * WINDOW_MS;
        let (from, to) = (from.saturating_sub(self.from_ms).min(end), to.saturating_sub(self.from_ms).min(end));
        if from >= to {
            return;
        }
        let row = &mut self.cells[row * self.windows..(row + 1) * self.windows];
        let cores = i64::try_from(cores).expect("a task has fewer than 2^43 cores");
        let signed = |ms: u64| i64::try_from(ms).expect("below the workload's length");
        let place = |window: u64| usize::try_from(window).expect("below the number of windows");
        let (first, last) = (from / WINDOW_MS, to / WINDOW_MS);
        if first == last {
            row[place(first)].0 += cores * signed(to - from);
            return;
        }
        row[place(first)].0 += cores * signed((first + 1) * WINDOW_MS - from);
        let whole = cores * signed(WINDOW_MS);
        if first + 1 < last {
            row[place(first + 1)].1 += whole;
        }
        if let Some(cell) = row.get_mut(place(last)) {
            cell.0 += cores * signed(to - last * WINDOW_MS);
            if first + 1 < last {
                cell.1 -= whole;
            }
        }
    }

    /// The windows of a row, in the mean of millionths of a core.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = f64> {
        let mut going_on = 0;
        self.cells[row * self.windows..(row + 1) * self.windows].iter().map(move |(alone, begins)| {
            going_on += begins;
            #[expect(clippy::cast_precision_loss, reason = "a share of a machine is told to a few digits")]
            let (demand, window) = ((alone + going_on) as f64, WINDOW_MS as f64);
            demand / window
        })
    }
}

/// How full machines were, as parts of what each has; above 1 if more was asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The 99th percentile of all windows of all machines.
    pub pooled: f64,
    /// The highest 99th percentile of a machine's own windows.
    pub worst: f64,
    /// The 99th percentile over time of the fullest machine of each window.
    pub hottest: f64,
}

/// How full machines were if each run ran on the machine that is given for it.
#[must_use]
pub fn load(workload: &Workload, shape: &Shape, nodes: u32, node_of: &[u32]) -> Load {
    let rows = by_node(workload, shape, nodes, node_of);
    let windows = rows.first().map_or(0, Vec::len);
    let mut hottest = vec![0.0; windows];
    let mut worst: f64 = 0.0;
    let mut pooled = Vec::with_capacity(rows.len() * windows);
    for mut row in rows {
        for (hot, part) in hottest.iter_mut().zip(&row) {
            *hot = f64::max(*hot, *part);
        }
        pooled.extend_from_slice(&row);
        worst = worst.max(quantile(&mut row, 0.99));
    }
    Load { pooled: quantile(&mut pooled, 0.99), worst, hottest: quantile(&mut hottest, 0.99) }
}

/// How full each machine was in each window.
#[must_use]
pub fn by_node(workload: &Workload, shape: &Shape, nodes: u32, node_of: &[u32]) -> Vec<Vec<f64>> {
    let mut demand = Demand::new(workload, nodes as usize);
    for (run, node) in workload.runs.iter().zip(node_of) {
        demand.add(*node as usize, run);
    }
    #[expect(clippy::cast_precision_loss, reason = "a machine's cores in millionths are exact")]
    let row = |node: u32| {
        let size = shape.size(node) as f64;
        demand.row(node as usize).map(|demand| demand / size).collect()
    };
    (0..nodes).map(row).collect()
}

/// The least value that so large a part of the values do not exceed; 0 of none.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among values that fit memory"
    )]
    let rank = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len());
    *values.select_nth_unstable_by(rank - 1, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each millisecond on its own, for runs that begin before and end after what is measured too.
        #[test]
        fn demand_is_what_counting_milliseconds_finds(
            runs in prop::collection::vec((0..90_000u64, 1..70_000u64, 0..5u64, 0..20_000u64), 0..6),
        ) {
            let runs: Vec<Run> = runs.into_iter().map(|(start_ms, duration_ms, cores, lag_ms)| {
                Run { job: 0, start_ms, duration_ms, cores: cores * 10, lag_ms: lag_ms.min(duration_ms) }
            }).collect();
            let workload = Workload::new("w", Vec::new(), runs, 20_000, 82_000);
            let mut demand = Demand::new(&workload, 2);
            let mut counted = [0_u64; 4];
            for run in &workload.runs {
                demand.add(1, run);
                for at in run.start_ms..run.end_ms() {
                    if (20_000..80_000).contains(&at) {
                        let is_warm = at >= run.start_ms + run.lag_ms;
                        counted[usize::try_from((at - 20_000) / WINDOW_MS).unwrap()] +=
                            if is_warm { run.cores } else { run.lag_cores() };
                    }
                }
            }
            let found: Vec<f64> = demand.row(1).collect();
            let counted: Vec<f64> = counted.iter().map(|sum| f64::from(u32::try_from(*sum).unwrap()) / 15_000.0).collect();
            prop_assert_eq!(found, counted);
            prop_assert!(demand.row(0).all(|value| value == 0.0));
        }
    }

    #[test]
    fn a_quantile_is_a_value_that_occurs() {
        let mut values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([quantile(&mut values, 0.99), quantile(&mut values, 0.5)], [99.0, 50.0]);
        assert_eq!([quantile(&mut [5.0], 0.99), quantile(&mut [], 0.99)], [5.0, 0.0]);
    }
}
