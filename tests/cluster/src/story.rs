//! What happened, for people. Only kept while a seed is told again, so that ten thousand good seeds cost nothing.

use std::collections::VecDeque;
use std::fmt;

use crate::clock::Micros;

/// The last events of a run.
#[derive(Default)]
pub struct Story {
    lines: VecDeque<Line>,
    lines_max: usize,
}

struct Line {
    at: Micros,
    node: String,
    what: String,
}

impl Story {
    /// Keeps the last `lines_max` events; 0 keeps none.
    #[must_use]
    pub fn new(lines_max: usize) -> Story {
        Story { lines: VecDeque::new(), lines_max }
    }

    /// Whether anything is kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.lines_max > 0
    }

    /// Adds an event.
    pub fn tell(&mut self, at: Micros, node: String, what: String) {
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at, node, what });
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let (s, us) = (line.at / 1_000_000, line.at % 1_000_000);
            writeln!(f, "{s:>5}.{us:06}  {:<8} {}", line.node, line.what)?;
        }
        Ok(())
    }
}

/// Tells an event, if anyone listens: `tell!(world, node, "format", ..)`.
macro_rules! tell {
    ($world:expr, $node:expr, $($what:tt)*) => {
        if $world.story.is_on() {
            let (at, node) = ($world.now, $node.to_string());
            $world.story.tell(at, node, format!($($what)*));
        }
    };
}
pub(crate) use tell;
