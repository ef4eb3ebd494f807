//! Compressed testcases of a large page. The script unpacks a testcase when the reader opens it.
//!
//! Charts, tables and data of a hundred testcases with hundreds of points each are ten megabytes of
//! text, too much for a page that is sent by mail, and no reader opens all of it. The text is
//! compressed by DEFLATE (RFC 1951) without a header and encoded as base64. Every browser since
//! 2023 can decode it, and so can `base64 -d | python3 -c 'import sys, zlib;
//! print(zlib.decompress(sys.stdin.buffer.read(), -15).decode())'`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};

/// Compression level, 1 to 10. A higher one takes longer, and the page is hardly smaller.
const LEVEL: u8 = 6;

/// `text`, compressed for the script to unpack.
pub(super) fn packed(class: &str, text: &str) -> Markup {
    let compressed = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), LEVEL);
    html! {
        script class={ (class) " packed" } type="text/plain" {
            (PreEscaped(STANDARD.encode(compressed)))
        }
    }
}
