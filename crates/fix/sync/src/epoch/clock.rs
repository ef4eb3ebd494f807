//! Two clocks: how far writers are, and what no reader can hold any more.

/// The clock of writers goes on by this: the bits below count guards of one thread.
pub(super) const ONE: u64 = 1 << 12;
/// Those bits. The clock has 52 bits: at one step a microsecond, which is faster than garbage is
/// sealed, it lasts for 142 years.
pub(super) const NESTING: u64 = ONE - 1;
