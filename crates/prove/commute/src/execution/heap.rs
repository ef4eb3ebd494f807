//! What is known about the maps and lists of the initial state. All orders of the operations share this
//! knowledge.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use crate::facts::Int;

/// Entries of maps and elements of lists, by the label of the map or list.
#[derive(Default)]
pub(crate) struct Heap {
    /// Each value is an `Rc<Vec<(K, V)>>`.
    maps: HashMap<String, Box<dyn Any>>,
    lists: HashMap<String, Vec<Int>>,
}

impl Heap {
    /// The known entries of a map, oldest first.
    pub(crate) fn entries<K: 'static, V: 'static>(&self, map: &str) -> Rc<Vec<(K, V)>> {
        self.maps.get(map).map_or_else(Rc::default, |entries| {
            let entries: &Rc<Vec<(K, V)>> = entries.downcast_ref().expect(ONE_TYPE);
            Rc::clone(entries)
        })
    }

    /// Adds an entry, whose key must differ from all known keys.
    pub(crate) fn add<K, V>(&mut self, map: &str, key: K, value: V)
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        if !self.maps.contains_key(map) {
            self.maps.insert(map.to_owned(), Box::new(Rc::new(Vec::<(K, V)>::new())));
        }
        let entries = self.maps.get_mut(map).and_then(|entries| entries.downcast_mut());
        let entries: &mut Rc<Vec<(K, V)>> = entries.expect(ONE_TYPE);
        Rc::make_mut(entries).push((key, value));
    }

    /// The known elements of a list.
    pub(crate) fn list(&self, label: &str) -> &[Int] {
        self.lists.get(label).map_or(&[], Vec::as_slice)
    }

    /// Appends an element to a list.
    pub(crate) fn append(&mut self, label: &str, element: Int) {
        self.lists.entry(label.to_owned()).or_default().push(element);
    }
}

const ONE_TYPE: &str = "maps with the same label have the same type";
