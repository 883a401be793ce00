//! Tests of lists that come in one answer, whose document has several parts.

use lockstep_engine::document::{Condenser, Document};
use proptest::prelude::*;

use super::*;
use crate::fleet::Parser;
use crate::pager::Pager;
use crate::resource::Dialect;
use crate::selector::Selector;
use crate::unvisited::Unvisited;

fn in_parts(text: &str, part_bytes: usize) -> Document {
    let mut condenser = Condenser::with_parts(&fleet::fields(), part_bytes);
    condenser.push(text.as_bytes()).unwrap();
    condenser.finish().unwrap()
}

/// Returns the publications of a cycle that reads this document. The broker confirms each after all earlier ones.
fn publications(document: Document) -> Vec<String> {
    let (mut sentinel, now, mut waiting, _) = unanswered(&Success::Document(document), is_publication);
    let mut published = Vec::new();
    while let Some(publication) = waiting.pop_front() {
        published.push(asked(&publication.action));
        let outcome = confirmed(&publication.action);
        let step = sentinel.step(Event::Finished { id: publication.id, outcome }, now);
        waiting.extend(step.requests.into_iter().filter(|request| is_publication(&request.action)));
    }
    assert!(sentinel.cycle.is_none(), "the cycle has ended");
    published
}

#[test]
fn a_list_in_parts_is_published_like_one_that_is_held_whole() {
    let item =
        |number: usize| json!({ "id": format!("{:05}", number % 8000), "labels": { "region": "us-east" } });
    let text = json!({ "items": (0..9000).map(item).collect::<Vec<_>>() }).to_string();
    let parts = in_parts(&text, 10_000);
    assert!(parts.parts() > 20, "{} parts", parts.parts());
    let whole = publications(text.into());
    assert_eq!(whole.len(), 80);
    assert_eq!(publications(parts), whole);
}

/// Reads pages one after the other. Returns what is visited of each, in which batches, and the state of the pager at the end.
fn read(pages: impl Iterator<Item = Document>, dialect: Dialect) -> String {
    let selector = Selector::default();
    let parser = Parser { dialect, selector: &selector, keeps_documents: true };
    let (mut pager, mut seen) = (Pager::new(dialect), String::new());
    for document in pages {
        let mut page = parser.page(&document).unwrap();
        let _ = writeln!(seen, "{} {} {:?} {:?}", page.items, page.spoiled, page.total, page.malformed);
        let _ = writeln!(seen, "{:?}", pager.took(&mut page));
        let mut unvisited = Unvisited::new(page, document);
        while !unvisited.is_empty() {
            let _ = writeln!(seen, "{:?}", unvisited.take(3, parser));
        }
    }
    format!("{seen}{pager:?}")
}

fn item() -> impl Strategy<Value = Value> {
    let phase = prop::sample::select(vec![json!("Ready"), json!("Provisioning"), json!(4)]);
    prop_oneof![
        8 => (0u8..30, phase).prop_map(|(id, phase)| {
            json!({ "id": format!("{id:02}"), "status": { "phase": phase, "conditions": [] } })
        }),
        // An id that no search can contain, an item without an id, and one that is no object.
        1 => Just(json!({ "id": "a\\b" })),
        1 => Just(json!({ "id": "" })),
        1 => Just(json!("x")),
    ]
}

proptest! {
    #[test]
    fn parts_change_nothing(
        pages in prop::collection::vec(prop::collection::vec(item(), 0..20), 1..4),
        total in prop::option::of(0u64..60),
        part_bytes in 0usize..200,
        searches in any::<bool>(),
    ) {
        let dialect = if searches { Dialect::Search } else { Dialect::Labels };
        let texts = pages.iter().map(|items| json!({ "items": items, "total": total }).to_string());
        let texts: Vec<String> = texts.collect();
        let whole = read(texts.iter().map(|text| text.as_str().into()), dialect);
        prop_assert_eq!(read(texts.iter().map(|text| in_parts(text, part_bytes)), dialect), whole);
    }
}
