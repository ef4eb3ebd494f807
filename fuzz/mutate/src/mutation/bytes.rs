//! Mutations of any input, also of binary files.
#![allow(clippy::ptr_arg, reason = "all mutations have the same type")]

use crate::random::Random;

const MOST_BITS: usize = 8;
/// The longest part to delete or duplicate. A longer one removes everything that could be read.
const LONGEST_PART: usize = 256;
const MOST_COPIES: usize = 64;
const MOST_INSERTED: usize = 4096;

/// Limits of integers, where sums and conversions overflow.
const INTEGERS: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Text that often needs care: control characters, invalid UTF-8, quotes, brackets, markup.
const TEXTS: [&[u8]; 30] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\x1b[31m",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "\u{85}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{301}".as_bytes(),
    "１".as_bytes(),
    "𝟚".as_bytes(),
    b"\"",
    b"\\",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b";",
    b"/",
    b"-",
    b"%",
    b"<script>",
];

pub(super) fn flip_bits(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if text.is_empty() {
        return;
    }
    for _ in 0..=random.below(MOST_BITS) {
        let at = random.below(text.len());
        text[at] ^= 1 << random.below(8);
    }
}

pub(super) fn truncate(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if !text.is_empty() {
        text.truncate(random.below(text.len()));
    }
}

pub(super) fn delete(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if !text.is_empty() {
        let part = random.part(text.len(), LONGEST_PART);
        text.drain(part);
    }
}

pub(super) fn duplicate(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if !text.is_empty() {
        let part = random.part(text.len(), LONGEST_PART);
        let copies = text[part.clone()].repeat(1 + random.below(MOST_COPIES));
        text.splice(part.end..part.end, copies);
    }
}

pub(super) fn insert(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let at = random.below(text.len() + 1);
    let times = if random.one_in(4) { 1 + random.below(MOST_INSERTED) } else { 1 };
    let inserted = random.pick(&TEXTS).repeat(times);
    text.splice(at..at, inserted);
}

/// Overwrites one, two, four or eight bytes with a little-endian integer, often at an aligned place, as in
/// the binary format of perf.
pub(super) fn overwrite_integer(text: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let width = *random.pick(&[1, 2, 4, 8]);
    if text.len() < width {
        return;
    }
    let any = random.below(text.len() - width + 1);
    let at = if random.one_in(4) { any } else { any / width * width };
    text[at..at + width].copy_from_slice(&random.pick(&INTEGERS).to_le_bytes()[..width]);
}

/// The start of this input, followed by the end of another.
pub(super) fn splice(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    text.truncate(random.below(text.len() + 1));
    text.extend_from_slice(&other[random.below(other.len() + 1)..]);
}
