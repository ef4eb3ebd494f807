//! Testcases of a large page, compressed: the script unpacks one when it is opened.
//!
//! Charts, tables and data of a hundred testcases with hundreds of points each are ten megabytes
//! of text that nobody opens all of, and a mailed page has to be small. The text is compressed by
//! DEFLATE (RFC 1951) without a header and written as base64, which every browser can undo by
//! itself since 2023, and `base64 -d | python3 -c 'import sys, zlib;
//! print(zlib.decompress(sys.stdin.buffer.read(), -15).decode())'` long after.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};

/// Of 1 to 10: a higher one takes longer for a page that is hardly smaller.
const LEVEL: u8 = 6;

/// `text`, to be unpacked by the script.
pub(super) fn packed(class: &str, text: &str) -> Markup {
    let compressed = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), LEVEL);
    html! {
        script class={ (class) " packed" } type="text/plain" {
            (PreEscaped(STANDARD.encode(compressed)))
        }
    }
}
