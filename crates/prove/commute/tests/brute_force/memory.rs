//! Anonymous memory of `posix+`: two or three processes with two pages.

use std::collections::BTreeMap;

use knee_commute::models::posix::alternatives;

use super::{Args, Concrete, arg, check, choices};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Page {
    datum: i64,
    writable: bool,
    leaving: bool,
}

/// The mapped pages, by process and then by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Memory<const PROCESSES: usize>([BTreeMap<i64, Page>; PROCESSES]);

/// The addresses that `mmap` may choose: one for each of two calls. The sets of three calls do not contain
/// `mmap`.
const NEW: [i64; 2] = [100, 101];
const ZEROES: i64 = 0;

impl<const PROCESSES: usize> Memory<PROCESSES> {
    fn page(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> Option<Page> {
        // Labels: `proc0.memory[a.va].datum`, `proc0.memory has a.va`
        let va = label.split_once(['[', ' ']).unwrap().1;
        let va = va.strip_prefix("has ").unwrap_or(va).split(']').next().unwrap();
        let nr = label.strip_prefix("proc").unwrap().split('.').next().unwrap();
        self.0[nr.parse::<usize>().unwrap()].get(&arg(va)).copied()
    }
}

impl<const PROCESSES: usize> Concrete for Memory<PROCESSES> {
    fn all() -> Vec<Self> {
        let flags = [false, true];
        let page =
            |datum| flags.map(|writable| flags.map(|leaving| Page { datum, writable, leaving }));
        let mut pages: Vec<Page> = [0, 1].map(page).into_iter().flatten().flatten().collect();
        if PROCESSES > 2 {
            // The test with three processes does not call `munmap_delayed`.
            pages.retain(|page| !page.leaving);
        }
        let maybe = || [None].into_iter().chain(pages.iter().copied().map(Some));
        let memory = |first: Option<Page>, second: Option<Page>| {
            (0..)
                .zip([first, second])
                .filter_map(|(va, page)| Some((va, page?)))
                .collect::<BTreeMap<i64, Page>>()
        };
        // The processes are symmetric, so a few states of the other processes are enough.
        let others = [memory(None, None), memory(Some(pages[0]), Some(pages[3]))];
        let mut all = Vec::new();
        for choice in 0..1 << (PROCESSES - 1) {
            for (first, second) in maybe().flat_map(|first| maybe().map(move |it| (first, it))) {
                all.push(Self(std::array::from_fn(|nr| match nr {
                    0 => memory(first, second),
                    nr => others[choice >> (nr - 1) & 1].clone(),
                })));
            }
        }
        all
    }

    fn arguments(operation: &str) -> Vec<Args> {
        let own: &[(&'static str, i64)] = match operation {
            "memwrite" => &[("va", 2), ("datum", 2)],
            "mmap" => &[("va", 2), ("fixed", 2), ("writable", 2)],
            _ => &[("va", 2)],
        };
        let mut all = choices(&[own, &[("process", PROCESSES as i64)]].concat());
        all.iter_mut().for_each(|args| args.push(("anonymous", 1)));
        all
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let nr = super::process(args) as usize;
        let va = arg(args, "va");
        let mut left = self.clone();
        let memory = &mut left.0[nr];
        let seen = match operation {
            "mmap" => {
                let writable = arg(args, "writable") == 1;
                let page = Page { datum: ZEROES, writable, leaving: false };
                let at = |va: i64| {
                    let mut left = self.clone();
                    left.0[nr].insert(va, page);
                    (left, va.to_string())
                };
                if arg(args, "fixed") == 1 {
                    return vec![at(va)];
                }
                return NEW.into_iter().filter(|va| !memory.contains_key(va)).map(at).collect();
            }
            "munmap" => {
                memory.remove(&va);
                "0".to_owned()
            }
            "munmap_delayed" => {
                memory.entry(va).and_modify(|page| page.leaving = true);
                "0".to_owned()
            }
            "munmap_wait" => {
                memory.retain(|other, page| *other != va || !page.leaving);
                "0".to_owned()
            }
            "memread" => {
                memory.get(&va).map_or("SIGSEGV".to_owned(), |page| page.datum.to_string())
            }
            "memwrite" => match memory.get_mut(&va) {
                Some(page) if page.writable => {
                    page.datum = arg(args, "datum");
                    "0".to_owned()
                }
                _ => "SIGSEGV".to_owned(),
            },
            other => panic!("{other}"),
        };
        vec![(left, seen)]
    }

    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64 {
        if label == "zeroes" {
            return ZEROES;
        }
        assert!(label.ends_with("].datum"), "{label}");
        self.page(label, arg).map_or(-1, |page| page.datum)
    }

    fn flag(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> bool {
        let page = self.page(label, arg);
        page.is_some_and(|page| match label {
            _ if label.ends_with(" is writable") => page.writable,
            _ if label.contains(".leaving has ") => page.leaving,
            _ => true,
        })
    }
}

#[test]
fn a_delayed_unmap_agrees_with_brute_force() {
    let mut memory = alternatives::posix_plus();
    memory.operations.retain(|operation| operation.name.starts_with('m'));
    check::<_, Memory<2>>(&memory, 2);
}

#[test]
fn three_calls_in_up_to_three_processes_agree_with_brute_force() {
    let mut memory = alternatives::posix_plus();
    memory
        .operations
        .retain(|operation| ["munmap", "memread", "memwrite"].contains(&operation.name));
    assert_eq!(memory.operations.len(), 3);
    check::<_, Memory<3>>(&memory, 3);
}
