//! Cached translations from virtual to physical pages.

use crate::qemu::{AccessInfo, Physical};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Pages whose translation is remembered.
const PAGES: usize = 128;

/// Translations, for each of which QEMU takes longer than for the rest of an access.
///
/// Those of the kernel's pages are remembered while a window is open, in which the kernel does not
/// move its own memory. What is mapped for user mode changes with the operations, but not while one
/// block is executed again and again, to copy a page.
pub(crate) struct Pages {
    kernel: [(u64, u64); PAGES],
    user: (u64, u64),
    block: u64,
}

impl Pages {
    /// No page has this number.
    const NONE: u64 = u64::MAX;
    pub(crate) const EMPTY: Pages =
        Pages { kernel: [(Pages::NONE, 0); PAGES], user: (Pages::NONE, 0), block: 0 };

    pub(crate) fn block(&mut self, address: u64) {
        if address != self.block {
            self.block = address;
            self.user.0 = Pages::NONE;
        }
    }

    #[inline]
    pub(crate) fn physical(&mut self, info: AccessInfo, address: u64) -> Physical {
        let (page, offset) = (address / PAGE_BYTES, address % PAGE_BYTES);
        let place = match address >> 63 {
            0 => &mut self.user,
            _ => &mut self.kernel[page as usize % PAGES],
        };
        if place.0 == page {
            return Physical::Memory(place.1 + offset);
        }
        let physical = info.physical(address);
        if let Physical::Memory(at) = physical {
            *place = (page, at - offset);
        }
        physical
    }
}
