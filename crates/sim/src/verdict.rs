//! What the figures mean, in plain words.

use serde::Serialize;

use crate::study::{Figure, Row, Shift};
use crate::traits::Traits;

/// A saving below this is none: other seeds, other weeks would tell otherwise.
const SAVING_LEAST: f64 = 0.03;
/// A task that takes this part of a machine is big: two of them collide.
const LUMPY: f64 = 0.2;
const ALIGNED: f64 = 0.3;
const PREDICTABLE: f64 = 0.3;

/// What the figures mean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// In English.
    pub en: String,
    /// In Chinese.
    pub zh: String,
}

impl Verdict {
    fn say(&mut self, en: &str, zh: &str) {
        if !self.en.is_empty() {
            self.en.push(' ');
        }
        self.en.push_str(en);
        self.zh.push_str(zh);
    }
}

/// Says what to do, and why; that nothing is to be gained if so.
pub(crate) fn verdict(rows: &[Row], current: usize, best: usize, traits: &Traits, shifts: &[Shift]) -> Verdict {
    let mut verdict = Verdict { en: String::new(), zh: String::new() };
    if let (Some(now), Some(then)) = (rows[current].pooled, rows[best].pooled) {
        say_saving(&mut verdict, (&rows[current].strategy, now), (&rows[best].strategy, then), traits);
        say_shifts(&mut verdict, then, shifts);
    }
    if traits.predictability.is_some_and(|part| part < PREDICTABLE) {
        verdict.say(
            "Earlier runs say little about later ones, so learned weights help little.",
            "历史运行对后续运行的参考价值有限，学习权重的作用不大。",
        );
    }
    verdict
}

fn say_saving(verdict: &mut Verdict, (now_name, now): (&str, Figure), (name, then): (&str, Figure), traits: &Traits) {
    let saving = 1.0 - then.nodes / now.nodes;
    // Apart only if the seeds' figures are apart: the worst of the one below the best of the other.
    let is_apart = then.most < now.least;
    if now_name == name || saving < SAVING_LEAST {
        verdict.say(
            &format!("Routing gains nothing here: {now_name} is as good as any other that was tried."),
            &format!("路由策略在此无法带来收益：{now_name} 与其他策略相当。"),
        );
    } else {
        let (of, percent) = (if now.is_more { "at least " } else { "" }, saving * 100.0);
        verdict.say(
            &format!(
                "Switch from {now_name} to {name}: {:.0} instead of {:.0} machines, {of}{percent:.0} % fewer (seeds \
                 from {} to {}).",
                then.nodes, now.nodes, then.least, then.most
            ),
            &format!(
                "建议从 {now_name} 切换到 {name}：机器数由 {:.0} 降至 {:.0}，{}减少 {percent:.0}%（各种子 {} 至 {}）。",
                now.nodes,
                then.nodes,
                if now.is_more { "至少" } else { "" },
                then.least,
                then.most
            ),
        );
        if !is_apart {
            verdict.say(
                "But seeds differ as much as the strategies do, so do not count on it.",
                "但不同种子之间的差异与策略之间的差异相当，请勿过分依赖。",
            );
        }
    }
    let (lumpy, part) = (traits.lumpiness >= LUMPY, traits.lumpiness * 100.0);
    match (lumpy, traits.alignment >= ALIGNED) {
        (true, true) => verdict.say(
            &format!("Big tasks, up to {part:.0} % of a machine, start together and collide."),
            &format!("大任务（最多占单机的 {part:.0}%）同时启动并相互冲突。"),
        ),
        (true, false) => verdict.say(
            &format!("Big tasks, up to {part:.0} % of a machine, collide by chance."),
            &format!("大任务（最多占单机的 {part:.0}%）会随机冲突。"),
        ),
        (false, _) => verdict.say(
            &format!("No task is big: {part:.0} % of a machine at most."),
            &format!("没有大任务：最多占单机的 {part:.0}%。"),
        ),
    }
}

fn say_shifts(verdict: &mut Verdict, then: Figure, shifts: &[Shift]) {
    let gain = |shift: &&Shift| 1.0 - shift.optimised.nodes / then.nodes;
    let Some(most) = shifts.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))) else { return };
    if gain(&most) < SAVING_LEAST || most.optimised.most > then.most {
        verdict.say("Shifting phases gains nothing on top.", "错峰不会带来额外收益。");
        return;
    }
    verdict.say(
        &format!(
            "If 70 % of the jobs may start up to {} % of their period later, {:.0} machines will do.",
            most.percent, most.optimised.nodes
        ),
        &format!("若 70% 的任务可延后至多 {}% 周期启动，则 {:.0} 台机器即可。", most.percent, most.optimised.nodes),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(strategy: &str, least: u32, most: u32) -> Row {
        let pooled = Figure { nodes: f64::from(least + most) / 2.0, least, most, is_more: false };
        Row {
            strategy: strategy.to_owned(),
            pooled: Some(pooled),
            worst: None,
            hottest: None,
            slowdown: None,
            cost_month: None,
            saving: None,
            times_pack: None,
        }
    }

    fn check(now: (u32, u32), then: (u32, u32), lumpiness: f64, expected: &str) {
        let rows = [row("RANDOM", now.0, now.1), row("TASK_WEIGHT", then.0, then.1)];
        let traits = Traits { lumpiness, alignment: 0.9, predictability: Some(0.9) };
        let found = verdict(&rows, 0, 1, &traits, &[]);
        assert_eq!(found.en, expected);
        assert!(!found.zh.is_empty());
    }

    #[test]
    fn a_saving_is_told_and_so_is_none() {
        check(
            (100, 110),
            (40, 44),
            0.5,
            "Switch from RANDOM to TASK_WEIGHT: 42 instead of 105 machines, 60 % fewer (seeds from 40 to 44). \
             Big tasks, up to 50 % of a machine, start together and collide.",
        );
        check(
            (100, 110),
            (90, 104),
            0.5,
            "Switch from RANDOM to TASK_WEIGHT: 97 instead of 105 machines, 8 % fewer (seeds from 90 to 104). \
             But seeds differ as much as the strategies do, so do not count on it. \
             Big tasks, up to 50 % of a machine, start together and collide.",
        );
        check(
            (100, 100),
            (98, 99),
            0.05,
            "Routing gains nothing here: RANDOM is as good as any other that was tried. \
             No task is big: 5 % of a machine at most.",
        );
    }
}
