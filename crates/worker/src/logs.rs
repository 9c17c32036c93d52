//! Log lines of attempts, on their way to the server.
//!
//! One bounded queue for the whole worker. When it is full, lines are dropped and counted, and the
//! attempt's next line that fits is preceded by a mark that says how many are missing: a handler is
//! never slowed down by its log, and a cut is never silent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rota_wire::worker::LogLines;
use tokio::sync::Notify;

use crate::text;

/// A line; longer ones are cut, and say so.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 10;
/// Everything that waits.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// One list; small enough for any server's limit even when JSON escapes it.
const LIST_BYTES_MAX: usize = 256 << 10;
/// What a line costs beside its text.
const LINE_OVERHEAD_BYTES: usize = 32;

/// Lines that wait, of all attempts.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    bytes_max: usize,
    /// There are lines.
    pub(crate) ready: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    lists: VecDeque<LogLines>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn new() -> Arc<Queue> {
        Queue::bounded(QUEUE_BYTES_MAX)
    }

    fn bounded(bytes_max: usize) -> Arc<Queue> {
        Arc::new(Queue { waiting: Mutex::new(Waiting::default()), bytes_max, ready: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().lists.is_empty()
    }

    /// The next list to push.
    pub(crate) fn take(&self) -> Vec<LogLines> {
        let mut waiting = self.lock();
        let (mut list, mut list_bytes) = (Vec::new(), 0);
        while list_bytes < LIST_BYTES_MAX {
            let Some(front) = waiting.lists.front_mut() else { break };
            let (count, bytes) = fitting(&front.lines, LIST_BYTES_MAX - list_bytes);
            if count < front.lines.len() {
                let lines = front.lines.drain(..count).collect();
                list.push(LogLines { run: front.run, shard: front.shard, no: front.no, lines, is_last: false });
                list_bytes = LIST_BYTES_MAX;
            } else {
                list.extend(waiting.lists.pop_front());
                list_bytes += bytes + LINE_OVERHEAD_BYTES;
            }
            waiting.bytes -= bytes;
        }
        list
    }

    /// A list that could not be pushed comes first again.
    pub(crate) fn restore(&self, list: Vec<LogLines>) {
        let mut waiting = self.lock();
        for entry in list.into_iter().rev() {
            waiting.bytes += entry.lines.iter().map(|line| cost(line)).sum::<usize>();
            waiting.lists.push_front(entry);
        }
    }
}

fn cost(line: &str) -> usize {
    line.len() + LINE_OVERHEAD_BYTES
}

/// How many lines fit, at least one, and what they cost.
fn fitting(lines: &[String], bytes_max: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for line in lines {
        if count > 0 && bytes + cost(line) > bytes_max {
            break;
        }
        count += 1;
        bytes += cost(line);
    }
    (count, bytes)
}

impl Waiting {
    fn append(&mut self, log: &Log, lines: Vec<String>, is_last: bool) {
        self.bytes += lines.iter().map(|line| cost(line)).sum::<usize>();
        match self.lists.back_mut() {
            Some(back) if (back.run, back.shard, back.no) == (log.run, log.shard, log.no) => {
                back.lines.extend(lines);
                back.is_last |= is_last;
            }
            Some(_) | None => {
                self.lists.push_back(LogLines { run: log.run, shard: log.shard, no: log.no, lines, is_last });
            }
        }
    }
}

/// The log of one attempt.
#[derive(Debug)]
pub(crate) struct Log {
    run: u64,
    shard: u32,
    no: u32,
    queue: Arc<Queue>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing was logged.
    Empty,
    /// Something was; so many lines were dropped since the last mark.
    Open { dropped: u64 },
    /// The attempt has ended.
    Closed,
}

impl Log {
    pub(crate) fn new(run: u64, shard: u32, no: u32, queue: Arc<Queue>) -> Log {
        Log { run, shard, no, queue, state: Mutex::new(State::Empty) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// Adds text, line by line. After the attempt's end it goes nowhere.
    pub(crate) fn add(&self, text: &str) {
        for line in text.lines() {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if line.len() > LINE_BYTES_MAX {
                let kept = text::cut(line.to_owned(), LINE_BYTES_MAX);
                let cut_bytes = line.len() - kept.len();
                self.add_line(mark_cut(kept, cut_bytes));
            } else {
                self.add_line(line.to_owned());
            }
        }
    }

    /// Adds one line that is within the limit.
    pub(crate) fn add_line(&self, line: String) {
        let mut state = self.state();
        let dropped = match *state {
            State::Empty => 0,
            State::Open { dropped } => dropped,
            State::Closed => return,
        };
        let mut waiting = self.queue.lock();
        if waiting.bytes + cost(&line) > self.queue.bytes_max {
            *state = State::Open { dropped: dropped + 1 };
            return;
        }
        let lines = if dropped > 0 { vec![mark_dropped(dropped), line] } else { vec![line] };
        waiting.append(self, lines, false);
        drop(waiting);
        *state = State::Open { dropped: 0 };
        self.queue.ready.notify_one();
    }

    /// The attempt has ended: what was dropped is marked, and the server told that no more follows.
    /// These small entries enter a full queue too: there is at most one for each attempt that ends.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        let dropped = match *state {
            State::Empty | State::Closed => None,
            State::Open { dropped } => Some(dropped),
        };
        *state = State::Closed;
        let Some(dropped) = dropped else { return };
        let lines = if dropped > 0 { vec![mark_dropped(dropped)] } else { Vec::new() };
        self.queue.lock().append(self, lines, true);
        self.queue.ready.notify_one();
    }
}

fn mark_dropped(lines: u64) -> String {
    format!("[rota] {lines} lines are missing here: the worker's log queue was full")
}

/// A line that was cut, and says so.
pub(crate) fn mark_cut(mut line: String, cut_bytes: usize) -> String {
    line.push_str(&format!(" [rota] {cut_bytes} bytes cut"));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(list: &[LogLines]) -> Vec<(u64, Vec<&str>, bool)> {
        list.iter().map(|one| (one.run, one.lines.iter().map(String::as_str).collect(), one.is_last)).collect()
    }

    #[test]
    fn lines_go_in_order_and_the_end_is_marked() {
        let queue = Queue::new();
        let (a, b) = (Log::new(1, 0, 1, Arc::clone(&queue)), Log::new(2, 0, 1, Arc::clone(&queue)));
        a.add("one\r\ntwo");
        b.add("other");
        a.close();
        a.add("too late");
        let list = queue.take();
        assert_eq!(lines(&list), [(1, vec!["one", "two"], false), (2, vec!["other"], false), (1, vec![], true)]);
        assert!(queue.is_empty());
        queue.restore(list.clone());
        assert_eq!(queue.take(), list);
    }

    #[test]
    fn an_attempt_that_logged_nothing_sends_nothing() {
        let queue = Queue::new();
        Log::new(1, 0, 1, Arc::clone(&queue)).close();
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_queue_drops_and_says_how_many() {
        let queue = Queue::bounded(100);
        let log = Log::new(1, 0, 1, Arc::clone(&queue));
        for _ in 0..5 {
            log.add("0123456789");
        }
        assert_eq!(lines(&queue.take()), [(1, vec!["0123456789"; 2], false)]);
        log.add("after");
        for _ in 0..5 {
            log.add("0123456789");
        }
        log.close();
        let missing = |count| format!("[rota] {count} lines are missing here: the worker's log queue was full");
        let list = queue.take();
        let expected = vec![missing(3), "after".to_owned(), missing(5)];
        assert_eq!(list[0].lines, expected);
        assert!(list[0].is_last);
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn long_lines_are_cut_and_lists_are_bounded() {
        let queue = Queue::new();
        let log = Log::new(1, 0, 1, Arc::clone(&queue));
        log.add(&"x".repeat(LINE_BYTES_MAX + 5));
        let list = queue.take();
        assert!(list[0].lines[0].ends_with("x [rota] 5 bytes cut"));
        for _ in 0..40 {
            log.add(&"y".repeat(LINE_BYTES_MAX));
        }
        log.close();
        let mut count = 0;
        let mut is_last = false;
        while !queue.is_empty() {
            let list = queue.take();
            let bytes: usize = list.iter().flat_map(|one| &one.lines).map(String::len).sum();
            assert!(bytes <= LIST_BYTES_MAX);
            assert!(!is_last, "the end comes last");
            count += list.iter().map(|one| one.lines.len()).sum::<usize>();
            is_last = list.iter().any(|one| one.is_last);
        }
        assert_eq!((count, is_last), (40, true));
    }
}
