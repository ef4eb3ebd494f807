//! Turns addresses into functions.
//!
//! Stacks are sorted from their outermost functions, so that a stack shares a prefix with the one before it,
//! and only the rest is looked up. Addresses are looked up file by file, from low to high, because symbol
//! tables are larger than caches.

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use linux_perf_event_reader::constants::{PERF_CONTEXT_MAX, PERF_CONTEXT_USER};

use super::space::{NO_MAPS, Spaces};
use crate::capture::Stacks;
use crate::symbols::{Address, Symbols};

/// A stack: its program and maps, then its addresses from the innermost, with a context marker of the kernel
/// before the addresses that it applies to. Then its samples and weight.
pub(super) type Unnamed = (Box<[u64]>, (u64, u64));

/// Adds stacks by the names of their functions.
pub(super) fn give_names(
    mut unnamed: Vec<Unnamed>,
    spaces: &Spaces,
    symbols: &mut Symbols,
    stacks: &mut Stacks,
) {
    unnamed.iter_mut().for_each(|(key, _)| outward_in(&mut key[1..]));
    unnamed.sort_unstable_by(|(a, _), (b, _)| {
        let by_stack = maps_of(a).cmp(&maps_of(b)).then_with(|| a[1..].cmp(&b[1..]));
        by_stack.then_with(|| a[0].cmp(&b[0]))
    });
    let mut places = IndexSet::default();
    // For each word of a key that differs from the previous key, the index of its address.
    let mut numbers = Vec::new();
    let mut before: &[u64] = &[NO_MAPS.into()];
    for (key, _) in &unnamed {
        let shared = shared(before, key);
        let mut is_user = false;
        for (at, &word) in key.iter().enumerate().skip(1) {
            if word >= PERF_CONTEXT_MAX {
                is_user = word == PERF_CONTEXT_USER;
            } else if at >= shared {
                let maps = if is_user { maps_of(key) } else { NO_MAPS };
                numbers.push(places.insert_full((maps, word)).0);
            }
        }
        before = key;
    }
    let functions = functions(&places, spaces, symbols, stacks);
    let mut numbers = numbers.into_iter();
    // The node of each word of the previous key.
    let mut nodes: Vec<Option<u32>> = vec![None];
    before = &[NO_MAPS as u64];
    for (key, (samples, weight)) in &unnamed {
        nodes.truncate(shared(before, key));
        for &word in &key[nodes.len()..] {
            let mut node = *nodes.last().expect("the first word stays");
            if word < PERF_CONTEXT_MAX {
                let place = numbers.next().expect("each address has been looked up");
                // From the innermost inlined one outward.
                for &function in functions[place].iter().rev() {
                    node = Some(stacks.node(node, function));
                }
            }
            nodes.push(node);
        }
        let program = (key[0] >> 32) as u32;
        stacks.count(program, *nodes.last().expect("the first word stays"), *samples, *weight);
        before = key;
    }
}

/// The number of the maps of a stack.
pub(super) fn maps_of(key: &[u64]) -> u32 {
    key[0] as u32
}

/// Length of the common prefix of two keys.
fn shared(a: &[u64], b: &[u64]) -> usize {
    if maps_of(a) != maps_of(b) {
        return 1;
    }
    1 + a[1..].iter().zip(&b[1..]).take_while(|(a, b)| a == b).count()
}

/// Reverses a stack, and turns return addresses into call addresses. Markers stay before their addresses.
fn outward_in(stack: &mut [u64]) {
    stack.reverse();
    let mut start = 0;
    while start < stack.len() {
        let length = stack[start..].iter().position(|word| *word >= PERF_CONTEXT_MAX);
        let end = length.map_or(stack.len(), |length| start + length + 1);
        let part = &mut stack[start..end];
        let addresses = match length {
            Some(_) => {
                part.rotate_right(1);
                &mut part[1..]
            }
            None => part,
        };
        // The innermost address is the sampled instruction. The others are return addresses.
        if let [calls @ .., _] = addresses {
            calls.iter_mut().for_each(|address| *address = address.saturating_sub(1));
        }
        start = end;
    }
}

/// The functions at each address, from the innermost inlined one outward.
fn functions(
    places: &IndexSet<(u32, u64), RandomState>,
    spaces: &Spaces,
    symbols: &mut Symbols,
    stacks: &mut Stacks,
) -> Vec<Box<[u32]>> {
    let address = |maps, address| match maps {
        NO_MAPS => Address::Kernel(address),
        _ => Address::user(address, spaces.find(maps, address)),
    };
    let mut addresses: Vec<(Address, usize)> =
        places.iter().map(|&(maps, at)| address(maps, at)).zip(0..).collect();
    addresses.sort_unstable();
    let mut functions = vec![Box::default(); addresses.len()];
    for (address, number) in &addresses {
        functions[*number] = symbols.find(address, stacks);
    }
    functions
}
