use std::collections::BTreeSet as Set;

use proptest::prelude::*;

use super::*;
use crate::resource::Resource;

mod answers;
mod failures;

const NOW: Monotonic = Monotonic::START;

/// A fleet whose rows are added and removed between two pages.
struct Fleet {
    ids: Vec<String>,
    newest_first: bool,
    has_total: bool,
    /// The maximum number of items that it returns at a time.
    page: usize,
}

impl Fleet {
    fn of(count: usize) -> Self {
        let ids = (0..count).map(|n| format!("{n:06}")).collect();
        Self { ids, newest_first: false, has_total: true, page: PAGE_SIZE }
    }

    fn page(&self, dialect: Dialect, place: &Place) -> Page {
        let mut ids = self.ids.clone();
        let size = self.page.min(place.size);
        if dialect == Dialect::Search {
            ids.retain(|id| place.after.as_ref().is_none_or(|after| id > after));
            ids.retain(|id| place.before.as_ref().is_none_or(|before| id < before));
        } else if self.newest_first {
            ids.reverse();
        }
        let start = usize::try_from(place.page - 1).unwrap() * size;
        let total = self.has_total.then_some(ids.len() as u64);
        let resources: Vec<Resource> =
            ids.into_iter().skip(start).take(size).map(|id| Resource { id, ..Resource::default() }).collect();
        Page { items: resources.len(), resources, total, ..Page::default() }
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
        for has_total in [true, false] {
            for count in [0, 1, 99, 100, 101, 200, 1000] {
                let mut fleet = Fleet { has_total, ..Fleet::of(count) };
                let found = read(dialect, &mut fleet, |_, _| {});
                assert_eq!(found, fleet.ids, "{dialect:?} {count} {has_total}");
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
    let page = Fleet::of(250).page(Dialect::Labels, &Place::default());
    pager.took(&mut page.clone()).unwrap();
    let error = pager.took(&mut page.clone()).unwrap_err();
    assert!(error.contains("search="), "{error}");
    assert!(pager.is_done() && !pager.is_complete());
}

/// Like an API that uses the other dialect: no item that it returns can be parsed.
#[test]
fn an_api_that_ignores_the_search_leads_nowhere_though_it_is_not_understood() {
    let mut pager = Pager::new(Dialect::Search);
    let page = Page {
        items: 100,
        spoiled: 100,
        trailing: Some("000099".to_owned()),
        total: Some(250),
        ..Page::default()
    };
    pager.took(&mut page.clone()).unwrap();
    let error = pager.took(&mut page.clone()).unwrap_err();
    assert!(error.contains("search="), "{error}");
    assert!(pager.is_done() && !pager.is_complete());
}

#[test]
fn an_api_that_ignores_page_numbers_leads_nowhere() {
    let mut pager = Pager::new(Dialect::Labels);
    let page = Fleet::of(250).page(Dialect::Labels, &Place::default());
    pager.took(&mut page.clone()).unwrap();
    pager.took(&mut page.clone()).unwrap();
    let error = pager.took(&mut page.clone()).unwrap_err();
    assert!(error.contains("page="), "{error}");
    assert!(pager.is_done() && !pager.is_complete());
}

/// Reads a list whose pages can't be read if more than `most` of these rows are on them; returns the items, the number of
/// requests, and whether that was all.
fn read_large(dialect: Dialect, fleet: &Fleet, large: &[usize], most: usize) -> (Vec<String>, usize, bool) {
    let (mut pager, mut found, mut asked) = (Pager::new(dialect), Vec::new(), 0);
    let large: Set<&String> = large.iter().map(|row| &fleet.ids[*row]).collect();
    while let Some((place, _)) = pager.next() {
        asked += 1;
        assert!(asked < 10_000, "it never ends");
        let mut page = fleet.page(dialect, place);
        if page.resources.iter().filter(|resource| large.contains(&resource.id)).count() > most {
            oversized(&mut pager);
            continue;
        }
        pager.took(&mut page).unwrap();
        found.extend(page.resources.into_iter().map(|resource| resource.id));
    }
    (found, asked, pager.is_complete())
}

fn oversized(pager: &mut Pager) -> PageVerdict {
    let failure = Failure::new(ErrorKind::Invalid, "longer than 64 MiB");
    pager.oversized(&failure, NOW, &mut Random::from_seed(1))
}

#[test]
fn a_single_item_that_is_late_is_requested_again() {
    let late = Failure::new(ErrorKind::Unknown, "2 MiB of the answer came within 5s, and not all of it");
    let (mut pager, mut random) = (Pager::new(Dialect::Search), Random::from_seed(1));
    while pager.place.smaller().is_some() {
        assert_eq!(pager.oversized(&late, NOW, &mut random), PageVerdict::RetrySmaller);
    }
    let verdicts = [0; 3].map(|_| pager.oversized(&late, NOW, &mut random));
    assert_eq!(verdicts, [PageVerdict::Retry, PageVerdict::Retry, PageVerdict::Skip]);
}

/// Their number does not matter: the API answers, so the next poll continues where this one has ended.
#[test]
fn items_that_are_too_large_at_the_head_of_a_list_hide_no_other() {
    for dialect in [Dialect::Search, Dialect::Labels] {
        for large in [6, 20] {
            let fleet = Fleet::of(110);
            let (mut progress, mut found) = (Progress::default(), Set::new());
            for _ in 0..5 {
                let mut pager = Pager::resumed(dialect, progress);
                while let Some((place, _)) = pager.next() {
                    let mut page = fleet.page(dialect, place);
                    if page.resources.iter().any(|resource| fleet.ids[..large].contains(&resource.id)) {
                        oversized(&mut pager);
                        continue;
                    }
                    pager.took(&mut page).unwrap();
                    found.extend(page.resources.into_iter().map(|resource| resource.id));
                }
                progress = pager.progress();
            }
            assert_eq!(found.len(), 110 - large, "{dialect:?} {large}");
        }
    }
}

#[test]
fn pages_that_are_too_large_are_read_in_parts() {
    for dialect in [Dialect::Search, Dialect::Labels] {
        for page in [PAGE_SIZE, 25] {
            // An API that returns fewer items than requested must return the total.
            for has_total in [Some(true), Some(false).filter(|_| page == PAGE_SIZE)].into_iter().flatten() {
                let fleet = Fleet { has_total, page, ..Fleet::of(1010) };
                for large in [
                    vec![0, 1],
                    vec![500, 501, 510],
                    vec![1008, 1009],
                    (0..1010).collect(),
                    (90..130).collect(),
                ] {
                    let (found, asked, is_complete) = read_large(dialect, &fleet, &large, 1);
                    assert_eq!(found, fleet.ids, "{dialect:?} {page} {has_total}: once each, in order");
                    assert!(is_complete);
                    // The worst case is one request for each item, and a larger page now and then.
                    assert!(asked <= 1010 * 3 / 2, "{asked}");
                }
                // A few large rows cost a few requests.
                let (_, asked, _) = read_large(dialect, &fleet, &[500, 501], 1);
                assert!(asked <= 1010 / page + 60, "{dialect:?} {page}: {asked}");
            }
        }
    }
}

#[test]
fn a_row_that_is_too_large_alone_hides_no_other() {
    for dialect in [Dialect::Search, Dialect::Labels] {
        for huge in [0, 1, 99, 100, 555, 1009] {
            let fleet = Fleet::of(1010);
            let (found, _, is_complete) = read_large(dialect, &fleet, &[huge], 0);
            let others: Vec<&String> = fleet.ids.iter().filter(|id| **id != fleet.ids[huge]).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), others, "{dialect:?} {huge}");
            assert!(!is_complete, "{dialect:?} {huge}");
        }
    }
}

#[test]
fn an_api_that_gives_the_whole_list_is_asked_for_no_part() {
    let mut pager = Pager::resumed(Dialect::Labels, Progress { size: 250, ..Progress::default() });
    assert_eq!(oversized(&mut pager), PageVerdict::Skip);
}

/// Otherwise rows might be left out without any report.
#[test]
fn an_api_that_ignores_the_size_leads_nowhere() {
    let mut pager = Pager::new(Dialect::Labels);
    let fleet = Fleet { page: 50, ..Fleet::of(500) };
    pager.took(&mut fleet.page(Dialect::Labels, &Place::default())).unwrap();
    assert_eq!(oversized(&mut pager), PageVerdict::RetrySmaller);
    let place = Place { size: PAGE_SIZE, ..pager.next().unwrap().0.clone() };
    let error = pager.took(&mut fleet.page(Dialect::Labels, &place)).unwrap_err();
    assert!(error.contains("size=") && !pager.is_complete(), "{error}");
}

/// The last page has a single row: the number of removed rows must not be computed from the size of such pages.
#[test]
fn rows_that_go_before_a_short_last_page_hide_none() {
    for page in [PAGE_SIZE, 15] {
        let mut fleet = Fleet { page, ..Fleet::of(5 * page + 1) };
        let found = read(Dialect::Labels, &mut fleet, |fleet, pages| {
            if pages == 5 {
                fleet.ids.drain(..3);
            }
        });
        let once: Set<&String> = found.iter().collect();
        assert_eq!(once.len(), found.len());
        assert!(fleet.ids.iter().all(|id| once.contains(id)), "{page}: some are missing");
    }
}

#[test]
fn a_list_that_is_begun_in_the_midst_is_read_round() {
    for dialect in [Dialect::Search, Dialect::Labels] {
        for (count, after, page) in [(1150, None, 4), (1150, Some(299), 3), (250, None, 50), (0, None, 7)] {
            let fleet = Fleet::of(count);
            let after = after.map(|row: usize| fleet.ids[row].clone()).filter(|_| dialect == Dialect::Search);
            let mut pager = Pager::begun(dialect, Place { after, page, ..Place::default() });
            let (mut found, mut asked) = (Vec::new(), 0);
            while let Some((place, _)) = pager.next() {
                let mut page = fleet.page(dialect, place);
                pager.took(&mut page).unwrap();
                found.extend(page.resources.into_iter().map(|resource| resource.id));
                asked += 1;
            }
            found.sort();
            assert_eq!(found, fleet.ids, "{dialect:?}: once each");
            assert!(pager.is_complete() && asked <= count.div_ceil(PAGE_SIZE) + 2, "{dialect:?}: {asked}");
        }
    }
}

/// Two replicas of an API of which one is stale: the totals go up and down with each page.
#[test]
fn replicas_that_differ_by_a_row_do_not_hold_the_list_up() {
    let (mut fleet, mut totals) = (Fleet::of(250), [250, 249].into_iter().cycle());
    let (mut pager, mut found, mut asked) = (Pager::new(Dialect::Labels), Vec::new(), 0);
    while let Some((place, _)) = pager.next() {
        let mut page = fleet.page(Dialect::Labels, place);
        page.total = totals.next();
        pager.took(&mut page).unwrap();
        found.extend(page.resources.into_iter().map(|resource| resource.id));
        asked += 1;
        assert!(asked < 20, "it never ends");
    }
    found.sort();
    assert_eq!(found, std::mem::take(&mut fleet.ids));
}

#[test]
fn the_last_row_is_known_though_it_can_not_be_understood() {
    let mut pager = Pager::new(Dialect::Search);
    let mut page = Fleet::of(250).page(Dialect::Search, &Place::default());
    page.resources.pop();
    page.trailing = Some("000099".to_owned());
    pager.took(&mut page).unwrap();
    assert_eq!(pager.next().unwrap().0.after.as_deref(), Some("000099"));
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

    #[test]
    fn it_ends_whatever_the_totals_say(
        search in any::<bool>(),
        count in 0usize..700,
        totals in prop::collection::vec(prop::option::of(0u64..800), 1..6),
    ) {
        let dialect = if search { Dialect::Search } else { Dialect::Labels };
        let (fleet, mut pager, mut asked) = (Fleet::of(count), Pager::new(dialect), 0);
        while let Some((place, _)) = pager.next() {
            let mut page = fleet.page(dialect, place);
            page.total = totals[asked % totals.len()];
            asked += 1;
            prop_assert!(asked <= 3 * count.div_ceil(PAGE_SIZE) + 2, "{asked} pages");
            if pager.took(&mut page).is_err() {
                break;
            }
        }
    }
}
