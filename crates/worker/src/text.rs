//! Cutting text.

/// The text, cut at a character's boundary so that it has at most so many bytes.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_characters_whole() {
        assert_eq!(cut("aé".to_owned(), 2), "a");
        assert_eq!(cut("aé".to_owned(), 3), "aé");
        assert_eq!(cut(String::new(), 0), "");
    }
}
