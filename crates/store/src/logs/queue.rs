//! What waits for the writer, bounded by its bytes. Whoever appends never waits: when the queue is
//! full, lines are dropped and counted, and the writer marks where.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rota_core::time::UnixMs;
use rota_port::logs::LogKey;

/// How long a reader waits for the writer.
const SETTLE: Duration = Duration::from_secs(5);
/// Logs with dropped lines that are told apart; lines of more than these are only counted.
const DROPPED_LOGS_MAX: usize = 10_000;
/// What a message takes beside its text.
const MESSAGE_BYTES: usize = 64;

/// Something for the writer.
#[derive(Debug)]
pub(super) enum Message {
    Lines { key: LogKey, at: UnixMs, lines: Vec<String> },
    Close { key: LogKey },
}

/// What the writer takes at once: messages, and after them what was dropped.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) messages: VecDeque<Message>,
    pub(super) dropped: BTreeMap<LogKey, u64>,
    /// Closes of logs that lost lines come after the mark of the loss.
    pub(super) closed: Vec<LogKey>,
    /// Nothing follows.
    pub(super) is_last: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: Taken,
    bytes: usize,
    /// Messages ever pushed, taken and written.
    pushed: u64,
    taken: u64,
    written: u64,
    dropped: u64,
    is_stopping: bool,
    has_stopped: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    bytes_max: usize,
    state: Mutex<State>,
    pushed: Condvar,
    written: Condvar,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Queue {
        Queue { bytes_max, state: Mutex::default(), pushed: Condvar::new(), written: Condvar::new() }
    }

    /// Adds a message, or drops its lines. Once lines were dropped, all that follow are, until the
    /// writer has taken what waits: so the mark stands where they are missing.
    pub(super) fn push(&self, message: Message) {
        let mut state = self.lock();
        let is_full = !state.waiting.dropped.is_empty() || state.bytes >= self.bytes_max;
        match message {
            Message::Lines { key, lines, .. } if is_full => {
                let count = lines.len() as u64;
                state.dropped += count;
                if state.waiting.dropped.len() < DROPPED_LOGS_MAX || state.waiting.dropped.contains_key(&key) {
                    *state.waiting.dropped.entry(key).or_default() += count;
                }
            }
            Message::Close { key } if state.waiting.dropped.contains_key(&key) => state.waiting.closed.push(key),
            Message::Lines { ref lines, .. } => {
                state.bytes += MESSAGE_BYTES + lines.iter().map(String::len).sum::<usize>();
                state.waiting.messages.push_back(message);
            }
            // Only a writer that hangs lets so many wait; the logs stay open then.
            Message::Close { .. } if state.bytes >= 2 * self.bytes_max => {}
            Message::Close { .. } => {
                state.bytes += MESSAGE_BYTES;
                state.waiting.messages.push_back(message);
            }
        }
        state.pushed += 1;
        self.pushed.notify_one();
    }

    /// Waits for messages, and takes all.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.lock();
        // Taking again means that what was taken before is written.
        state.written = state.taken;
        self.written.notify_all();
        while state.taken == state.pushed && !state.is_stopping {
            state = self.pushed.wait(state).expect("nothing panics while it holds this lock");
        }
        state.bytes = 0;
        state.taken = state.pushed;
        let mut taken = std::mem::take(&mut state.waiting);
        taken.is_last = state.is_stopping;
        taken
    }

    /// Waits until everything that was pushed before is written; false if that takes too long.
    pub(super) fn settle(&self) -> bool {
        let state = self.lock();
        let goal = state.pushed;
        let waits = |state: &mut State| state.written < goal && !state.has_stopped;
        let waited = self.written.wait_timeout_while(state, SETTLE, waits);
        waited.expect("nothing panics while it holds this lock").0.written >= goal
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.pushed.notify_one();
    }

    /// The writer has ended, well or not: nobody waits for it any more.
    pub(super) fn ended(&self) {
        let mut state = self.lock();
        state.has_stopped = true;
        self.written.notify_all();
    }

    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}
