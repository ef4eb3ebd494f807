//! A cache of translations from virtual to physical pages.

use crate::qemu::{AccessInfo, Physical};

/// The size of a page in bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The number of kernel pages whose translations are cached.
const PAGES: usize = 128;

/// Cached translations. QEMU takes longer for a translation than for the rest of an access.
///
/// Translations of the kernel's pages are cached while a window is open, since the kernel does not move its
/// own memory then. Operations change the mappings of user pages. So for user pages, only the most recent
/// translation is cached, and only while the same block is executed repeatedly, for example to copy a page.
pub(crate) struct Pages {
    kernel: [(u64, u64); PAGES],
    user: (u64, u64),
    block: u64,
}

impl Pages {
    /// A page number that no page has.
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
