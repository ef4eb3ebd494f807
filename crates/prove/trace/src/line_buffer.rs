//! Splits input into lines. The input arrives in pieces of any size.

/// Maximum length of a line in bytes. Longer lines are split, so that input without newlines takes bounded
/// memory.
const MAX_LINE: usize = 16 << 20;

/// The input after the last newline.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Adds a piece of input. Calls `line` for each line that is now complete, and passes the line without
    /// its newline.
    pub(crate) fn add<E>(
        &mut self,
        piece: &[u8],
        mut line: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let searched = self.0.len();
        self.0.extend(piece);
        let mut begin = 0;
        for end in (searched..self.0.len()).filter(|&at| self.0[at] == b'\n') {
            line(&self.0[begin..end])?;
            begin = end + 1;
        }
        self.0.drain(..begin);
        match self.0.len() > MAX_LINE {
            true => line(&self.end()),
            false => Ok(()),
        }
    }

    /// Takes the input after the last newline.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn lines(buffer: &mut LineBuffer, piece: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let Ok(()) = buffer.add(piece.as_bytes(), |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok::<_, Infallible>(())
        });
        lines
    }

    #[test]
    fn pieces_become_lines_and_the_rest_is_returned_at_the_end() {
        let mut buffer = LineBuffer::default();
        assert_eq!(lines(&mut buffer, "a\nb"), ["a"]);
        assert_eq!(lines(&mut buffer, "c"), [""; 0]);
        assert_eq!(lines(&mut buffer, "\n\nd"), ["bc", ""]);
        assert_eq!((buffer.end(), buffer.end()), (b"d".to_vec(), Vec::new()));
    }

    #[test]
    fn an_overlong_line_is_split() {
        let mut buffer = LineBuffer::default();
        assert_eq!(lines(&mut buffer, &"x".repeat(MAX_LINE + 1)).len(), 1);
        assert!(buffer.end().is_empty());
    }
}
