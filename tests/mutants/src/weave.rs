//! Writes edits into a source file, and says which of them are at a place of the result.

use std::ops::Range;

use crate::edit::Edit;

/// A source file with mutants in it.
pub(crate) struct Woven {
    pub(crate) source: String,
    places: Vec<Place>,
}

/// Where a mutant is.
struct Place {
    id: u32,
    /// Its own code.
    own: Range<usize>,
    /// Its code and what that is around.
    all: Range<usize>,
}

impl Woven {
    /// Returns whether a mutant is in it.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.places.iter().any(|place| place.id == id)
    }

    /// Returns the mutants that a part of the result is about: the one with that code, or else the one with the smallest part of the
    /// source around it, or else all with code in it.
    pub(crate) fn mutants_at(&self, at: &Range<usize>) -> Vec<u32> {
        let contains = |range: &Range<usize>| range.start <= at.start && at.end <= range.end;
        let own = self.places.iter().find(|place| contains(&place.own));
        let around =
            self.places.iter().filter(|place| contains(&place.all)).min_by_key(|place| place.all.len());
        if let Some(place) = own.or(around) {
            return vec![place.id];
        }
        let overlaps = |place: &&Place| place.own.start < at.end && at.start < place.own.end;
        self.places.iter().filter(overlaps).map(|place| place.id).collect()
    }
}

/// Writes edits into a source file. Of those around the same part, the outermost comes first.
pub(crate) fn weave(source: &str, mut edits: Vec<Edit>) -> Woven {
    // Stable, so an edit comes before those that are inside of it.
    edits.sort_by_key(|edit| (edit.around.start, usize::MAX - edit.around.end));
    let mut weaver = Weaver { source, copied: 0, woven: String::new(), places: Vec::new() };
    let mut open: Vec<(Edit, Range<usize>)> = Vec::new();
    for edit in edits {
        while open.last().is_some_and(|(outer, _)| outer.around.end <= edit.around.start) {
            let (outer, own) = open.pop().expect("it is the last one");
            weaver.close(&outer, own);
        }
        let own = weaver.insert(edit.around.start, &edit.before);
        open.push((edit, own));
    }
    while let Some((edit, own)) = open.pop() {
        weaver.close(&edit, own);
    }
    weaver.woven.push_str(&source[weaver.copied..]);
    Woven { source: weaver.woven, places: weaver.places }
}

struct Weaver<'a> {
    source: &'a str,
    copied: usize,
    woven: String,
    places: Vec<Place>,
}

impl Weaver<'_> {
    /// Inserts a text at a position of the source, and returns where it is in the result.
    fn insert(&mut self, at: usize, text: &str) -> Range<usize> {
        self.woven.push_str(&self.source[self.copied..at]);
        self.copied = at;
        let start = self.woven.len();
        self.woven.push_str(text);
        start..self.woven.len()
    }

    fn close(&mut self, edit: &Edit, own: Range<usize>) {
        let end = self.insert(edit.around.end, &edit.after).end;
        self.places.push(Place { id: edit.id, all: own.start..end, own });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(id: u32, around: Range<usize>, before: &str, after: &str) -> Edit {
        Edit { id, around, before: before.to_owned(), after: after.to_owned() }
    }

    #[test]
    fn edits_are_nested() {
        let edits = vec![
            edit(1, 2..5, "(", ")"),
            edit(2, 2..5, "<", ">"),
            edit(3, 5..6, "[", "]"),
            edit(4, 0..6, "{", "}"),
        ];
        let woven = weave("abcdef", edits);
        assert_eq!(woven.source, "{ab(<cde>)[f]}");
        assert_eq!(woven.mutants_at(&(4..5)), [2], "it is its code");
        assert_eq!(woven.mutants_at(&(5..7)), [2], "it is in the smallest part");
        assert_eq!(woven.mutants_at(&(4..11)), [4], "others are only a part of it");
        assert_eq!(weave("ab", vec![edit(5, 1..2, "(", ")")]).mutants_at(&(0..3)), [5]);
    }
}
