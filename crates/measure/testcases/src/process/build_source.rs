//! The C program that `build1` compiles: the same text on every machine, in the variety that a
//! compiler meets (loops, switches, structures, floating point, recursion, strings).

use oorandom::Rand32;

/// Files of the program.
pub(super) const FILES: usize = 24;

/// The functions of each file. `NAME` stands for the number of the file, each `#` for a number from 3
/// to 249.
const FUNCTIONS: &str = include_str!("../../programs/build.c");

const INCLUDES: &str = "\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

";

/// The text of file number `file`, which takes about 40 ms to compile. File 0 contains `main`.
pub(super) fn source(file: usize) -> String {
    let mut numbers = Rand32::new(file as u64);
    let mut text = String::from(INCLUDES);
    let functions = FUNCTIONS.replace("NAME", &file.to_string());
    for (nr, part) in functions.split('#').enumerate() {
        if nr > 0 {
            text.push_str(&numbers.rand_range(3..250).to_string());
        }
        text.push_str(part);
    }
    if file == 0 {
        text.push_str(&main());
    }
    text
}

fn main() -> String {
    let all = || 0..FILES;
    let declarations = all().map(|file| format!("unsigned long all{file}(long);\n"));
    let calls = all().map(|file| format!("    sum = sum * 31 + all{file}((long)(sum & 63));\n"));
    format!(
        "\n{}\nint main(void) {{\n    unsigned long sum = 1;\n{}    return sum == 0;\n}}\n",
        declarations.collect::<String>(),
        calls.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_file_is_deterministic_and_unique() {
        assert_eq!(source(1), source(1));
        assert_ne!(source(1), source(2));
        assert!(source(0).contains("int main(void)"));
    }
}
