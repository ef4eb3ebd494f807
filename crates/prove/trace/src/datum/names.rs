//! Names for the data in a guest's cache lines, whichever kernel the guest runs.

use super::Datum;
use crate::record::Conflict;

/// Names the data of a guest.
pub(crate) trait DataNames {
    /// The names of the fields or variables that contain these bytes of a line.
    fn fields(&mut self, conflict: &Conflict, bytes: u64) -> Vec<String>;

    /// The data that the calls share in the line of a conflict.
    fn datum(&mut self, conflict: &Conflict) -> Datum {
        let touched = conflict.sides.iter().fold(0, |all, side| all | side.read | side.written);
        let written = conflict.sides.iter().fold(0, |all, side| all | side.written);
        let shared = conflict.shared_bytes();
        if shared != 0 {
            return Datum::shared(self.fields(conflict, shared));
        }
        let mut fields = self.fields(conflict, written);
        let mut beside = self.fields(conflict, touched & !written);
        beside.retain(|field| !fields.contains(field));
        if let (true, Some(first)) = (beside.is_empty(), conflict.first_writer()) {
            let first = self.fields(conflict, first.written);
            (fields, beside) = fields.into_iter().partition(|field| first.contains(field));
        }
        Datum::falsely_shared(fields, beside)
    }
}
