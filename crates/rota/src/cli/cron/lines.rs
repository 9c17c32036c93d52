//! Questions line by line: each is answered with one line, in order, as soon as it is read.
//!
//! Invariants: as many answers as lines, whatever a line holds; memory does not grow with the input. An answer leaves
//! before the next read that could wait.

use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};

use serde::Serialize;

use super::question::{COUNT_MAX, Mistake, Question};
use crate::clock;
use crate::exit::Failure;

/// Far more than a question can need.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Fires(Vec<String>),
    Error(Mistake),
}

/// Answers each line of the input. What a line does not say is as the flags have it.
pub(super) fn answer(flags: &Question, input: impl Read, output: impl Write) -> Result<(), Failure> {
    match answer_all(flags, input, output) {
        // A reader that has seen enough ends the command without a fuss.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn answer_all(flags: &Question, input: impl Read, output: impl Write) -> std::io::Result<()> {
    let (mut input, mut output) = (BufReader::new(input), BufWriter::new(output));
    let mut line = Vec::new();
    loop {
        if input.buffer().is_empty() {
            output.flush()?;
        }
        let Some(length) = read_line(&mut input, &mut output, &mut line)? else { break };
        let answer = match length {
            ..=LINE_BYTES_MAX => answer_line(flags, &line),
            _ => Answer::Error(Mistake::new(
                "too_long",
                format!("the line has {length} bytes, at most {LINE_BYTES_MAX}"),
            )),
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

/// Reads a line, without its end, and says how long it is; keeps no more of it than a question may have.
/// `None` at the end of the input.
fn read_line(
    input: &mut BufReader<impl Read>,
    output: &mut impl Write,
    line: &mut Vec<u8>,
) -> std::io::Result<Option<usize>> {
    line.clear();
    let mut length = 0;
    let mut has_begun = false;
    loop {
        if input.buffer().is_empty() {
            output.flush()?;
        }
        let chunk = match input.fill_buf() {
            Ok([]) => return Ok(has_begun.then_some(length)),
            Ok(chunk) => chunk,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        has_begun = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or(chunk);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        length += part.len();
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}

fn answer_line(flags: &Question, line: &[u8]) -> Answer {
    match read(line).and_then(|question| fires(&question.or(flags))) {
        Ok(fires) => Answer::Fires(fires),
        Err(mistake) => Answer::Error(mistake),
    }
}

fn read(line: &[u8]) -> Result<Question, Mistake> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Err(Mistake::new("empty", "the line is empty, expected a JSON object"));
    }
    if !line.starts_with(b"{") {
        return Err(Mistake::new("malformed", "the line is no JSON object"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        let code = if message.starts_with("unknown field") { "unknown_field" } else { "malformed" };
        Mistake { position: Some(error.column().saturating_sub(1)), ..Mistake::new(code, message) }
    })
}

fn fires(question: &Question) -> Result<Vec<String>, Mistake> {
    if question.count.is_some_and(|count| count > COUNT_MAX) {
        let message = format!("more than {COUNT_MAX} slots, ask from the last of them on");
        return Err(Mistake { key: Some("count"), ..Mistake::new("out_of_range", message) });
    }
    let schedule = question.schedule()?;
    let from = question.from(clock::now())?;
    Ok(question.fires(&schedule, from).map(|slot| schedule.zone().format(slot)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &[&str]) {
        let mut output = Vec::new();
        assert!(answer(&Question::default(), input, &mut output).is_ok());
        let output = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{output}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{line} lacks {expected}");
        }
    }

    #[test]
    fn each_line_has_its_answer_whatever_it_holds() {
        let daily = br#"{"expr":"0 0 2 * * ?","dialect":"quartz","zone":"Asia/Shanghai","from":"2026-11-30T16:00:00Z","count":2,"dst":"default"}"#;
        let fires = r#"{"fires":["2026-12-01T02:00:00+08:00","2026-12-02T02:00:00+08:00"]}"#;
        let mut input = Vec::new();
        let long = vec![b'['; 3 * LINE_BYTES_MAX];
        let deep = vec![b'['; 10_000];
        for line in [
            daily.as_slice(),
            b"",
            b"not json",
            b"\xff\xfe{}",
            b"[]",
            b"null",
            b"{}",
            long.as_slice(),
            deep.as_slice(),
            br#"{"expr":"0 0 * * MON","tz":"UTC"}"#,
            br#"{"expr":"61 * * * *"}"#,
            br#"{"expr":"* * * * *","zone":"Mars"}"#,
            br#"{"expr":"* * * * *","from":"now"}"#,
            br#"{"expr":"* * * * *","count":-1}"#,
            br#"{"expr":"* * * * *","count":4000000000}"#,
            br#"{"expr":"* * * * *","dst":"never"}"#,
            br#"{"expr":"* * * * *","dst":7}"#,
            br#"{"expr":"* * * * *","dialect":"aws"}"#,
            br#"{"expr":"0 0 30 2 *","from":"2026-01-01T00:00:00Z"}"#,
            br#"{"expr":"0 0 1 1 *","from":"2026-01-01T00:00:00Z","count":0}"#,
            br#"{"expr":null}"#,
        ] {
            input.extend_from_slice(line);
            input.extend_from_slice(b"\n");
        }
        // The last line has no end, and Windows' ends are no part of a line.
        input.extend_from_slice(daily);
        input.extend_from_slice(b"\r\n");
        input.extend_from_slice(daily);
        check(
            &input,
            &[
                fires,
                r#""code":"empty""#,
                r#""code":"malformed""#,
                r#""code":"malformed""#,
                r#""code":"malformed""#,
                r#""code":"malformed""#,
                r#""key":"expr""#,
                r#""code":"too_long""#,
                r#""code":"malformed""#,
                r#""code":"unknown_field""#,
                r#""code":"out_of_range","key":"expr","field":"minute","position":0"#,
                r#""code":"unknown_zone","key":"zone""#,
                r#""code":"bad_instant","key":"from","position":0"#,
                r#""code":"malformed""#,
                r#""code":"out_of_range","key":"count""#,
                r#""key":"dst""#,
                r#""code":"malformed""#,
                r#""key":"dialect""#,
                r#"{"fires":[]}"#,
                r#"{"fires":[]}"#,
                r#""key":"expr""#,
                fires,
                fires,
            ],
        );
    }

    #[test]
    fn the_policy_of_quartz_is_that_of_quartz() {
        // In Berlin clocks go back at 01:00Z. Quartz fires in the second pass, and asked within the first it has lost
        // what lies behind it there.
        let line = |from: &str, dst: &str| {
            format!(r#"{{"expr":"0 0/30 2 * * ?","zone":"Europe/Berlin","from":"{from}","count":2,"dst":{dst}}}"#)
        };
        let lines = [
            line("2026-10-24T22:00:00Z", r#""quartz""#),
            line("2026-10-25T00:10:00Z", r#""quartz""#),
            line("2026-10-24T22:00:00Z", r#""default""#),
            line("2026-10-24T22:00:00Z", r#"{"overlap":"first"}"#),
            line("2026-10-24T22:00:00Z", r#"{"gap":"later"}"#),
        ];
        check(
            lines.join("\n").as_bytes(),
            &[
                r#"["2026-10-25T02:00:00+01:00","2026-10-25T02:30:00+01:00"]"#,
                r#"["2026-10-25T02:30:00+01:00","2026-10-26T02:00:00+01:00"]"#,
                r#"["2026-10-25T02:00:00+02:00","2026-10-25T02:30:00+02:00"]"#,
                r#"["2026-10-25T02:00:00+02:00","2026-10-25T02:30:00+02:00"]"#,
                "`later` is not known here, expected run_after or skip",
            ],
        );
    }

    /// A reader that waits for each answer before it asks again, as a program at the other end of a pipe does.
    struct Dialogue<'a> {
        answers: &'a std::cell::RefCell<Vec<u8>>,
        asked: usize,
    }

    impl Read for Dialogue<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let answered = self.answers.borrow().iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(answered, self.asked, "an answer is kept back while more is waited for");
            if self.asked == 3 {
                return Ok(0);
            }
            self.asked += 1;
            let line = b"{\"expr\":\"* * * * *\"}\n";
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    struct Shared<'a>(&'a std::cell::RefCell<Vec<u8>>);

    impl Write for Shared<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_leaves_before_the_next_question_is_waited_for() {
        let answers = std::cell::RefCell::new(Vec::new());
        let dialogue = Dialogue { answers: &answers, asked: 0 };
        assert!(answer(&Question::default(), dialogue, Shared(&answers)).is_ok());
        assert_eq!(answers.borrow().iter().filter(|byte| **byte == b'\n').count(), 3);
    }
}
