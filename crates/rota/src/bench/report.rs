//! What a measurement found, for people and as JSON.

use std::time::Duration;

use serde::Serialize;

use super::audit::Audit;
use super::process::Usage;
use super::record::Figures;
use crate::cli::table::grouped;

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) jobs: u64,
    pub(super) workers: u32,
    pub(super) seconds: u32,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Whether every slot must have been started by the end; not if some workers keep no record.
    pub(super) is_whole: bool,
    pub(super) cpu_us_per_run: f64,
    pub(super) written_bytes_per_run: u64,
    pub(super) rss_bytes: u64,
    pub(super) rss_max_bytes: u64,
    pub(super) start_ms: u64,
    /// What the ledger says of the same slots; nothing if it was not compared.
    pub(super) audit: Option<Audit>,
}

impl Report {
    /// Fills in what the kernel counted between two looks.
    pub(super) fn used(&mut self, before: Usage, after: Usage) {
        let runs = self.figures.started.max(1);
        let cpu = after.cpu.saturating_sub(before.cpu);
        self.cpu_us_per_run = (cpu.as_micros() as f64 / runs as f64 * 10.0).round() / 10.0;
        self.written_bytes_per_run = after.written_bytes.saturating_sub(before.written_bytes) / runs;
        (self.rss_bytes, self.rss_max_bytes) = (after.rss_bytes, after.rss_max_bytes);
    }

    /// Whether something was not done, or done twice.
    pub(super) fn is_broken(&self) -> bool {
        let is_lossy = self.is_whole && self.figures.missing > 0;
        is_lossy || self.figures.doubled > 0 || self.audit.is_some_and(|audit| self.is_whole && audit.is_broken())
    }

    /// Figures in lines.
    pub(super) fn text(&self) -> String {
        let figures = &self.figures;
        let mut text = format!(
            "{:<10} {} jobs, {} workers, {} s\n",
            self.scenario,
            grouped(self.jobs),
            self.workers,
            self.seconds
        );
        if figures.due > 0 {
            let missing = if self.is_whole { "not started" } else { "with other workers" };
            text.push_str(&format!(
                "runs       {} due, {} started, {} {missing}, {} doubled, {} tried again; {}/s\n",
                grouped(figures.due),
                grouped(figures.started),
                grouped(figures.missing),
                grouped(figures.doubled),
                grouped(figures.retried),
                grouped(figures.started / u64::from(self.seconds.max(1))),
            ));
            text.push_str(&format!(
                "lateness   p50 {} ms, p99 {} ms, max {} ms, from the slot to the worker\n",
                figures.late_p50_ms, figures.late_p99_ms, figures.late_max_ms
            ));
            text.push_str(&format!(
                "server     {} µs CPU a run, {} bytes written a run\n",
                self.cpu_us_per_run,
                grouped(self.written_bytes_per_run)
            ));
        }
        text.push_str(&format!(
            "memory     {} MiB, at most {} MiB; started in {} ms\n",
            grouped(self.rss_bytes >> 20),
            grouped(self.rss_max_bytes >> 20),
            grouped(self.start_ms)
        ));
        if let Some(audit) = self.audit {
            let unfounded = if self.is_whole { "success without a start" } else { "success by other workers" };
            text.push_str(&format!(
                "ledger     {} rows for these slots, {} without one, {} with two, {} not success, {} {unfounded}\n",
                grouped(audit.rows),
                grouped(audit.holes),
                grouped(audit.covered_twice),
                grouped(audit.other),
                grouped(audit.unfounded),
            ));
        }
        text
    }
}

/// Milliseconds, for a report.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_is_missing() {
        let mut report = Report {
            scenario: "sustained".to_owned(),
            jobs: 1_443,
            workers: 8,
            seconds: 2,
            figures: Figures { due: 2_000, started: 1_999, missing: 1, ..Figures::default() },
            is_whole: true,
            cpu_us_per_run: 0.0,
            written_bytes_per_run: 0,
            rss_bytes: 0,
            rss_max_bytes: 0,
            start_ms: 90,
            audit: None,
        };
        let usage = |cpu_ms, written_bytes| Usage {
            cpu: Duration::from_millis(cpu_ms),
            rss_bytes: 64 << 20,
            rss_max_bytes: 80 << 20,
            written_bytes,
        };
        report.used(usage(10, 0), usage(34, 1_999_000));
        assert!(report.is_broken());
        let expected = "\
sustained  1,443 jobs, 8 workers, 2 s
runs       2,000 due, 1,999 started, 1 not started, 0 doubled, 0 tried again; 999/s
lateness   p50 0 ms, p99 0 ms, max 0 ms, from the slot to the worker
server     12 µs CPU a run, 1,000 bytes written a run
memory     64 MiB, at most 80 MiB; started in 90 ms
";
        assert_eq!(report.text(), expected);
    }
}
