use std::collections::BTreeSet as Set;

use proptest::prelude::*;

use super::*;
use crate::sentinel::fleet::Resource;

const NOW: Monotonic = Monotonic::START;

/// A fleet whose rows come and go between two pages.
struct Fleet {
    ids: Vec<String>,
    newest_first: bool,
    tells_total: bool,
}

impl Fleet {
    fn of(count: usize) -> Self {
        Self { ids: (0..count).map(|n| format!("{n:06}")).collect(), newest_first: false, tells_total: true }
    }

    fn page(&self, dialect: Dialect, place: &Place) -> Page {
        let mut ids = self.ids.clone();
        if dialect == Dialect::Search {
            ids.retain(|id| place.after.as_ref().is_none_or(|after| id > after));
        } else if self.newest_first {
            ids.reverse();
        }
        let start = usize::try_from(place.page - 1).unwrap() * PAGE_SIZE;
        let total = self.tells_total.then_some(ids.len() as u64);
        let resources: Vec<Resource> = ids
            .into_iter()
            .skip(start)
            .take(PAGE_SIZE)
            .map(|id| Resource { id, ..Resource::default() })
            .collect();
        Page { items: resources.len(), resources, malformed: Vec::new(), total }
    }
}

/// Reads a whole list; `between` may change the fleet before each page but the first.
fn read(dialect: Dialect, fleet: &mut Fleet, mut between: impl FnMut(&mut Fleet, usize)) -> Vec<String> {
    let (mut pager, mut found, mut pages) = (Pager::new(dialect), Vec::new(), 0);
    while let Some((place, _)) = pager.next() {
        let mut page = fleet.page(dialect, place);
        pager.took(&mut page).unwrap();
        found.extend(page.resources.into_iter().map(|resource| resource.id));
        pages += 1;
        assert!(pages < 10_000, "it never ends");
        between(fleet, pages);
    }
    assert!(pager.is_complete());
    found
}

#[test]
fn lists_of_every_length_are_read_once() {
    for dialect in [Dialect::Labels, Dialect::Search] {
        for tells_total in [true, false] {
            for count in [0, 1, 99, 100, 101, 200, 1000] {
                let mut fleet = Fleet { tells_total, ..Fleet::of(count) };
                let found = read(dialect, &mut fleet, |_, _| {});
                assert_eq!(found, fleet.ids, "{dialect:?} {count} {tells_total}");
            }
        }
    }
}

#[test]
fn rows_that_are_inserted_lose_and_double_nothing() {
    for (dialect, newest_first) in
        [(Dialect::Search, false), (Dialect::Labels, false), (Dialect::Labels, true)]
    {
        let mut fleet = Fleet { newest_first, ..Fleet::of(1000) };
        let before = fleet.ids.clone();
        let found = read(dialect, &mut fleet, |fleet, pages| {
            if pages < 50 {
                fleet.ids.extend((0..30).map(|n| format!("9{:06}", pages * 100 + n)));
            }
        });
        let once: Set<&String> = found.iter().collect();
        assert_eq!(once.len(), found.len(), "{dialect:?}: some came twice");
        assert!(before.iter().all(|id| once.contains(id)), "{dialect:?}: some are missing");
    }
}

#[test]
fn rows_that_go_hide_no_others() {
    for dialect in [Dialect::Search, Dialect::Labels] {
        let mut fleet = Fleet::of(1000);
        let found = read(dialect, &mut fleet, |fleet, pages| {
            if pages % 3 == 0 && pages < 12 {
                fleet.ids.drain(..40);
            }
        });
        let once: Set<&String> = found.iter().collect();
        assert_eq!(once.len(), found.len());
        assert!(fleet.ids.iter().all(|id| once.contains(id)), "{dialect:?}: some are missing");
    }
}

#[test]
fn an_api_that_ignores_pages_is_read_once() {
    let mut pager = Pager::new(Dialect::Labels);
    let whole = Fleet::of(250);
    let resources = whole.ids.iter().map(|id| Resource { id: id.clone(), ..Resource::default() }).collect();
    let mut page = Page { items: 250, resources, ..Page::default() };
    pager.took(&mut page).unwrap();
    assert!(pager.is_complete());
    assert_eq!(page.resources.len(), 250);
}

#[test]
fn an_api_that_ignores_the_search_leads_nowhere() {
    let mut pager = Pager::new(Dialect::Search);
    let page = Fleet::of(250).page(Dialect::Labels, &Place { after: None, page: 1 });
    pager.took(&mut page.clone()).unwrap();
    let error = pager.took(&mut page.clone()).unwrap_err();
    assert!(error.contains("search="), "{error}");
    assert!(pager.is_done() && !pager.is_complete());
}

#[test]
fn a_page_that_keeps_failing_is_passed_over_and_two_end_the_list() {
    let mut random = Random::from_seed(1);
    let failure = Failure::new(Class::Unavailable, "503");
    for dialect in [Dialect::Search, Dialect::Labels] {
        let mut pager = Pager::new(dialect);
        let fleet = Fleet::of(450);
        pager.took(&mut fleet.page(dialect, pager.next().unwrap().0)).unwrap();
        let setbacks = [(); 3].map(|()| pager.failed(&failure, NOW, &mut random));
        assert_eq!(setbacks, [Setback::Again, Setback::Again, Setback::PassedOver]);
        assert!(pager.next().unwrap().1 > NOW);
        let mut found = Vec::new();
        while let Some((place, _)) = pager.next() {
            let mut page = fleet.page(dialect, place);
            pager.took(&mut page).unwrap();
            found.extend(page.resources.into_iter().map(|resource| resource.id));
        }
        assert_eq!(found, fleet.ids[200..], "{dialect:?}");
        assert!(!pager.is_complete());
    }
    let mut pager = Pager::new(Dialect::Labels);
    let setbacks = [(); 4].map(|()| pager.failed(&failure, NOW, &mut random));
    assert_eq!(setbacks[3], Setback::GivenUp);
    let forbidden = Failure::new(Class::Forbidden, "401");
    assert_eq!(Pager::new(Dialect::Labels).failed(&forbidden, NOW, &mut random), Setback::GivenUp);
}

#[test]
fn the_wish_of_the_server_is_heeded() {
    let mut pager = Pager::new(Dialect::Labels);
    let wish = Duration::from_secs(30);
    let failure = Failure { retry_after: Some(wish), ..Failure::new(Class::Throttled, "429") };
    pager.failed(&failure, NOW, &mut Random::from_seed(1));
    assert_eq!(pager.next().unwrap().1, NOW + wish);
}

proptest! {
    #[test]
    fn every_row_that_stays_is_seen_once(
        search in any::<bool>(),
        count in 0usize..700,
        inserts in prop::collection::vec(0usize..90, 0..12),
    ) {
        let dialect = if search { Dialect::Search } else { Dialect::Labels };
        let mut fleet = Fleet::of(count);
        let before = fleet.ids.clone();
        let found = read(dialect, &mut fleet, |fleet, pages| {
            if let Some(rows) = inserts.get(pages - 1) {
                fleet.ids.extend((0..*rows).map(|n| format!("9{:06}", pages * 100 + n)));
            }
        });
        let once: Set<&String> = found.iter().collect();
        prop_assert_eq!(once.len(), found.len());
        prop_assert!(before.iter().all(|id| once.contains(id)));
    }
}
