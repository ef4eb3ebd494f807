//! Terms by label, and the facts about them.

use std::collections::HashMap;

use crate::facts::{Facts, Flag, Int, Name};

/// The terms by label, and what is known about them. Each method returns the term with the given label,
/// and creates the term if there is none.
#[derive(Default)]
pub(crate) struct Terms {
    pub(crate) facts: Facts,
    names: HashMap<String, Name>,
    ints: HashMap<String, Int>,
    flags: HashMap<String, Flag>,
}

impl Terms {
    /// A name of the given sort.
    pub(crate) fn name(&mut self, sort: &'static str, label: &str) -> Name {
        self.name_or(label, |facts| facts.name(sort, label))
    }

    /// A literal word, which differs from every other literal word.
    pub(crate) fn word(&mut self, word: &str) -> Name {
        self.name_or(word, |facts| facts.word(word))
    }

    /// A name that equals no name of the initial state or of an argument.
    pub(crate) fn fresh(&mut self, sort: &'static str, label: &str) -> Name {
        self.name_or(label, |facts| facts.fresh(sort, label))
    }

    /// A [constant](Facts::constant): tests print its label.
    pub(crate) fn constant(&mut self, sort: &'static str, label: &str) -> Name {
        self.name_or(label, |facts| facts.constant(sort, label))
    }

    fn name_or(&mut self, label: &str, new: impl FnOnce(&mut Facts) -> Name) -> Name {
        if let Some(&name) = self.names.get(label) {
            return name;
        }
        let name = new(&mut self.facts);
        self.names.insert(label.to_owned(), name);
        name
    }

    /// An integer, and whether this call created it. The bounds have an effect only on a new integer.
    pub(crate) fn int(&mut self, label: &str, min: Option<i64>, max: Option<i64>) -> (Int, bool) {
        if let Some(&int) = self.ints.get(label) {
            return (int, false);
        }
        let int = self.facts.int(label, min, max);
        self.ints.insert(label.to_owned(), int);
        (int, true)
    }

    /// A truth value.
    pub(crate) fn flag(&mut self, label: &str) -> Flag {
        if let Some(&flag) = self.flags.get(label) {
            return flag;
        }
        let flag = self.facts.flag(label);
        self.flags.insert(label.to_owned(), flag);
        flag
    }
}
