//! A study as a page: one file, its plots drawn in it, nothing fetched from elsewhere.

use std::fmt::Write;

use crate::cluster::placements;
use crate::cpu::by_node;
use crate::strategy::Strategy;
use crate::study::{Figure, Study};
use crate::workload::{Shape, Workload};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 220.0;
/// Points of a line; each is the highest of the windows that it stands for.
const POINTS: usize = 240;
/// Loads above this part of a machine are drawn at the top.
const LOAD_MOST: f64 = 2.0;

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>rota simulate</title><style>\
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child{text-align:left}svg{display:block;margin:.5em 0;background:#fafafa}\
svg text{font-size:12px}</style><h1>rota simulate</h1>";

/// How full each machine was, by machine and window.
#[derive(Clone, Debug)]
pub struct Loads {
    title: String,
    target: f64,
    rows: Vec<Vec<f64>>,
}

/// How full each machine is under a strategy, on so many of them.
#[must_use]
pub fn loads(workload: &Workload, strategy: &Strategy, shape: &Shape, nodes: u32, target: f64) -> Loads {
    let node_of = placements(workload, strategy, shape, nodes, 0);
    let title = format!("{} on {nodes} machines", strategy.name);
    Loads { title, target, rows: by_node(workload, shape, nodes, &node_of) }
}

/// The page of several studies, each with its plots of loads.
#[must_use]
pub fn html(studies: &[(Study, Vec<Loads>)]) -> String {
    let mut page = HEAD.to_owned();
    for (study, loads) in studies {
        let title = format!("{} on {} machines", study.workload, study.shape.name);
        put(
            &mut page,
            format_args!(
                "<h2>{}</h2><p>{}</p><p lang=zh>{}</p>",
                Text(&title),
                Text(&study.verdict.en),
                Text(&study.verdict.zh)
            ),
        );
        page.push_str(&bars(study));
        page.push_str(&table(study));
        for loads in loads {
            page.push_str(&lines(loads));
        }
    }
    page
}

/// Text that cannot be taken for a tag.
struct Text<'t>(&'t str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '&' => out.write_str("&amp;")?,
                '"' => out.write_str("&quot;")?,
                char => out.write_char(char)?,
            }
        }
        Ok(())
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes all that is written to it");
}

/// Machines against strategies, with the bounds as lines.
fn bars(study: &Study) -> String {
    let nodes = |figure: Option<Figure>| figure.map_or(0.0, |figure| figure.nodes);
    let most = study.rows.iter().map(|row| nodes(row.pooled)).fold(1.0, f64::max);
    let (left, row_height) = (210.0, 24.0);
    let scale = (WIDTH - left - 60.0) / most;
    let height: f64 = study.rows.iter().map(|_| row_height).sum::<f64>() + 24.0;
    let mut svg = format!("<svg viewBox='0 0 {WIDTH} {height}' role=img aria-label='machines by strategy'>");
    let mut y = 0.0;
    for row in &study.rows {
        let (long, middle) = (nodes(row.pooled) * scale, y + 16.0);
        let more = if row.pooled.is_some_and(|figure| figure.is_more) { "&gt;" } else { "" };
        put(&mut svg, format_args!("<text x=0 y={middle}>{}</text>", Text(&row.strategy)));
        put(&mut svg, format_args!("<rect x={left} y={} width={long:.1} height=16 fill='#4a7db5'/>", y + 4.0));
        put(
            &mut svg,
            format_args!("<text x={:.1} y={middle}>{more}{:.0}</text>", left + long + 4.0, nodes(row.pooled)),
        );
        y += row_height;
    }
    let bounds = &study.bounds;
    for (name, bound) in [("work", Some(bounds.work)), ("fluid", Some(bounds.fluid)), ("packing", bounds.pack)] {
        let Some(bound) = bound else { continue };
        let x = left + bound * scale;
        put(
            &mut svg,
            format_args!(
                "<line x1={x:.1} x2={x:.1} y1=0 y2={y} stroke='#b54a4a'><title>{name} {bound:.1}</title></line>"
            ),
        );
    }
    put(&mut svg, format_args!("<text x={left} y={}>red: work, fluid and packing bounds</text></svg>", y + 16.0));
    svg
}

fn table(study: &Study) -> String {
    let cell = |figure: Option<Figure>| {
        let shown = |figure: Figure| {
            let more = if figure.is_more { "&gt; " } else { "" };
            format!("{more}{:.1} ({} to {})", figure.nodes, figure.least, figure.most)
        };
        figure.map_or_else(|| "-".to_owned(), shown)
    };
    let mut table = "<table><tr><th>strategy<th>pooled<th>worst<th>hottest<th>slowdown<th>saving".to_owned();
    for row in &study.rows {
        let saving = row.saving.map_or_else(|| "-".to_owned(), |saving| format!("{:.0} %", saving * 100.0));
        put(&mut table, format_args!("<tr><td>{}", Text(&row.strategy)));
        for figure in [row.pooled, row.worst, row.hottest, row.slowdown] {
            put(&mut table, format_args!("<td>{}", cell(figure)));
        }
        put(&mut table, format_args!("<td>{saving}"));
    }
    for shift in &study.shifts {
        let title = format!("shifted by up to {} %", shift.percent);
        put(&mut table, format_args!("<tr><td>{title}<td>{}<td><td><td><td>", cell(Some(shift.optimised))));
    }
    table + "</table>"
}

/// How full machines are over time: a line for each, and what may be used of one.
fn lines(loads: &Loads) -> String {
    let y = |load: f64| HEIGHT - 20.0 - load.min(LOAD_MOST) / LOAD_MOST * (HEIGHT - 40.0);
    let mut svg = format!("<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img><text x=0 y=12>{}</text>", Text(&loads.title));
    for row in &loads.rows {
        let each = row.len().div_ceil(POINTS).max(1);
        let step = WIDTH / row.chunks(each).map(|_| 1.0).sum::<f64>().max(1.0);
        let (mut path, mut x) = (String::new(), 0.0);
        for chunk in row.chunks(each) {
            let command = if path.is_empty() { 'M' } else { 'L' };
            let load = chunk.iter().copied().fold(0.0, f64::max);
            put(&mut path, format_args!("{command}{x:.0} {:.0}", y(load)));
            x += step;
        }
        put(&mut svg, format_args!("<path d='{path}' fill=none stroke='#4a7db5' stroke-opacity=.25 />"));
    }
    let target = y(loads.target);
    put(&mut svg, format_args!("<line x1=0 x2={WIDTH} y1={target:.1} y2={target:.1} stroke='#b54a4a'/></svg>"));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Criterion;
    use crate::study::{Plan, study};
    use crate::workload::{CORE, Job, Run, hint_of};

    #[test]
    fn a_page_fetches_nothing_and_takes_no_name_for_a_tag() {
        let job = Job { name: "j".to_owned(), hint: hint_of(CORE), request: CORE, period_ms: None };
        let run = Run { job: 0, start_ms: 0, duration_ms: 600_000, cores: CORE, lag_ms: 0 };
        let workload = Workload::new("<script>", vec![job], vec![run; 4], 0, 600_000);
        let strategy = Strategy::parse("ADAPTIVE_WEIGHT").unwrap();
        let plan = Plan {
            shape: Shape::of(4),
            target: 0.7,
            strategies: vec![strategy.clone()],
            current: 0,
            criteria: vec![Criterion::Pooled],
            shifts: false,
            threads: 1,
        };
        let loads = loads(&workload, &strategy, &Shape::of(4), 2, 0.7);
        assert!(loads.rows.iter().flatten().all(|load| *load == 0.5));
        let page = html(&[(study(&[workload], &plan, &|_| {}), vec![loads])]);
        assert!(page.contains("<h2>&lt;script&gt; on 4c machines</h2>") && !page.contains("<script"), "{page}");
        assert!(page.contains("ADAPTIVE_WEIGHT on 2 machines") && page.matches("<path").count() == 2, "{page}");
        assert!(!page.contains("http") && !page.contains("src=") && !page.contains("url("), "{page}");
    }
}
