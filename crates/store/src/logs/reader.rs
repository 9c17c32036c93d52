//! Windows over a log.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rota_port::logs::Window;

use super::segment::{Found, Piece};

/// Bytes that one window holds at most, whatever is asked for.
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// At most `bytes_max` bytes from `from` on: whole lines, or the part of a line that alone is longer.
/// What is missing is a line of its own.
pub(super) fn window(found: &Found, from: u64, bytes_max: usize) -> Window {
    let end = found.end();
    let mut window = Growing { text: String::new(), next: from.min(end), bytes_max: bytes_max.min(WINDOW_BYTES_MAX) };
    let is_whole = found.pieces.iter().all(|piece| window.gap(piece.offset) && window.piece(piece));
    if is_whole {
        window.gap(end);
    }
    Window { from, next: window.next, text: window.text, len: end, is_closed: found.is_closed }
}

struct Growing {
    text: String,
    next: u64,
    bytes_max: usize,
}

impl Growing {
    /// Marks what is missing up to `offset`; false if the mark does not fit.
    fn gap(&mut self, offset: u64) -> bool {
        if offset <= self.next {
            return true;
        }
        let mark = format!("[{} bytes are missing here]\n", offset - self.next);
        if !self.text.is_empty() && self.text.len() + mark.len() > self.bytes_max {
            return false;
        }
        self.text.push_str(&mark[..mark.len().min(self.bytes_max)]);
        self.next = offset;
        true
    }

    /// Adds what fits of a piece; false if something did not. One that cannot be read is a gap.
    fn piece(&mut self, piece: &Piece) -> bool {
        let Some(left) = (piece.offset + piece.bytes).checked_sub(self.next).filter(|left| *left > 0) else {
            return true;
        };
        let room = self.bytes_max - self.text.len();
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(room);
        let mut bytes = vec![0; take];
        let position = piece.position + (self.next - piece.offset);
        let read = File::open(&piece.path).and_then(|file| file.read_exact_at(&mut bytes, position));
        if read.is_err() {
            return true;
        }
        let is_whole = take as u64 == left;
        let kept = if is_whole { take } else { whole_lines(&bytes, self.text.is_empty()) };
        self.text.push_str(&String::from_utf8_lossy(&bytes[..kept]));
        self.next += kept as u64;
        is_whole
    }
}

/// How much of `bytes` is whole lines; if that is nothing and `may_split`, whole characters.
fn whole_lines(bytes: &[u8], may_split: bool) -> usize {
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        None if may_split => match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.valid_up_to() > 0 => error.valid_up_to(),
            Err(_) => bytes.len(),
        },
        None => 0,
    }
}
