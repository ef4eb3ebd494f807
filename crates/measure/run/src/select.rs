//! From the words of a command line to testcases: names, globs, `family:NAME`, `NAME@VARIANT`.

use glob::Pattern;
use knee_host::suggest::nearest;

use crate::design::{Design, NoChoice};
use crate::testcase::{Family, Testcase, Variant};
use crate::testcases;

/// Touches every service of the operating system in under two minutes on two cores: those whose
/// curves differ most.
pub const QUICK: &[&str] = &[
    "page_fault1",
    "mmap1",
    "mmap_disjoint1",
    "pread1",
    "pwrite2",
    "open1",
    "open3",
    "pthread_mutex1",
    "futex1",
    "pipe1",
    "context_switch1",
    "tcp_loopback2",
    "getppid1",
    "exec_static",
];

/// What a glob has and no name.
const GLOB: [char; 3] = ['*', '?', '['];

/// A testcase in one of its variants.
#[derive(Clone, Copy)]
pub struct Selected {
    /// The testcase.
    pub testcase: &'static Testcase,
    /// What its tasks share.
    pub variant: Variant,
}

impl Selected {
    /// The bare name stands for the default variant; others are written after an `@`.
    pub fn label(&self) -> String {
        if self.variant == self.testcase.default_variant() {
            self.testcase.name.to_owned()
        } else {
            format!("{}@{}", self.testcase.name, self.variant.name())
        }
    }

    /// Whether both do the same: `vm_mmap1@di=mutex` and `vm_mmap1@map=tree` are FreeBSD 11's.
    pub fn is_same_design(&self, other: &Self) -> bool {
        let whole = |variant| match variant {
            Variant::Design(design) => Variant::Design(design.whole()),
            variant => variant,
        };
        self.testcase.name == other.testcase.name && whole(self.variant) == whole(other.variant)
    }

    /// The testcase as will-it-scale has it.
    pub fn original(testcase: &'static Testcase) -> Self {
        let variant = testcase.original.unwrap_or(testcase.default_variant());
        Self { testcase, variant }
    }

    fn default(testcase: &'static Testcase) -> Self {
        Self { testcase, variant: testcase.default_variant() }
    }
}

/// Some that are measured under one name, as they are one design.
pub struct SameDesign {
    /// The name that stays.
    pub name: String,
    /// The others.
    pub others: Vec<String>,
}

/// Of testcases that are one design by several names the first, and what was left out for it.
pub fn each_design_once(selected: Vec<Selected>) -> (Vec<Selected>, Vec<SameDesign>) {
    let mut once: Vec<Selected> = Vec::new();
    let mut same: Vec<SameDesign> = Vec::new();
    for new in selected {
        let Some(old) = once.iter().find(|old| old.is_same_design(&new)) else {
            once.push(new);
            continue;
        };
        let name = old.label();
        match same.iter_mut().find(|same| same.name == name) {
            Some(same) => same.others.push(new.label()),
            None => same.push(SameDesign { name, others: vec![new.label()] }),
        }
    }
    (once, same)
}

/// A word that stands for no testcase.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// No testcase, family or variant of this name.
    #[error("no {what} {name:?}{}; `knee list` shows all", suggestion(.nearest))]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// What was typed.
        name: String,
        /// What may have been meant.
        nearest: Vec<String>,
    },
    /// A testcase that does not have the choice that others have.
    #[error("{testcase} has no {variant}: {reason}")]
    NotHere {
        /// Its name.
        testcase: String,
        /// What was asked for.
        variant: String,
        /// Why, and which have it.
        reason: String,
    },
    /// A design that a testcase does not have.
    #[error("{testcase} has {missing}")]
    NoChoice {
        /// Its name.
        testcase: String,
        /// What was asked for, and what it has.
        missing: NoChoice,
    },
    /// A glob that cannot be one.
    #[error("{pattern:?} is not a glob: {reason}")]
    BadGlob {
        /// What was typed.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(": did you mean {}?", names.join(" or ")),
    }
}

/// The testcases that `words` stand for, each once, in the order of the words.
pub fn select<S: AsRef<str>>(words: &[S]) -> Result<Vec<Selected>, SelectError> {
    let mut selected: Vec<Selected> = Vec::new();
    for word in words {
        for new in select_one(word.as_ref())? {
            if !selected.iter().any(|old| old.label() == new.label()) {
                selected.push(new);
            }
        }
    }
    Ok(selected)
}

fn select_one(word: &str) -> Result<Vec<Selected>, SelectError> {
    if let Some(name) = word.strip_prefix("family:") {
        return match Family::ALL.iter().find(|family| family.as_str() == name) {
            Some(&family) => Ok(testcases::all()
                .filter(|testcase| testcase.family == family)
                .map(Selected::default)
                .collect()),
            None => Err(unknown("family", name, Family::ALL.iter().map(|f| f.as_str()))),
        };
    }
    if let Some((prefix, family)) = word.split_once(':')
        && !nearest(prefix, ["family"].into_iter()).is_empty()
    {
        let families = nearest(family, Family::ALL.iter().map(|f| f.as_str()));
        let nearest = families.iter().map(|family| format!("family:{family}")).collect();
        return Err(SelectError::Unknown { what: "testcase", name: word.to_owned(), nearest });
    }
    if word.contains(GLOB) {
        return glob(word);
    }
    let (name, variant) = match word.split_once('@') {
        Some((name, variant)) => (name, Some(variant)),
        None => (word, None),
    };
    let testcase = testcases::find(name).ok_or_else(|| {
        if Family::ALL.iter().any(|family| family.as_str() == word) {
            let nearest = vec![format!("family:{word}")];
            return SelectError::Unknown { what: "testcase", name: word.to_owned(), nearest };
        }
        let same_variant = |testcase: &Testcase| match variant {
            Some(variant) if testcase.variant(variant).is_some() => format!("@{variant}"),
            _ => String::new(),
        };
        let names = nearest(name, testcases::all().map(|t| t.name));
        let found = names.iter().filter_map(|name| testcases::find(name));
        let nearest = found.map(|t| format!("{}{}", t.name, same_variant(t))).collect();
        SelectError::Unknown { what: "testcase", name: word.to_owned(), nearest }
    })?;
    match variant {
        None => Ok(vec![Selected::default(testcase)]),
        Some(variant) => match testcase.variant(variant) {
            Some(variant) => Ok(vec![Selected { testcase, variant }]),
            None => Err(no_variant(word, testcase, variant)),
        },
    }
}

fn no_variant(word: &str, testcase: &Testcase, variant: &str) -> SelectError {
    let having = |has: &dyn Fn(&Testcase) -> bool| -> Vec<&str> {
        testcases::all().filter(|testcase| has(testcase)).map(|testcase| testcase.name).collect()
    };
    let not_here = |reason| SelectError::NotHere {
        testcase: testcase.name.to_owned(),
        variant: variant.to_owned(),
        reason,
    };
    match testcase.design(variant) {
        Some(Err(missing)) => {
            let others = having(&|other| other.variants.iter().any(|v| v.name() == variant));
            return match others.as_slice() {
                [] => SelectError::NoChoice { testcase: testcase.name.to_owned(), missing },
                others => not_here(format!("{} has it", others.join(", "))),
            };
        }
        None if Design::parse(variant).is_ok() => {
            let others = having(&|other| other.design(variant).is_some());
            return not_here(match testcase.family {
                Family::Vm => format!(
                    "it maps an object, which is of knee-vm's own design only; designs have {}",
                    others.join(", ")
                ),
                _ => format!("only testcases of knee-vm have designs: {}", others.join(", ")),
            });
        }
        _ => {}
    }
    let nearest = testcase.variants.iter().map(|v| format!("{}@{}", testcase.name, v.name()));
    SelectError::Unknown { what: "variant", name: word.to_owned(), nearest: nearest.collect() }
}

fn glob(word: &str) -> Result<Vec<Selected>, SelectError> {
    let pattern = Pattern::new(word)
        .map_err(|e| SelectError::BadGlob { pattern: word.to_owned(), reason: e.to_string() })?;
    // With an @, the pattern is about variants; without, about names.
    let matching: Vec<Selected> = if word.contains('@') {
        testcases::all()
            .flat_map(|testcase| {
                testcase.variants.iter().map(move |&variant| Selected { testcase, variant })
            })
            .filter(|s| pattern.matches(&format!("{}@{}", s.testcase.name, s.variant.name())))
            .chain(unlisted(word))
            .collect()
    } else {
        testcases::all()
            .filter(|testcase| pattern.matches(testcase.name))
            .map(Selected::default)
            .collect()
    };
    if matching.is_empty() {
        if let Some((name, variant)) = word.split_once('@')
            && let Ok(name) = Pattern::new(name)
            && let Some((testcase, missing)) = testcases::all()
                .filter(|testcase| name.matches(testcase.name))
                .find_map(|testcase| Some((testcase, testcase.design(variant)?.err()?)))
            && !variant.contains(GLOB)
        {
            return Err(SelectError::NoChoice { testcase: testcase.name.to_owned(), missing });
        }
        return Err(SelectError::Unknown {
            what: "testcase matches",
            name: word.to_owned(),
            nearest: Vec::new(),
        });
    }
    Ok(matching)
}

/// Testcases in the design that a word says after its `@`, of those that no list has.
fn unlisted(word: &str) -> Vec<Selected> {
    let Some((name, variant)) = word.split_once('@') else { return Vec::new() };
    let Ok(pattern) = Pattern::new(name) else { return Vec::new() };
    let with = |testcase: &'static Testcase| {
        let variant = testcase.variant(variant)?;
        (!testcase.variants.contains(&variant)).then_some(Selected { testcase, variant })
    };
    testcases::all().filter(|testcase| pattern.matches(testcase.name)).filter_map(with).collect()
}

fn unknown<'a>(
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> SelectError {
    SelectError::Unknown { what, name: name.to_owned(), nearest: nearest(name, known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(words: &[&str]) -> Vec<String> {
        select(words).unwrap().iter().map(Selected::label).collect()
    }

    #[test]
    fn a_name_a_variant_a_glob_and_a_family_each_select() {
        assert_eq!(labels(&["read1", "read1@same-file"]), ["read1", "read1@same-file"]);
        assert_eq!(labels(&["futex?"]), ["futex1", "futex2", "futex3", "futex4"]);
        assert!(labels(&["family:process"]).contains(&"getppid1".to_owned()));
        assert!(labels(&["*@same-file"]).contains(&"read1@same-file".to_owned()));
    }

    #[test]
    fn a_design_is_chosen_in_one_thing_or_more() {
        let label = "vm_mmap1@map=rcu,di=epoch";
        assert_eq!(labels(&["vm_mmap1@di=epoch", "vm_mmap1@di=epoch,map=rcu"])[1], label);
        assert!(labels(&["vm_*@di=epoch,map=rcu"]).contains(&label.to_owned()));
        assert!(labels(&["vm_*@di=epoch"]).contains(&"vm_mmap1@di=epoch".to_owned()));
        let error = select(&["vm_mmap1@di=foo"]).err().unwrap().to_string();
        assert_eq!(error, "vm_mmap1 has no di=foo: mutex, epoch, lockfree, slots");
    }

    #[test]
    fn a_design_that_has_several_names_runs_once_and_by_the_first() {
        let words = ["vm_mmap1", "vm_mmap1@di=mutex", "vm_mmap1@*", "vm_brk1@di=mutex"];
        let (once, same) = each_design_once(select(&words).unwrap());
        let labels: Vec<String> = once.iter().map(Selected::label).collect();
        assert_eq!(labels[..3], ["vm_mmap1", "vm_mmap1@di=mutex", "vm_mmap1@map=rcu"]);
        assert!(labels.contains(&"vm_brk1@di=mutex".to_owned()));
        assert_eq!(same.len(), 1);
        assert_eq!(same[0].name, "vm_mmap1@di=mutex");
        assert_eq!(
            same[0].others,
            ["vm_mmap1@map=tree", "vm_mmap1@rmap=pv", "vm_mmap1@accounting=atomic"]
        );
    }

    #[test]
    fn a_design_that_cannot_be_had_here_is_said_to_be_had_elsewhere() {
        let error = |word: &str| select(&[word]).err().unwrap().to_string();
        let own = error("vm_mmap2@di=mutex");
        assert!(own.starts_with("vm_mmap2 has no di=mutex: it maps an object, which is"), "{own}");
        assert!(own.contains("designs have vm_brk1, "), "{own}");
        let kernel = error("mmap1@di=mutex");
        assert!(kernel.contains("only testcases of knee-vm have designs: vm_"), "{kernel}");
        assert_eq!(
            error("vm_mmap1@shootdown=lazy"),
            "vm_mmap1 has no shootdown=lazy: vm_page_fault4 has it"
        );
        let both = error("vm_page_fault4@shootdown=lazy,di=mutex");
        assert!(both.contains("vm_page_fault4 has no shootdown=lazy with di=mutex"), "{both}");
        assert!(error("vm_*@di=mutx").contains("did you mean di=mutex?"));
    }

    #[test]
    fn what_is_named_twice_runs_once() {
        assert_eq!(labels(&["getppid1", "getpp*", "getppid1"]), ["getppid1"]);
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_ones() {
        let error = select(&["getpid1"]).err().unwrap().to_string();
        assert!(error.contains("did you mean getppid1"), "{error}");
        let error = select(&["vm_mmpa1@di=epoch"]).err().unwrap().to_string();
        assert!(error.contains("did you mean vm_mmap1@di=epoch or vm_mmap2"), "{error}");
        let error = select(&["famly:sync"]).err().unwrap().to_string();
        assert!(error.contains("did you mean family:sync?"), "{error}");
        let error = select(&["memory"]).err().unwrap().to_string();
        assert!(error.contains("did you mean family:memory"), "{error}");
        let error = select(&["family:memroy"]).err().unwrap().to_string();
        assert!(error.contains("did you mean memory"), "{error}");
        let error = select(&["read1@shared"]).err().unwrap().to_string();
        assert!(error.contains("read1@same-file"), "{error}");
        let error = select(&["zz*"]).err().unwrap().to_string();
        assert!(error.contains("zz*"), "{error}");
    }

    #[test]
    fn the_quick_set_touches_every_service_of_the_system() {
        let selected = select(QUICK).unwrap();
        let libraries = [Family::Sync, Family::Vm];
        for family in Family::ALL.into_iter().filter(|family| !libraries.contains(family)) {
            assert!(selected.iter().any(|s| s.testcase.family == family), "{family}");
        }
    }
}
