//! Facts about unknown values: equalities of names, bounds on integers, and flags.
//!
//! Names are terms of uninterpreted sorts, kept in a union-find structure with a list of pairs that
//! differ. An integer is a variable plus a constant. Facts about integers are bounds on
//! differences, closed under the triangle inequality (difference-bound matrices: D. Dill, "Timing
//! assumptions and verification of finite-state concurrent systems", 1989). If each new fact is
//! consistent with the earlier facts, all facts together are satisfiable. So no solver is needed:
//! if the facts do not imply the answer to a question, both answers are possible.

use crate::literal::{Literal, show_sum};

/// The sort of words. A question about a word compares it with a literal word. All literal words
/// differ from each other.
pub const WORD: &str = "Word";
/// An entry of `bounds` that is not a bound: the difference may be arbitrarily large.
const FREE: i64 = i64::MAX;

/// A term of an uninterpreted sort. The only possible fact about two names is whether they are
/// equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

/// An integer: a variable plus a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int {
    /// The number of the variable. Variable 0 has the value 0.
    var: u32,
    plus: i64,
}

impl From<i64> for Int {
    fn from(plus: i64) -> Self {
        Self { var: 0, plus }
    }
}

impl std::ops::Add<i64> for Int {
    type Output = Self;

    fn add(self, n: i64) -> Self {
        Self { plus: self.plus + n, ..self }
    }
}

impl std::ops::Sub<i64> for Int {
    type Output = Self;

    fn sub(self, n: i64) -> Self {
        self + -n
    }
}

/// An unknown truth value: a part of the initial state, or an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flag(u32);

/// A question whose answer is yes or no.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Are these two names equal?
    Same(Name, Name),
    /// Is the first integer at most the second?
    AtMost(Int, Int),
    /// Is this flag true?
    Is(Flag),
}

/// The known facts.
#[derive(Debug, Clone)]
pub struct Facts {
    names: Vec<NameInfo>,
    /// Pairs of names that differ.
    differ: Vec<(u32, u32)>,
    /// The names that are literal words.
    words: Vec<u32>,
    constants: Vec<u32>,
    /// Pairs of fresh names that the explorer made equal, each with the index of the explorer's choice.
    agreed: Vec<(u32, u32, usize)>,
    ints: Vec<IntInfo>,
    /// `bounds[i][j]` is the maximum of variable i - variable j.
    bounds: Vec<Vec<i64>>,
    flags: Vec<(String, Option<bool>)>,
}

#[derive(Debug, Clone)]
struct NameInfo {
    label: String,
    sort: &'static str,
    parent: u32,
    fresh: bool,
}

#[derive(Debug, Clone)]
struct IntInfo {
    label: String,
    /// Whether the interface leaves the integer open, so that the explorer may choose its value.
    is_open: bool,
    /// The index of the first choice that made this integer equal to another integer.
    agreed: Option<usize>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            differ: Vec::new(),
            words: Vec::new(),
            constants: Vec::new(),
            agreed: Vec::new(),
            ints: vec![IntInfo { label: String::new(), is_open: false, agreed: None }],
            bounds: vec![vec![0]],
            flags: Vec::new(),
        }
    }
}

impl Facts {
    /// A new name of a sort.
    pub fn name(&mut self, sort: &'static str, label: impl Into<String>) -> Name {
        let id = self.names.len() as u32;
        let label = label.into();
        self.names.push(NameInfo { label, sort, parent: id, fresh: false });
        Name(id)
    }

    /// A new name that differs from all other names of its sort, including later names, unless the explorer
    /// makes it equal to another fresh name.
    pub fn fresh(&mut self, sort: &'static str, label: impl Into<String>) -> Name {
        let name = self.name(sort, label);
        self.names[name.0 as usize].fresh = true;
        name
    }

    /// A new literal word, which differs from all other literal words.
    pub fn word(&mut self, word: &str) -> Name {
        let id = self.name(WORD, word);
        self.differ.extend(self.words.iter().map(|other| (*other, id.0)));
        self.words.push(id.0);
        id
    }

    /// A new name, which may be equal to other names. Tests print a constant as its label, and other
    /// names as a sort and a number (`key0`).
    pub fn constant(&mut self, sort: &'static str, label: &str) -> Name {
        let id = self.name(sort, label);
        self.constants.push(id.0);
        id
    }

    /// The label of the constant that a name is known to be equal to.
    pub(crate) fn constant_of(&self, name: Name) -> Option<&str> {
        let is_it = |constant: &&u32| self.root(**constant) == self.root(name.0);
        let constant = self.constants.iter().find(is_it);
        constant.map(|constant| self.names[*constant as usize].label.as_str())
    }

    /// Records that two fresh names differ, so that no choice can make them equal.
    pub(crate) fn keep_apart(&mut self, a: Name, b: Name) {
        self.differ.push((a.0, b.0));
    }

    /// Whether the explorer can choose two fresh names to be equal. Fresh names that were created in the same
    /// order of the calls cannot be equal.
    pub(crate) fn names_can_agree(&self, a: Name, b: Name) -> bool {
        let (a, b) = (self.root(a.0), self.root(b.0));
        let [x, y] = [a, b].map(|id| &self.names[id as usize]);
        a != b && x.fresh && y.fresh && x.sort == y.sort && !self.are_apart(a, b)
    }

    /// Makes two fresh names equal. `choice` is the index of the explorer's choice that requires this.
    pub(crate) fn agree_names(&mut self, a: Name, b: Name, choice: usize) {
        self.agreed.push((a.0, b.0, choice));
        self.merge(a, b);
    }

    /// The index of the last choice that made two names in the class of `a` and `b` equal. `None` if there
    /// was no such choice, or if `a` and `b` are not known to be equal.
    pub(crate) fn choice_of_names(&self, a: Name, b: Name) -> Option<usize> {
        if self.root(a.0) != self.root(b.0) {
            return None;
        }
        let class = self.root(a.0);
        let of_class = self.agreed.iter().filter(|(one, ..)| self.root(*one) == class);
        of_class.map(|(.., choice)| *choice).max()
    }

    /// The labels of each pair of names that the explorer made equal.
    pub(crate) fn agreed_names(&self) -> Vec<(String, String)> {
        let label = |id: u32| self.names[id as usize].label.clone();
        self.agreed.iter().map(|(a, b, _)| (label(*a), label(*b))).collect()
    }

    /// Whether a name can be equal to this word.
    pub(crate) fn can_be_word(&self, name: Name, word: &str) -> bool {
        let is_it = |id: &&u32| self.names[**id as usize].label == word;
        match self.words.iter().find(is_it) {
            Some(id) => self.answer_same(name, Name(*id)) != Some(false),
            // No question has compared a name with this word, so the name can be this word unless
            // it is known to be another literal word.
            None => !self.words.iter().any(|id| self.root(*id) == self.root(name.0)),
        }
    }

    /// A new integer from `least` to `most`. If a bound is `None`, the integer is not limited on that side.
    pub fn int(&mut self, label: impl Into<String>, least: Option<i64>, most: Option<i64>) -> Int {
        let var = self.ints.len();
        self.ints.push(IntInfo { label: label.into(), is_open: false, agreed: None });
        for row in &mut self.bounds {
            row.push(FREE);
        }
        self.bounds.push(vec![FREE; var + 1]);
        self.bounds[var][var] = 0;
        let int = Int { var: var as u32, plus: 0 };
        if let Some(least) = least {
            self.assume_at_most(least.into(), int);
        }
        if let Some(most) = most {
            self.assume_at_most(int, most.into());
        }
        int
    }

    /// A new flag.
    pub fn flag(&mut self, label: impl Into<String>) -> Flag {
        self.flags.push((label.into(), None));
        Flag(self.flags.len() as u32 - 1)
    }

    /// Lets the explorer choose the value of `int`: see [`Facts::can_agree`].
    pub fn leave_open(&mut self, int: Int) {
        self.ints[int.var as usize].is_open = true;
    }

    fn root(&self, mut id: u32) -> u32 {
        while self.names[id as usize].parent != id {
            id = self.names[id as usize].parent;
        }
        id
    }

    /// The answer to a question, if the facts imply an answer.
    pub fn answer(&self, question: &Question) -> Option<bool> {
        match *question {
            Question::Same(a, b) => self.answer_same(a, b),
            Question::AtMost(a, b) => self.answer_at_most(a, b),
            Question::Is(flag) => self.flags[flag.0 as usize].1,
        }
    }

    fn answer_same(&self, a: Name, b: Name) -> Option<bool> {
        let (a, b) = (self.root(a.0), self.root(b.0));
        if a == b {
            return Some(true);
        }
        let [x, y] = [a, b].map(|id| &self.names[id as usize]);
        assert_eq!(x.sort, y.sort, "{} and {} cannot be compared", x.label, y.label);
        (x.fresh || y.fresh || self.are_apart(a, b)).then_some(false)
    }

    /// Whether two classes, given by their roots, are known to differ.
    fn are_apart(&self, a: u32, b: u32) -> bool {
        self.differ.iter().any(|&(x, y)| {
            let pair = (self.root(x), self.root(y));
            pair == (a, b) || pair == (b, a)
        })
    }

    fn answer_at_most(&self, a: Int, b: Int) -> Option<bool> {
        // a.var - b.var <= most ?
        let most = b.plus - a.plus;
        let (i, j) = (a.var as usize, b.var as usize);
        if self.bounds[i][j] <= most {
            return Some(true);
        }
        // b.var - a.var <= -most - 1, so a.var - b.var > most.
        (self.bounds[j][i] < -most).then_some(false)
    }

    /// Adds an answer to the facts. Returns `false` if the facts contradict the answer.
    pub fn assume(&mut self, question: &Question, answer: bool) -> bool {
        if let Some(known) = self.answer(question) {
            return known == answer;
        }
        match (question, answer) {
            (&Question::Same(a, b), true) => self.merge(a, b),
            (&Question::Same(a, b), false) => self.differ.push((a.0, b.0)),
            (&Question::AtMost(a, b), true) => self.assume_at_most(a, b),
            (&Question::AtMost(a, b), false) => self.assume_at_most(b + 1, a),
            (&Question::Is(flag), answer) => self.flags[flag.0 as usize].1 = Some(answer),
        }
        true
    }

    fn merge(&mut self, a: Name, b: Name) {
        let (a, b) = (self.root(a.0), self.root(b.0));
        // The older name represents the class, so that formulas show the more familiar label.
        let (old, new) = (a.min(b), a.max(b));
        self.names[old as usize].fresh |= self.names[new as usize].fresh;
        self.names[new as usize].parent = old;
    }

    fn assume_at_most(&mut self, a: Int, b: Int) {
        let most = b.plus - a.plus;
        let (i, j) = (a.var as usize, b.var as usize);
        if most >= self.bounds[i][j] {
            return;
        }
        self.bounds[i][j] = most;
        let add = |x: i64, y: i64| if x == FREE || y == FREE { FREE } else { x + y };
        for x in 0..self.ints.len() {
            for y in 0..self.ints.len() {
                let by = add(add(self.bounds[x][i], most), self.bounds[j][y]);
                if by < self.bounds[x][y] {
                    self.bounds[x][y] = by;
                }
            }
        }
    }

    /// Whether two integers can be chosen to be equal: at least one of the two is open, and the facts
    /// allow equality.
    pub fn can_agree(&self, a: Int, b: Int) -> bool {
        let may = |answer: Option<bool>| answer != Some(false);
        (self.is_open(a) || self.is_open(b))
            && may(self.answer_at_most(a, b))
            && may(self.answer_at_most(b, a))
    }

    /// Finds a bound on the difference of two integers that are not open. The bound follows from the facts
    /// and the bounds `at_most` together, but not from the facts alone. The explorer must not choose the
    /// values of integers that are not open, so it must ask whether the bound holds. For example, an open
    /// integer that is at least `x` can be equal to `y` only if `x` ≤ `y`. If `x` and `y` are not open, the
    /// explorer must ask whether `x` ≤ `y`.
    pub fn implied_by(&self, at_most: &[(Int, Int)]) -> Option<Question> {
        let mut then = self.clone();
        at_most.iter().for_each(|&(a, b)| then.assume_at_most(a, b));
        let closed = || (0..self.ints.len()).filter(|&var| !self.ints[var].is_open);
        let new = |&(i, j): &(usize, usize)| then.bounds[i][j] < self.bounds[i][j];
        let (i, j) = closed().flat_map(|i| closed().map(move |j| (i, j))).find(new)?;
        let int = |var: usize| Int { var: var as u32, plus: 0 };
        Some(Question::AtMost(int(i), int(j) + then.bounds[i][j]))
    }

    /// Makes two integers equal. `choice` is the index of the explorer's choice that requires this.
    pub fn agree(&mut self, a: Int, b: Int, choice: usize) {
        self.assume_at_most(a, b);
        self.assume_at_most(b, a);
        for int in [a, b].map(|int| int.var as usize) {
            if self.ints[int].is_open {
                self.ints[int].agreed.get_or_insert(choice);
            }
        }
    }

    /// The index of the first choice that made `a` or `b` equal to another integer.
    pub fn choice(&self, a: Int, b: Int) -> Option<usize> {
        let [a, b] = [a, b].map(|int| self.ints[int.var as usize].agreed);
        a.into_iter().chain(b).min()
    }

    /// The sort of a name.
    pub fn sort(&self, name: Name) -> &'static str {
        self.names[name.0 as usize].sort
    }

    /// The label of the name itself, even if an older name is equal to it.
    pub(crate) fn own_label(&self, name: Name) -> &str {
        &self.names[name.0 as usize].label
    }

    /// The oldest of the names that are known to be equal to `name`, including `name` itself.
    pub(crate) fn oldest(&self, name: Name) -> Name {
        Name(self.root(name.0))
    }

    /// The kind of an integer, which is the last part of its label: `off` of `a.off`.
    pub fn kind(&self, int: Int) -> &str {
        let label = &self.ints[int.var as usize].label;
        label.rsplit_once('.').map_or(label, |(_, kind)| kind)
    }

    /// Whether the name is fresh: it differs from all names of the initial state and of arguments.
    pub fn is_fresh(&self, name: Name) -> bool {
        self.names[self.root(name.0) as usize].fresh
    }

    /// Whether the interface leaves the integer open.
    pub fn is_open(&self, int: Int) -> bool {
        self.ints[int.var as usize].is_open
    }

    /// The lower bound of an integer, if it has one.
    pub fn least(&self, int: Int) -> Option<i64> {
        let below = self.bounds[0][int.var as usize];
        (below != FREE).then(|| int.plus - below)
    }

    /// The label of the oldest of the names that are known to be equal to `name`.
    pub fn label(&self, name: Name) -> &str {
        &self.names[self.root(name.0) as usize].label
    }

    /// The integer as text: `2`, `a.off`, `len + 1`.
    pub fn show_int(&self, int: Int) -> String {
        show_sum(&self.ints[int.var as usize].label, int.plus)
    }

    /// The question, or its negation, as a formula.
    pub fn show(&self, question: &Question, answer: bool) -> String {
        self.literal(question).show(answer)
    }

    /// The question with labels in place of terms.
    pub fn literal(&self, question: &Question) -> Literal {
        let name = |name: Name| self.names[name.0 as usize].label.clone();
        let int = |int: Int| self.ints[int.var as usize].label.clone();
        match *question {
            Question::Same(a, b) => Literal::Same(self.sort(a).to_owned(), name(a), name(b)),
            Question::AtMost(a, b) => Literal::AtMost(int(a), a.plus - b.plus, int(b)),
            Question::Is(flag) => Literal::Is(self.flags[flag.0 as usize].0.clone()),
        }
    }

    /// The labels of all fresh names, and of all open integers.
    pub(crate) fn fresh_and_open(&self) -> (Vec<String>, Vec<String>) {
        let fresh = self.names.iter().filter(|name| name.fresh).map(|name| name.label.clone());
        let open = self.ints.iter().filter(|int| int.is_open).map(|int| int.label.clone());
        (fresh.collect(), open.collect())
    }

    /// The value of an integer, given the values of the variables.
    pub(crate) fn value(int: Int, values: &[i64]) -> i64 {
        values[int.var as usize] + int.plus
    }

    /// A value for each variable, such that the values together satisfy the facts. In the order of creation,
    /// each variable gets the smallest possible value that is not negative, or the greatest possible value if
    /// all possible values are negative.
    pub fn example_ints(&self) -> Vec<i64> {
        let mut facts = self.clone();
        let mut values = vec![0];
        for var in 1..facts.ints.len() {
            let int = Int { var: var as u32, plus: 0 };
            let (most, least) = (facts.bounds[var][0], facts.bounds[0][var]);
            let least = if least == FREE { i64::MIN } else { -least };
            let value = if least <= 0 && 0 <= most {
                0
            } else if least > 0 {
                least
            } else {
                most
            };
            facts.assume_at_most(int, value.into());
            facts.assume_at_most(value.into(), int);
            values.push(value);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_names_share_the_oldest_label_and_different_names_stay_different() {
        let mut facts = Facts::default();
        let [a, b, c] = ["a", "b", "c"].map(|label| facts.name("key", label));
        assert!(facts.assume(&Question::Same(b, c), false));
        assert!(facts.assume(&Question::Same(a, c), true));
        assert_eq!(facts.answer(&Question::Same(a, b)), Some(false));
        assert_eq!(facts.label(c), "a");
        assert!(!facts.assume(&Question::Same(b, a), true));
        let new = facts.fresh("key", "new");
        let later = facts.name("key", "later");
        assert_eq!(facts.answer(&Question::Same(new, later)), Some(false));
    }

    #[test]
    fn open_integers_agree_if_the_facts_allow_it() {
        let mut facts = Facts::default();
        let old = facts.int("old", None, None);
        let [t, u] = ["t", "u"].map(|label| facts.int(label, None, None));
        for time in [t, u] {
            facts.leave_open(time);
            assert!(facts.assume(&Question::AtMost(old, time), true));
        }
        assert!(facts.can_agree(t, u));
        assert_eq!(facts.implied_by(&[(t, u), (u, t)]), None);
        facts.agree(t, u, 0);
        assert_eq!(facts.answer(&Question::AtMost(t, u)), Some(true));
        assert!(!facts.can_agree(old, old - 1));
        assert!(!facts.can_agree(t, old - 1));
    }

    #[test]
    fn a_choice_decides_nothing_about_integers_that_are_not_open() {
        let mut facts = Facts::default();
        let [mtime, ctime, t] = ["mtime", "ctime", "t"].map(|label| facts.int(label, None, None));
        facts.leave_open(t);
        for old in [mtime, ctime] {
            assert!(facts.assume(&Question::AtMost(old, t), true));
        }
        assert!(facts.can_agree(mtime, t));
        let wanted = Question::AtMost(ctime, mtime);
        let equal = [(mtime, t), (t, mtime)];
        assert_eq!(facts.implied_by(&equal), Some(wanted.clone()));
        assert!(facts.assume(&wanted, true));
        assert_eq!(facts.implied_by(&equal), None);
        facts.agree(mtime, t, 7);
        assert_eq!((facts.choice(t, ctime), facts.choice(mtime, ctime)), (Some(7), None));
    }

    /// All ways to choose three integers between -2 and 2.
    fn assignments() -> impl Iterator<Item = [i64; 3]> {
        let range = -2..=2i64;
        range.clone().flat_map(move |x| {
            let range = range.clone();
            range.clone().flat_map(move |y| range.clone().map(move |z| [x, y, z]))
        })
    }

    proptest! {
        #[test]
        fn answers_about_integers_agree_with_trying_all_assignments(
            steps in prop::collection::vec((0usize..4, 0usize..4, -4i64..5, any::<bool>()), 1..12)
        ) {
            let mut facts = Facts::default();
            let mut terms = vec![Int::from(0)];
            terms.extend(["x", "y", "z"].map(|label| facts.int(label, Some(-2), Some(2))));
            let mut left: Vec<[i64; 3]> = assignments().collect();
            for (i, j, plus, answer) in steps {
                let holds = |values: &[i64; 3]| {
                    let values = [0, values[0], values[1], values[2]];
                    values[i] <= values[j] + plus
                };
                let question = Question::AtMost(terms[i], terms[j] + plus);
                let yes = left.iter().filter(|values| holds(values)).count();
                let expected = match yes {
                    0 => Some(false),
                    n if n == left.len() => Some(true),
                    _ => None,
                };
                prop_assert_eq!(facts.answer(&question), expected);
                if facts.assume(&question, answer) {
                    left.retain(|values| holds(values) == answer);
                }
                prop_assert!(!left.is_empty());
                let example = facts.example_ints();
                prop_assert!(left.contains(&[example[1], example[2], example[3]]));
            }
        }
    }
}
