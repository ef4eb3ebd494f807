//! The machines that knee knows.

use super::Machine;

/// The text of each file.
const TEXTS: &[&str] = &[
    include_str!("../../machines/milan-2x64.toml"),
    include_str!("../../machines/genoa-2x96.toml"),
    include_str!("../../machines/bergamo-2x128.toml"),
    include_str!("../../machines/haswell-ex-4x18.toml"),
    include_str!("../../machines/skylake-2x26.toml"),
    include_str!("../../machines/cascade-lake-2x24.toml"),
    include_str!("../../machines/ice-lake-2x32.toml"),
    include_str!("../../machines/sapphire-rapids-2x24.toml"),
    include_str!("../../machines/graviton3-64.toml"),
    include_str!("../../machines/graviton4-2x96.toml"),
    include_str!("../../machines/altra-80.toml"),
];

impl Machine {
    /// All machines that knee knows, and the texts of their files.
    pub fn all_built_in() -> impl Iterator<Item = (&'static str, Self)> {
        TEXTS.iter().map(|text| (*text, Self::parse(text).expect("a test parses all of them")))
    }

    /// The machine with this name.
    pub fn built_in(name: &str) -> Option<Self> {
        Self::all_built_in().map(|(_, machine)| machine).find(|machine| machine.name == name)
    }
}
