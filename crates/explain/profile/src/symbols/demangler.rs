//! Names in the source of mangled symbols.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use cpp_demangle::DemangleOptions;
use knee_host::clock::seconds;
use rustix::time::ClockId;

/// The longest name in the source, in bytes. Names of templates can have some thousands. A mangled name of 230 bytes
/// can stand for 100 MB, because each part of it may repeat all parts before it.
const MAX_NAME: usize = 16 << 10;

/// The most time for a symbol, and the most CPU time for all symbols.
const MOST: Duration = Duration::from_secs(10);
/// That of the main thread of most systems. The functions that demangle call themselves hundreds of times.
const STACK: usize = 8 << 20;

/// The beginning of a name that is too long.
pub(super) fn cut(name: &str) -> &str {
    let end = (0..=name.len().min(MAX_NAME)).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// A name of limited length. Writing more is an error.
#[derive(Default)]
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The name in the source, if a Rust or C++ compiler mangled it. If that is too long, the mangled name.
///
/// `cpp_demangle` 0.5.1 backtracks, so its time can double with each byte of the name. A lower limit of its recursion
/// would not help. With 32 levels, a
/// tenth of the real names stay mangled, and others still take seconds.
pub(super) fn demangled(name: &str) -> Cow<'_, str> {
    let mut limited = Limited::default();
    let is_demangled = if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(limited, "{rust:#}").is_ok()
    } else if name.starts_with("_Z") || name.starts_with("__Z") {
        cpp_demangle::Symbol::new(name).is_ok_and(|symbol| {
            symbol.structured_demangle(&mut limited, &DemangleOptions::default()).is_ok()
        })
    } else {
        false
    };
    if is_demangled { limited.0.into() } else { name.into() }
}

/// Demangles the symbols of programs that other users can change, in a limited time.
///
/// The time of one symbol has no limit, so a thread does it. If the thread takes too long, it is abandoned: it runs on
/// until knee ends, and all later symbols stay mangled.
#[derive(Debug)]
pub(super) struct Demangler {
    thread: Option<Worker>,
    /// The most time for a symbol. Real ones take up to 0.1 ms, so this is for a thread that waits for a CPU.
    most: Duration,
    /// What is left of the CPU time for all symbols.
    left: Duration,
}

/// A thread that demangles one symbol after the other.
#[derive(Debug)]
struct Worker {
    symbols: Sender<String>,
    /// Each with the CPU time that it took.
    names: Receiver<(String, Duration)>,
}

impl Worker {
    /// `None` if there are too many threads.
    fn start(demangle: impl Fn(&str) -> String + Send + 'static) -> Option<Worker> {
        let (symbols, to_demangle) = channel::<String>();
        let (demangled, names) = channel();
        let work = move || {
            for symbol in to_demangle {
                let start = seconds(ClockId::ThreadCPUTime);
                let name = demangle(&symbol);
                let taken = Duration::from_secs_f64(seconds(ClockId::ThreadCPUTime) - start);
                if demangled.send((name, taken)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("demangle".into()).stack_size(STACK);
        let thread = thread.spawn(work);
        thread.is_ok().then_some(Worker { symbols, names })
    }
}

impl Default for Demangler {
    fn default() -> Demangler {
        Demangler::with(|symbol| demangled(symbol).into_owned())
    }
}

impl Demangler {
    fn with(demangle: impl Fn(&str) -> String + Send + 'static) -> Demangler {
        Demangler { thread: Worker::start(demangle), most: MOST, left: MOST }
    }

    /// The name of a symbol in the source, or the symbol if it is not mangled or the time is over.
    pub(super) fn demangled(&mut self, symbol: &str) -> String {
        self.in_thread(symbol).unwrap_or_else(|| symbol.to_owned())
    }

    /// Whether the time is over, so that all later symbols stay mangled.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_none()
    }

    fn in_thread(&mut self, symbol: &str) -> Option<String> {
        let thread = self.thread.as_ref()?;
        let sent = thread.symbols.send(symbol.to_owned());
        let received = sent.ok().and_then(|()| thread.names.recv_timeout(self.most).ok());
        let taken = received.as_ref().map_or(Duration::MAX, |(_, taken)| *taken);
        self.left = self.left.saturating_sub(taken);
        if self.left.is_zero() {
            // Without a sender, the thread ends when it has finished its symbol.
            self.thread = None;
        }
        received.map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_doubles_with_each_part_stays_mangled() {
        let levels = |count: usize| {
            let number = |n: usize| char::from_digit(n as u32, 36).unwrap().to_ascii_uppercase();
            let mut name = "_Z1f1AIiiE".to_owned();
            for n in 0..count {
                let same = format!("S{}_", number(n));
                name.push_str(&format!("S_I{same}{same}E"));
            }
            name
        };
        assert!(demangled(&levels(3)).starts_with("f(A<int, int>, A<A<int, int>, A<int, int> >"));
        let hostile = levels(25);
        assert_eq!(demangled(&hostile), hostile);
    }

    #[test]
    fn only_mangled_names_are_demangled() {
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZNSt6vectorIiE4sizeEv"), "std::vector<int>::size()");
        for c in ["f", "w", "Pi", "PKc", "main", "_Znonsense"] {
            assert_eq!(demangled(c), c);
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("name"), "name");
        assert_eq!(cut(&format!("x{}", "é".repeat(MAX_NAME))).len(), MAX_NAME - 1);
    }

    #[test]
    fn symbols_stay_mangled_after_one_that_takes_too_long() {
        let (never, wait) = channel::<()>();
        let mut demangler = Demangler::with(move |symbol| {
            if symbol == "slow" {
                let _ = wait.recv();
            }
            format!("name of {symbol}")
        });
        assert_eq!(demangler.demangled("fast"), "name of fast");
        assert!(!demangler.has_ended());
        demangler.most = Duration::from_millis(1);
        assert_eq!(demangler.demangled("slow"), "slow");
        demangler.most = Duration::MAX;
        assert_eq!(demangler.demangled("fast"), "fast");
        assert!(demangler.has_ended());
        drop(never);
    }

    #[test]
    fn symbols_stay_mangled_after_the_time_for_all_of_them() {
        let mut demangler = Demangler::default();
        assert_eq!(demangler.demangled("_Z1fv"), "f()");
        demangler.left = Duration::from_nanos(1);
        demangler.demangled("_Z1fv");
        demangler.left = Duration::MAX;
        assert_eq!(demangler.demangled("_Z1fv"), "_Z1fv");
    }

    #[test]
    fn symbols_whose_time_doubles_with_each_part_stay_mangled() {
        let repeated = |start: &str, open: &str, middle: &str, close: &str| {
            format!("_Z{start}{}{middle}{}v", open.repeat(25), close.repeat(25))
        };
        for symbol in [repeated("cv", "T_I", "i", "E"), repeated("3fooIX", "nw", "E", "Ei")] {
            let mut demangler = Demangler::default();
            assert_eq!(demangler.demangled("_Z1fv"), "f()");
            demangler.most = Duration::from_millis(10);
            assert_eq!(demangler.demangled(&symbol), symbol);
        }
    }
}
