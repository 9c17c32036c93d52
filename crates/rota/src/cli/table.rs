//! Tables for people: columns as wide as their widest cell, two spaces between them, nothing after the last.

/// Rows of cells under a head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; blank cells show as `-`.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(cells.len(), self.head.len(), "a row has a cell for each column");
        let cells = cells.into_iter().map(|cell| if cell.is_empty() { "-".to_owned() } else { one_line(&cell) });
        self.rows.push(cells.collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, each line with its end.
    pub(crate) fn text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|word| (*word).to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let widths: Vec<usize> =
            (0..head.len()).map(|column| lines.iter().map(|line| width(&line[column])).max().unwrap_or(0)).collect();
        let mut text = String::new();
        for line in lines {
            let mut padded = String::new();
            for (cell, full) in line.iter().zip(&widths) {
                padded.push_str(cell);
                padded.extend(std::iter::repeat_n(' ', full + 2 - width(cell)));
            }
            text.push_str(padded.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A cell is one line; characters that could repaint the terminal become spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if commands_terminal(c) { ' ' } else { c }).collect()
}

/// Whether a character is for the terminal and not for whoever reads: a control character, or one of Unicode's marks
/// for the direction of writing, which make a line read otherwise than it is written.
pub(crate) fn commands_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that a text takes on a terminal. East Asian wide characters take two.
pub(crate) fn width(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x0300..=0x036f | 0x200b..=0x200f => 0,
            0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
            0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

/// A number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[[&str; 2]], expected: &str) {
        let mut table = Table::new(&["NAME", "X"]);
        for [name, x] in rows {
            table.row([(*name).to_owned(), (*x).to_owned()]);
        }
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn columns_line_up() {
        check(&[], "NAME  X\n");
        check(&[["a", "1"], ["longer", ""]], "NAME    X\na       1\nlonger  -\n");
        check(&[["结算", "1"], ["ab", "2"]], "NAME  X\n结算  1\nab    2\n");
        check(&[["a\nb\x1b[2J", "1"]], "NAME     X\na b [2J  1\n");
        check(&[["a\u{202e}b\u{2069}", "1"]], "NAME  X\na b   1\n");
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, expected) in [(0, "0"), (999, "999"), (1_204, "1,204"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
