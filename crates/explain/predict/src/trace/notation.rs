//! Iterations as text, see [`trace`](crate::trace).

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::simulate::{Access, Hold, Iteration, Step};

/// A word that is not a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a step, such as 120, a4, x0 or u0")]
pub struct StepError(String);

/// The longest word in a message.
const LONGEST: usize = 80;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Compute { instructions } => write!(f, "{instructions}"),
            Self::Visit { line, access } => {
                let letter = match access {
                    Access::Load => 'l',
                    Access::Store => 's',
                    Access::Atomic => 'a',
                    Access::CompareExchange => 'c',
                };
                write!(f, "{letter}{line}")
            }
            Self::Acquire { lock, hold: Hold::Exclusive } => write!(f, "x{lock}"),
            Self::Acquire { lock, hold: Hold::Shared } => write!(f, "r{lock}"),
            Self::Release { lock } => write!(f, "u{lock}"),
            Self::Shootdown => f.write_str("f"),
        }
    }
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(word: &str) -> Result<Self, StepError> {
        let wrong = || StepError(word.chars().take(LONGEST).collect());
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let instructions = word.parse().map_err(|_| wrong())?;
            return Ok(Self::Compute { instructions });
        }
        if word == "f" {
            return Ok(Self::Shootdown);
        }
        let letter = word.chars().next().ok_or_else(wrong)?;
        let number = &word[letter.len_utf8()..];
        // The parser of integers accepts a sign.
        let number = Some(number).filter(|digits| !digits.starts_with('+'));
        let number: usize = number.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let visit = |access| Self::Visit { line: number, access };
        Ok(match letter {
            'l' => visit(Access::Load),
            's' => visit(Access::Store),
            'a' => visit(Access::Atomic),
            'c' => visit(Access::CompareExchange),
            'x' => Self::Acquire { lock: number, hold: Hold::Exclusive },
            'r' => Self::Acquire { lock: number, hold: Hold::Shared },
            'u' => Self::Release { lock: number },
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nr, step) in self.steps.iter().enumerate() {
            let separator = if nr > 0 { " " } else { "" };
            write!(f, "{separator}{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Iteration {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let steps: Result<Vec<Step>, StepError> =
            text.split_ascii_whitespace().map(str::parse).collect();
        Ok(Self { steps: steps? })
    }
}

impl Serialize for Iteration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Iteration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Iteration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the steps of an iteration")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Iteration, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}
