//! The older designs of address spaces that knee-vm has beside its own: `vm_mmap1@di=epoch`.
//!
//! There are four choices. Those that are not made are as in FreeBSD 11 ([`Design::invalidation`] and so on
//! say what that is), so `di=mutex` and `di=epoch` differ in nothing but that.

use std::fmt;

use knee_host::suggest::nearest;

/// What is chosen; the rest is as in FreeBSD 11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Design {
    map: Option<Map>,
    reverse: Option<Reverse>,
    invalidation: Option<Invalidation>,
    accounting: Option<Accounting>,
}

/// `map=`: what is mapped where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Map {
    /// A balanced tree under one lock: the BSDs, and Linux up to 6.0.
    #[default]
    Tree,
    /// A B-tree that faults read without a lock, and a lock for each entry: Linux since 6.4.
    Rcu,
}

/// `rmap=`: from a frame to where it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reverse {
    /// A structure for each page that is mapped: FreeBSD's `pv_entry`.
    #[default]
    Page,
    /// One for each mapping: DragonFly since 2019.
    Backing,
}

/// `di=`: delayed invalidation, who waits for pages that CPUs may still know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Invalidation {
    /// A mutex and a list: FreeBSD 2016.
    #[default]
    Mutex,
    /// An epoch: FreeBSD 2018.
    Epoch,
    /// A list without locks: FreeBSD 2019.
    LockFree,
    /// A slot for each thread: knee-sync.
    Slots,
}

/// `accounting=`: how pages are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Accounting {
    /// One number for all CPUs.
    #[default]
    Atomic,
    /// A share for each CPU.
    Quota,
}

/// One of those between which one chooses.
struct Choice {
    name: &'static str,
    meaning: &'static str,
    /// With nothing else chosen.
    design: Design,
}

/// Nothing is chosen.
const NONE: Design = Design { map: None, reverse: None, invalidation: None, accounting: None };

/// All choices, in the order in which names have them.
const CHOICES: [(&str, &[Choice]); 4] = [
    (
        "map",
        &[
            Choice {
                name: "tree",
                meaning: "an older design, of FreeBSD 11 but for what is said: a map in a locked tree",
                design: Design { map: Some(Map::Tree), ..NONE },
            },
            Choice {
                name: "rcu",
                meaning: "a map in a B-tree that is read without its lock, and a lock for each entry",
                design: Design { map: Some(Map::Rcu), ..NONE },
            },
        ],
    ),
    (
        "rmap",
        &[
            Choice {
                name: "pv",
                meaning: "where a frame is mapped: an entry for each page, as FreeBSD",
                design: Design { reverse: Some(Reverse::Page), ..NONE },
            },
            Choice {
                name: "backing",
                meaning: "where a frame is mapped: an entry for each mapping, as DragonFly",
                design: Design { reverse: Some(Reverse::Backing), ..NONE },
            },
        ],
    ),
    (
        "di",
        &[
            Choice {
                name: "mutex",
                meaning: "delayed invalidation with a mutex, as FreeBSD of 2016",
                design: Design { invalidation: Some(Invalidation::Mutex), ..NONE },
            },
            Choice {
                name: "epoch",
                meaning: "delayed invalidation with an epoch, as proposed for FreeBSD in 2018",
                design: Design { invalidation: Some(Invalidation::Epoch), ..NONE },
            },
            Choice {
                name: "lockfree",
                meaning: "delayed invalidation in a lock-free list, as FreeBSD since 2019",
                design: Design { invalidation: Some(Invalidation::LockFree), ..NONE },
            },
            Choice {
                name: "slots",
                meaning: "delayed invalidation with a slot for each thread",
                design: Design { invalidation: Some(Invalidation::Slots), ..NONE },
            },
        ],
    ),
    (
        "accounting",
        &[
            Choice {
                name: "atomic",
                meaning: "pages counted in one number",
                design: Design { accounting: Some(Accounting::Atomic), ..NONE },
            },
            Choice {
                name: "quota",
                meaning: "pages counted in a share for each CPU",
                design: Design { accounting: Some(Accounting::Quota), ..NONE },
            },
        ],
    ),
];

/// Names after an `@` that are no choices: they say all of a design, which is knee-vm's own.
const WHOLE: [&str; 2] = ["own-design", "shootdown=lazy"];

/// What is no choice, and what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {asked}: {known}")]
pub struct NoChoice {
    asked: String,
    known: String,
}

impl NoChoice {
    /// A word of `name` that goes with nothing else.
    fn alone(word: &str, name: &str) -> Self {
        let mut others = name.split(',').filter(|other| *other != word);
        let with = others.next().map_or(String::new(), |other| format!(" with {other}"));
        let known = format!(
            "{word} is of knee-vm's own design and stands alone; map=, rmap=, di= and accounting= go \
             together, and choose an older one"
        );
        Self { asked: format!("{word}{with}"), known }
    }
}

impl Design {
    /// In how many ways one thing can be chosen.
    pub const SINGLES: usize = {
        let (mut of, mut all) = (0, 0);
        while of < CHOICES.len() {
            all += CHOICES[of].1.len();
            of += 1;
        }
        all
    };

    /// The design in which one thing is chosen: choice `nr` of all [`SINGLES`](Self::SINGLES).
    pub const fn single(mut nr: usize) -> Self {
        let mut of = 0;
        while nr >= CHOICES[of].1.len() {
            nr -= CHOICES[of].1.len();
            of += 1;
        }
        CHOICES[of].1[nr].design
    }

    /// The design that `name` says, as `di=epoch` or `rmap=pv,di=epoch`; the order does not matter.
    ///
    /// # Errors
    /// What of it is no choice, or is chosen twice.
    pub fn parse(name: &str) -> Result<Self, NoChoice> {
        let mut design = NONE;
        for word in name.split(',') {
            if WHOLE.contains(&word) {
                return Err(NoChoice::alone(word, name));
            }
            let (of, value) = word.split_once('=').unwrap_or((word, ""));
            let Some((_, choices)) = CHOICES.iter().find(|(name, _)| *name == of) else {
                let known = CHOICES.map(|(name, _)| format!("{name}="));
                let meant =
                    suggestion(of, CHOICES.map(|(name, _)| name), |name| format!("{name}={value}"));
                let known = format!("{meant}{}", known.join(", "));
                let asked = if word.is_empty() { "variant without a name" } else { word };
                return Err(NoChoice { asked: asked.to_owned(), known });
            };
            let chosen = choices.iter().find(|choice| choice.name == value);
            let Some(together) = chosen.and_then(|chosen| design.and(chosen.design)) else {
                let names = || choices.iter().map(|choice| choice.name);
                let (asked, before) = match chosen {
                    Some(_) => (format!("second {of}="), "one of ".to_owned()),
                    None => {
                        let meant = suggestion(value, names(), |name| format!("{of}={name}"));
                        (word.to_owned(), meant)
                    }
                };
                let known = names().collect::<Vec<_>>().join(", ");
                return Err(NoChoice { asked, known: format!("{before}{known}") });
            };
            design = together;
        }
        Ok(design)
    }

    /// Both, if no choice is made twice.
    fn and(self, other: Self) -> Option<Self> {
        fn either<T>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
            match (one, other) {
                (Some(_), Some(_)) => None,
                (one, other) => Some(one.or(other)),
            }
        }
        Some(Self {
            map: either(self.map, other.map)?,
            reverse: either(self.reverse, other.reverse)?,
            invalidation: either(self.invalidation, other.invalidation)?,
            accounting: either(self.accounting, other.accounting)?,
        })
    }

    /// The same with nothing left open: two that have the same are one design.
    pub fn whole(self) -> Self {
        Self {
            map: Some(self.map()),
            reverse: Some(self.reverse()),
            invalidation: Some(self.invalidation()),
            accounting: Some(self.accounting()),
        }
    }

    /// Whether it makes all choices that `other` makes.
    fn has(self, other: Self) -> bool {
        fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            other.is_none() || one == other
        }
        same(self.map, other.map)
            && same(self.reverse, other.reverse)
            && same(self.invalidation, other.invalidation)
            && same(self.accounting, other.accounting)
    }

    /// What is chosen, in words; of several choices the first.
    pub fn meaning(self) -> &'static str {
        let all = CHOICES.iter().flat_map(|(_, choices)| choices.iter());
        let mut chosen = all.filter(|choice| self.has(choice.design));
        chosen.next().map_or("", |choice| choice.meaning)
    }

    /// What is mapped where; a locked tree if it is not said.
    pub fn map(self) -> Map {
        self.map.unwrap_or_default()
    }

    /// From a frame to where it is mapped; by page if it is not said.
    pub fn reverse(self) -> Reverse {
        self.reverse.unwrap_or_default()
    }

    /// Delayed invalidation; with a mutex if it is not said.
    pub fn invalidation(self) -> Invalidation {
        self.invalidation.unwrap_or_default()
    }

    /// How pages are counted; in one number if it is not said.
    pub fn accounting(self) -> Accounting {
        self.accounting.unwrap_or_default()
    }
}

/// What may have been meant by `word`, of `names`, as a question before what there is.
fn suggestion<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
    written: impl Fn(&str) -> String,
) -> String {
    let meant = nearest(word, names.into_iter());
    meant
        .first()
        .map_or(String::new(), |name| format!("did you mean {}? There are ", written(name)))
}

/// As it is written on a command line.
impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (of, choices) in CHOICES {
            for choice in choices.iter().filter(|choice| self.has(choice.design)) {
                write!(f, "{comma}{of}={}", choice.name)?;
                comma = ",";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_the_order() {
        let design = Design::parse("di=epoch,map=tree,accounting=quota").unwrap();
        assert_eq!(design.to_string(), "map=tree,di=epoch,accounting=quota");
        assert_eq!(Design::parse(&design.to_string()), Ok(design));
        assert_eq!(design.invalidation(), Invalidation::Epoch);
        assert_eq!(design.reverse(), Reverse::Page);
    }

    #[test]
    fn each_choice_alone_has_its_name() {
        let names: Vec<String> =
            (0..Design::SINGLES).map(|nr| Design::single(nr).to_string()).collect();
        assert_eq!(names[..4], ["map=tree", "map=rcu", "rmap=pv", "rmap=backing"]);
        assert_eq!(names[Design::SINGLES - 1], "accounting=quota");
    }

    #[test]
    fn what_is_not_said_is_as_in_freebsd_11() {
        let whole = |name| Design::parse(name).unwrap().whole();
        let same = ["map=tree", "rmap=pv", "di=mutex", "accounting=atomic", "di=mutex,map=tree"];
        assert!(same.into_iter().all(|name| whole(name) == whole("map=tree,rmap=pv")));
        assert_ne!(whole("di=epoch"), whole("di=mutex"));
    }

    #[test]
    fn the_designs_of_knee_vm_itself_go_with_no_choice() {
        let error = |name| Design::parse(name).unwrap_err().to_string();
        let why = "is of knee-vm's own design and stands alone; map=, rmap=, di= and accounting= go \
                   together, and choose an older one";
        let lazy = format!("no shootdown=lazy with di=epoch: shootdown=lazy {why}");
        assert_eq!(error("shootdown=lazy,di=epoch"), lazy);
        assert_eq!(error("di=epoch,shootdown=lazy"), lazy);
        assert_eq!(
            error("own-design,map=rcu"),
            format!("no own-design with map=rcu: own-design {why}")
        );
    }

    #[test]
    fn what_is_no_choice_is_named_with_what_would_be() {
        let error = |name| Design::parse(name).unwrap_err().to_string();
        let mutex = "did you mean di=mutex? There are mutex, epoch, lockfree, slots";
        assert_eq!(error("di=mutx"), format!("no di=mutx: {mutex}"));
        let key = "did you mean rmap=pv? There are map=, rmap=, di=, accounting=";
        assert_eq!(error("rmpa=pv"), format!("no rmpa=pv: {key}"));
        assert_eq!(error("di=foo"), "no di=foo: mutex, epoch, lockfree, slots");
        assert_eq!(error("di"), "no di: mutex, epoch, lockfree, slots");
        assert_eq!(error("foo=1"), "no foo=1: map=, rmap=, di=, accounting=");
        assert_eq!(error(""), "no variant without a name: map=, rmap=, di=, accounting=");
        assert_eq!(error("map=tree,map=rcu"), "no second map=: one of tree, rcu");
    }
}
