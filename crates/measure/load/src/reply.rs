//! When a reply is complete, and whether it is correct.

use crate::text::{TextError, bytes};

/// The largest head of an HTTP reply, in bytes.
const LARGEST_HEAD: usize = 64 << 10;
/// How many bytes of a wrong reply are shown.
const SHOWN: usize = 60;

/// A correct reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    starts_with: Vec<u8>,
    end: End,
}

/// Where a reply ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// After this number of bytes.
    Bytes(u64),
    /// With these bytes.
    With(Vec<u8>),
    /// As the header `Content-Length` of an HTTP/1.1 reply says.
    Http,
}

impl Reply {
    /// A reply that starts with `text`, which may be empty and may contain the escape sequences of
    /// [`crate::Request::new`].
    ///
    /// # Errors
    /// An escape sequence has no meaning.
    pub fn new(text: &str, end: End) -> Result<Self, TextError> {
        Ok(Self { starts_with: bytes(text)?, end })
    }
}

impl End {
    /// The end of a reply that ends with `text`, which may contain the same escape sequences.
    ///
    /// # Errors
    /// An escape sequence has no meaning.
    pub fn with(text: &str) -> Result<Self, TextError> {
        bytes(text).map(Self::With)
    }
}

/// What the bytes so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The beginning of a correct reply.
    Partial,
    /// A complete, correct reply.
    Whole,
    /// Not a correct reply.
    Wrong(String),
}

/// A reply of which some bytes have arrived.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    seen: u64,
    /// The beginning of the reply, to show it, and the head of an HTTP reply.
    head: Vec<u8>,
    /// The last bytes, as many as the reply ends with.
    tail: Vec<u8>,
    /// The length of an HTTP reply, once its head is complete.
    length: Option<u64>,
    /// Whether the server closes the connection after the reply.
    closes: bool,
}

impl Arriving {
    /// What has arrived of `reply`, which is not complete; `None` if nothing has.
    pub(crate) fn part(&self, reply: &Reply) -> Option<String> {
        let seen = self.seen;
        let part = match (&reply.end, self.length) {
            _ if seen == 0 => return None,
            (&End::Bytes(length), _) | (&End::Http, Some(length)) => {
                format!("{seen} of {length} bytes arrived")
            }
            (End::With(end), _) => {
                format!("{seen} bytes arrived, but not the end {:?}", String::from_utf8_lossy(end))
            }
            (End::Http, None) => format!("{seen} bytes arrived, but not the end of the head"),
        };
        Some(format!("{part}: {}", self.shown()))
    }

    /// Begins with the next reply.
    pub(crate) fn reset(&mut self) {
        self.seen = 0;
        self.head.clear();
        self.tail.clear();
        self.length = None;
        self.closes = false;
    }

    /// Whether the head of an HTTP reply announces that the server closes the connection after the reply.
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// Takes the next bytes of a reply that should be `reply`.
    pub(crate) fn take(&mut self, bytes: &[u8], reply: &Reply) -> Progress {
        let is_right = reply.starts_with.get(self.seen as usize..).is_none_or(|expected| {
            let length = expected.len().min(bytes.len());
            expected[..length] == bytes[..length]
        });
        self.seen += bytes.len() as u64;
        let kept = if reply.end == End::Http { LARGEST_HEAD } else { SHOWN };
        if self.length.is_none() {
            let room = kept.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..room]);
        }
        if !is_right {
            return self.unexpected(reply);
        }
        match self.progress(bytes, reply) {
            Progress::Whole if self.seen < reply.starts_with.len() as u64 => self.unexpected(reply),
            progress => progress,
        }
    }

    /// What the bytes so far are, of which `bytes` are the last, by the end of the reply alone.
    fn progress(&mut self, bytes: &[u8], reply: &Reply) -> Progress {
        let length = match &reply.end {
            End::Bytes(length) => *length,
            End::With(end) => return self.ends_with(bytes, end),
            End::Http => match self.length() {
                Ok(None) => return Progress::Partial,
                Ok(Some(length)) => length,
                Err(reason) => return self.wrong(reason),
            },
        };
        match self.seen.cmp(&length) {
            std::cmp::Ordering::Less => Progress::Partial,
            std::cmp::Ordering::Equal => Progress::Whole,
            std::cmp::Ordering::Greater => self.wrong("more bytes follow the reply"),
        }
    }

    fn ends_with(&mut self, bytes: &[u8], end: &[u8]) -> Progress {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(end.len())..]);
        self.tail.drain(..self.tail.len().saturating_sub(end.len()));
        if self.tail == end { Progress::Whole } else { Progress::Partial }
    }

    /// The length of an HTTP reply; `None` if its head is not complete.
    fn length(&mut self) -> Result<Option<u64>, &'static str> {
        if self.length.is_some() {
            return Ok(self.length);
        }
        let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else {
            return match self.head.len() < LARGEST_HEAD {
                true => Ok(None),
                false => Err("the head of the reply does not end"),
            };
        };
        let head = &self.head[..end];
        self.closes = match header(head, b"connection") {
            Some(value) if value.eq_ignore_ascii_case(b"close") => true,
            Some(value) if value.eq_ignore_ascii_case(b"keep-alive") => false,
            // RFC 9112, section 9.3.
            _ => head.starts_with(b"HTTP/1.0"),
        };
        let value = header(head, b"content-length").ok_or("the reply has no Content-Length")?;
        let body: Option<u64> = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let length = body.and_then(|body| body.checked_add(end as u64 + 4));
        self.length = Some(length.ok_or("the reply has an invalid Content-Length")?);
        Ok(self.length)
    }

    /// It does not begin as it should.
    fn unexpected(&self, reply: &Reply) -> Progress {
        let expected = &reply.starts_with[..reply.starts_with.len().min(SHOWN)];
        let expected = String::from_utf8_lossy(expected);
        Progress::Wrong(format!("the server replied: {}; expected: {expected:?}", self.shown()))
    }

    fn wrong(&self, what: &str) -> Progress {
        Progress::Wrong(format!("{what}: {}", self.shown()))
    }

    /// The beginning of what has arrived, in quotation marks.
    fn shown(&self) -> String {
        let shown = &self.head[..self.head.len().min(SHOWN)];
        format!("{:?}", String::from_utf8_lossy(shown))
    }
}

/// The value of the last header with this name in the head of an HTTP reply.
fn header<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    let lines = head.split(|&byte| byte == b'\n').skip(1);
    let values = lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        line[..colon].eq_ignore_ascii_case(name).then(|| line[colon + 1..].trim_ascii())
    });
    values.last()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply(starts_with: &str, end: End) -> Reply {
        Reply::new(starts_with, end).unwrap()
    }

    fn take(text: &[u8], pieces: &[usize], reply: &Reply) -> Progress {
        let mut arriving = Arriving::default();
        let mut rest = text;
        for &length in pieces.iter().chain([&usize::MAX]) {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            if piece.is_empty() {
                continue;
            }
            match arriving.take(piece, reply) {
                Progress::Partial => {}
                Progress::Whole if !rest.is_empty() => panic!("whole before its end"),
                end => return end,
            }
        }
        Progress::Partial
    }

    const HTTP: &[u8] = b"HTTP/1.1 200 OK\r\nServer: a\r\ncontent-length:  5\r\n\r\nhello";

    #[test]
    fn a_reply_is_whole_at_its_end() {
        let http = reply("HTTP/1.1 200", End::Http);
        assert_eq!(take(HTTP, &[], &http), Progress::Whole);
        assert_eq!(take(&HTTP[..HTTP.len() - 1], &[], &http), Progress::Partial);
        let line = reply("VALUE", End::with(r"END\r\n").unwrap());
        assert_eq!(take(b"VALUE k 0 1\r\nx\r\nEND\r\n", &[], &line), Progress::Whole);
        assert_eq!(take(b"VALUE k 0 1\r\nx\r\nEND\r", &[], &line), Progress::Partial);
        assert_eq!(take(b"+OK\r\n", &[], &reply("+OK", End::Bytes(5))), Progress::Whole);
    }

    #[test]
    fn a_head_announces_that_the_server_closes_the_connection() {
        for (version, header, closes) in [
            ("HTTP/1.1", "", false),
            ("HTTP/1.1", "connection:  Close\r\n", true),
            ("HTTP/1.0", "", true),
            ("HTTP/1.0", "Connection: keep-alive\r\n", false),
        ] {
            let text = format!("{version} 200 OK\r\n{header}Content-Length: 1\r\n\r\na");
            let mut arriving = Arriving::default();
            assert_eq!(arriving.take(text.as_bytes(), &reply("", End::Http)), Progress::Whole);
            assert_eq!(arriving.closes(), closes, "{text}");
            arriving.reset();
            assert!(!arriving.closes());
        }
    }

    #[test]
    fn a_wrong_reply_is_shown() {
        let http = reply("HTTP/1.1 200", End::Http);
        let wrong = |text: &[u8], reply: &Reply| match take(text, &[], reply) {
            Progress::Wrong(reason) => reason,
            other => panic!("{other:?}"),
        };
        let missing = wrong(b"HTTP/1.1 404 Not Found\r\n", &http);
        assert_eq!(
            missing,
            r#"the server replied: "HTTP/1.1 404 Not Found\r\n"; expected: "HTTP/1.1 200""#
        );
        assert!(wrong(b"HTTP/1.1 200 OK\r\n\r\n", &http).starts_with("the reply has no Content"));
        let invalid = b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n";
        assert!(wrong(invalid, &http).starts_with("the reply has an invalid Content-Length"));
        let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), &[b'a'; LARGEST_HEAD]].concat();
        assert!(wrong(&endless, &http).starts_with("the head of the reply does not end"));
        let short = wrong(b"+P\n", &reply("+P\nONG", End::With(b"\n".to_vec())));
        assert_eq!(short, r#"the server replied: "+P\n"; expected: "+P\nONG""#);
        let more = wrong(b"+OK\r\n+OK\r\n", &reply("+OK", End::Bytes(5)));
        assert!(more.starts_with("more bytes follow the reply"));
    }

    #[test]
    fn the_part_of_a_reply_that_arrived_is_described() {
        let part = |text: &[u8], end: End| {
            let (reply, mut arriving) = (reply("", end), Arriving::default());
            if !text.is_empty() {
                assert_eq!(arriving.take(text, &reply), Progress::Partial);
            }
            arriving.part(&reply)
        };
        assert_eq!(part(b"", End::Bytes(40)), None);
        assert_eq!(
            part(b"+PONG\r\n", End::Bytes(40)).unwrap(),
            r#"7 of 40 bytes arrived: "+PONG\r\n""#
        );
        assert_eq!(
            part(b"+PONG\n", End::with(r"\r\n").unwrap()).unwrap(),
            r#"6 bytes arrived, but not the end "\r\n": "+PONG\n""#
        );
        assert!(part(HTTP.split_at(HTTP.len() - 2).0, End::Http).unwrap().starts_with("53 of 55 "));
        assert!(part(&HTTP[..9], End::Http).unwrap().contains("not the end of the head: \"HTTP"));
    }

    proptest! {
        #[test]
        fn the_same_reply_in_other_pieces_is_the_same(pieces in prop::collection::vec(1usize..20, 0..9)) {
            prop_assert_eq!(take(HTTP, &pieces, &reply("HTTP/1.1 200", End::Http)), Progress::Whole);
            let line = reply("VA", End::with(r"END\r\n").unwrap());
            prop_assert_eq!(take(b"VALUE 1 ENDEND\r\n", &pieces, &line), Progress::Whole);
        }

        #[test]
        fn no_reply_makes_it_panic(
            bytes: Vec<u8>, pieces in prop::collection::vec(1usize..20, 0..9),
            starts_with in "[a-z]{0,3}", length in 0u64..50,
        ) {
            for end in [End::Http, End::Bytes(length), End::With(vec![b'a'; length as usize % 3])] {
                let mut arriving = Arriving::default();
                let reply = reply(&starts_with, end);
                for piece in pieces.iter().scan(&bytes[..], |rest, &length| {
                    let (piece, after) = rest.split_at(length.min(rest.len()));
                    *rest = after;
                    Some(piece)
                }) {
                    let _ = arriving.take(piece, &reply);
                }
            }
        }
    }
}
