//! What is known of the unknown: equalities between names, bounds between integers, flags.
//!
//! Names are terms of an uninterpreted sort: union-find with a list of pairs that differ. Integers
//! are a variable and a constant; what is known of two is a bound of their difference, kept closed
//! under the triangle inequality (difference-bound matrices: D. Dill, "Timing assumptions and
//! verification of finite-state concurrent systems", 1989). For both, any set of facts that was
//! accepted one by one is satisfiable, so no solver is needed: a question is open exactly if
//! either answer can be true.

use crate::literal::{Literal, show_sum};

/// The sort of words: the right-hand side of a question about one is a word that is known, and
/// known words differ.
pub const WORD: &str = "Word";
/// No bound.
const FREE: i64 = i64::MAX;

/// A term of an uninterpreted sort; equal or not, nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

/// An integer: a variable, or none, and a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int {
    /// Which variable; 0 is the constant zero.
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

/// A truth value of the initial state or of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flag(u32);

/// A question that has two answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Are these equal?
    Same(Name, Name),
    /// Is the first at most the second?
    AtMost(Int, Int),
    /// Is it true?
    Is(Flag),
}

/// All that is known.
#[derive(Debug, Clone)]
pub struct Facts {
    names: Vec<NameInfo>,
    differ: Vec<(u32, u32)>,
    /// Known words.
    words: Vec<u32>,
    constants: Vec<u32>,
    /// New names that were made one so that orders agree, and when.
    agreed: Vec<(u32, u32, usize)>,
    ints: Vec<IntInfo>,
    /// `bounds[i][j]`: the most that variable i exceeds variable j by.
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
    chosen: bool,
    /// The number of the choice that made it equal to another one.
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
            ints: vec![IntInfo { label: String::new(), chosen: false, agreed: None }],
            bounds: vec![vec![0]],
            flags: Vec::new(),
        }
    }
}

impl Facts {
    /// A new term of `sort` that nothing is known of.
    pub fn name(&mut self, sort: &'static str, label: impl Into<String>) -> Name {
        let id = self.names.len() as u32;
        let label = label.into();
        self.names.push(NameInfo { label, sort, parent: id, fresh: false });
        Name(id)
    }

    /// A new term that equals no other of its sort, those to come included.
    pub fn fresh(&mut self, sort: &'static str, label: impl Into<String>) -> Name {
        let name = self.name(sort, label);
        self.names[name.0 as usize].fresh = true;
        name
    }

    /// A new word, which equals no other known word.
    pub fn word(&mut self, word: &str) -> Name {
        let id = self.name(WORD, word);
        self.differ.extend(self.words.iter().map(|other| (*other, id.0)));
        self.words.push(id.0);
        id
    }

    /// A new name that is called the same wherever it is met, though it may equal others.
    pub fn constant(&mut self, sort: &'static str, label: &str) -> Name {
        let id = self.name(sort, label);
        self.constants.push(id.0);
        id
    }

    /// The constant that a name equals, if it is known which.
    pub(crate) fn constant_of(&self, name: Name) -> Option<&str> {
        let is_it = |constant: &&u32| self.root(**constant) == self.root(name.0);
        let constant = self.constants.iter().find(is_it);
        constant.map(|constant| self.names[*constant as usize].label.as_str())
    }

    /// Says that two new names are of two things.
    pub(crate) fn keep_apart(&mut self, a: Name, b: Name) {
        self.differ.push((a.0, b.0));
    }

    /// Whether two new names may be one: no run has both.
    pub(crate) fn names_can_agree(&self, a: Name, b: Name) -> bool {
        let (a, b) = (self.root(a.0), self.root(b.0));
        let [x, y] = [a, b].map(|id| &self.names[id as usize]);
        a != b && x.fresh && y.fresh && x.sort == y.sort && !self.are_apart(a, b)
    }

    /// Makes them one; `choice` says when.
    pub(crate) fn agree_names(&mut self, a: Name, b: Name, choice: usize) {
        self.agreed.push((a.0, b.0, choice));
        self.merge(a, b);
    }

    /// When two names were made one by choice, if they were.
    pub(crate) fn choice_of_names(&self, a: Name, b: Name) -> Option<usize> {
        if self.root(a.0) != self.root(b.0) {
            return None;
        }
        let class = self.root(a.0);
        let of_class = self.agreed.iter().filter(|(one, ..)| self.root(*one) == class);
        of_class.map(|(.., choice)| *choice).max()
    }

    /// Names that were made one by choice, as they are called.
    pub(crate) fn agreed_names(&self) -> Vec<(String, String)> {
        let label = |id: u32| self.names[id as usize].label.clone();
        self.agreed.iter().map(|(a, b, _)| (label(*a), label(*b))).collect()
    }

    /// Whether a name may be this word.
    pub(crate) fn can_be_word(&self, name: Name, word: &str) -> bool {
        let is_it = |id: &&u32| self.names[**id as usize].label == word;
        match self.words.iter().find(is_it) {
            Some(id) => self.answer_same(name, Name(*id)) != Some(false),
            // Nobody has asked for it: it may be, unless it is another one.
            None => !self.words.iter().any(|id| self.root(*id) == self.root(name.0)),
        }
    }

    /// A new integer between `least` and `most`, where these are given.
    pub fn int(&mut self, label: impl Into<String>, least: Option<i64>, most: Option<i64>) -> Int {
        let var = self.ints.len();
        self.ints.push(IntInfo { label: label.into(), chosen: false, agreed: None });
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

    /// A new truth value.
    pub fn flag(&mut self, label: impl Into<String>) -> Flag {
        self.flags.push((label.into(), None));
        Flag(self.flags.len() as u32 - 1)
    }

    /// From now on `int` may be chosen so that things agree: see [`Facts::can_agree`].
    pub fn leave_open(&mut self, int: Int) {
        self.ints[int.var as usize].chosen = true;
    }

    fn root(&self, mut id: u32) -> u32 {
        while self.names[id as usize].parent != id {
            id = self.names[id as usize].parent;
        }
        id
    }

    /// The answer, where what is known decides it.
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

    /// Whether two classes, by their oldest, are known to differ.
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

    /// Takes an answer that is not yet excluded for a fact; `false` if it is excluded.
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
        // The older one stays, so that people read the name they know.
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

    /// Whether two integers can be made equal by a choice: one of them was left open, and nothing
    /// speaks against it.
    pub fn can_agree(&self, a: Int, b: Int) -> bool {
        let may = |answer: Option<bool>| answer != Some(false);
        (self.is_open(a) || self.is_open(b))
            && may(self.answer_at_most(a, b))
            && may(self.answer_at_most(b, a))
    }

    /// What would follow of integers that are not open, and is not known, if some at most others
    /// were: where an open one is at least `x`, it can equal `y` only if `x` ≤ `y`, and that nobody
    /// may choose.
    pub fn implied_by(&self, at_most: &[(Int, Int)]) -> Option<Question> {
        let mut then = self.clone();
        at_most.iter().for_each(|&(a, b)| then.assume_at_most(a, b));
        let closed = || (0..self.ints.len()).filter(|&var| !self.ints[var].chosen);
        let new = |&(i, j): &(usize, usize)| then.bounds[i][j] < self.bounds[i][j];
        let (i, j) = closed().flat_map(|i| closed().map(move |j| (i, j))).find(new)?;
        let int = |var: usize| Int { var: var as u32, plus: 0 };
        Some(Question::AtMost(int(i), int(j) + then.bounds[i][j]))
    }

    /// Makes two integers equal, which is choice number `choice`.
    pub fn agree(&mut self, a: Int, b: Int, choice: usize) {
        self.assume_at_most(a, b);
        self.assume_at_most(b, a);
        for int in [a, b].map(|int| int.var as usize) {
            if self.ints[int].chosen {
                self.ints[int].agreed.get_or_insert(choice);
            }
        }
    }

    /// The first choice that made either equal to another one.
    pub fn choice(&self, a: Int, b: Int) -> Option<usize> {
        let [a, b] = [a, b].map(|int| self.ints[int.var as usize].agreed);
        a.into_iter().chain(b).min()
    }

    /// The sort of a name.
    pub fn sort(&self, name: Name) -> &'static str {
        self.names[name.0 as usize].sort
    }

    /// What a term was called when it was new.
    pub(crate) fn own_label(&self, name: Name) -> &str {
        &self.names[name.0 as usize].label
    }

    /// The oldest of those known to be equal.
    pub(crate) fn oldest(&self, name: Name) -> Name {
        Name(self.root(name.0))
    }

    /// What an integer is, by the last part of what it is called: `off` of `a.off`.
    pub fn kind(&self, int: Int) -> &str {
        let label = &self.ints[int.var as usize].label;
        label.rsplit_once('.').map_or(label, |(_, kind)| kind)
    }

    /// Whether it equals nothing that was there before.
    pub fn is_fresh(&self, name: Name) -> bool {
        self.names[self.root(name.0) as usize].fresh
    }

    /// Whether it was left open, so that any value would do.
    pub fn is_open(&self, int: Int) -> bool {
        self.ints[int.var as usize].chosen
    }

    /// The least that an integer can be, where there is such a bound.
    pub fn least(&self, int: Int) -> Option<i64> {
        let below = self.bounds[0][int.var as usize];
        (below != FREE).then(|| int.plus - below)
    }

    /// What a term is called: by the oldest of those known to be equal.
    pub fn label(&self, name: Name) -> &str {
        &self.names[self.root(name.0) as usize].label
    }

    /// `2`, `a.off`, `len + 1`.
    pub fn show_int(&self, int: Int) -> String {
        show_sum(&self.ints[int.var as usize].label, int.plus)
    }

    /// The question or its opposite, as a formula.
    pub fn show(&self, question: &Question, answer: bool) -> String {
        self.literal(question).show(answer)
    }

    /// The question without the numbers of this execution.
    pub fn literal(&self, question: &Question) -> Literal {
        let name = |name: Name| self.names[name.0 as usize].label.clone();
        let int = |int: Int| self.ints[int.var as usize].label.clone();
        match *question {
            Question::Same(a, b) => Literal::Same(self.sort(a).to_owned(), name(a), name(b)),
            Question::AtMost(a, b) => Literal::AtMost(int(a), a.plus - b.plus, int(b)),
            Question::Is(flag) => Literal::Is(self.flags[flag.0 as usize].0.clone()),
        }
    }

    /// Names and integers that equal nothing else or were left open, as they are called.
    pub(crate) fn at_will(&self) -> (Vec<String>, Vec<String>) {
        let fresh = self.names.iter().filter(|name| name.fresh).map(|name| name.label.clone());
        let open = self.ints.iter().filter(|int| int.chosen).map(|int| int.label.clone());
        (fresh.collect(), open.collect())
    }

    /// The value of an integer, where its variables have these values.
    pub(crate) fn value(int: Int, values: &[i64]) -> i64 {
        values[int.var as usize] + int.plus
    }

    /// Values for all integers that agree with what is known, in the order of their creation:
    /// each the smallest that is possible and not negative, else the greatest.
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
    fn equal_names_are_called_by_the_oldest_and_different_ones_stay_so() {
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
    fn what_is_left_open_agrees_where_it_can() {
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
    fn a_choice_decides_nothing_of_what_is_not_open() {
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

    /// Three integers from -2 to 2 and their differences: all assignments are tried.
    fn assignments() -> impl Iterator<Item = [i64; 3]> {
        let range = -2..=2i64;
        range.clone().flat_map(move |x| {
            let range = range.clone();
            range.clone().flat_map(move |y| range.clone().map(move |z| [x, y, z]))
        })
    }

    proptest! {
        #[test]
        fn integers_are_decided_as_by_trying_all(
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
