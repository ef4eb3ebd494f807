//! How large a capture may become. knee writes only captures that it reads.

use knee_host::text::{escape_json, one_line};

/// The most programs of a capture: as many as there is room for.
pub(super) const MOST_PROGRAMS: usize = (Room::MOST_BYTES / Room::NAME) as usize;

/// The size of stacks when they are printed. In the file, stacks share their callers; folded stacks and files for
/// speedscope contain each stack in full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// Functions of all stacks.
    pub(super) functions: u64,
    /// Bytes of the names of these functions and of the programs.
    pub(super) bytes: u64,
}

impl Size {
    /// The largest size that knee reads. A minute of samples of two busy CPUs, 4000 a second, makes two million
    /// functions with 40 million bytes.
    pub(super) const MOST: Self = Self { functions: 100_000_000, bytes: 4 << 30 };

    /// The size of a stack of this size that calls a function.
    pub(super) fn calling(self, function: &str) -> Self {
        self.and(Self { functions: 1, bytes: function.len() as u64 + 1 })
    }

    /// The size of a stack of this size with the name of its program.
    pub(super) fn in_program(self, program: &str) -> Self {
        self.and(Self { functions: 0, bytes: program.len() as u64 })
    }

    /// The size of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            functions: self.functions.saturating_add(other.functions),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn fits(self) -> bool {
        self.functions <= Self::MOST.functions && self.bytes <= Self::MOST.bytes
    }
}

/// What has been taken of the largest capture that knee writes.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes of the file, and of memory where something takes more of it than of the file.
    bytes: u64,
    printed: Size,
}

impl Room {
    /// The largest file. knee reads 512 MiB, which also contain the title and other facts.
    pub(super) const MOST_BYTES: u64 = 480 << 20;
    /// A name without its bytes, and the text around it.
    const NAME: u64 = 100;
    /// `{"parent":…,"function":…},` with ten digits each.
    pub(super) const STACK: u64 = 44;
    /// `{"program":…,"stack":…,"samples":…,"weight":…},` with all digits.
    pub(super) const COUNT: u64 = 103;

    /// Bytes for a name.
    pub(super) fn of_name(name: &str) -> u64 {
        let json = serde_json::to_string(&one_line(name)).expect("a name is plain data");
        Self::NAME + escape_json(&json).len() as u64
    }

    /// Bytes that are taken.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes bytes of the file, if there are as many.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let is_enough = self.bytes + bytes <= Self::MOST_BYTES;
        // Once something is left out, everything that is new is. Otherwise, short names would remain.
        self.bytes = if is_enough { self.bytes + bytes } else { Self::MOST_BYTES };
        is_enough
    }

    /// Takes a counted stack, if it fits.
    pub(super) fn take_printed(&mut self, stack: Size) -> bool {
        let all = self.printed.and(stack);
        if all.fits() {
            self.printed = all;
        }
        all.fits()
    }
}
