//! Answers of APIs that are not as requested, and totals that are passed from poll to poll.

use super::failures::fails;
use super::*;

#[test]
fn an_api_that_gives_larger_pages_than_requested_is_read() {
    let fleet = Fleet::of(400);
    let mut pager = Pager::new(Dialect::Labels);
    for start in [0, 150, 300] {
        let ids = fleet.ids.iter().skip(start).take(150);
        let resources: Vec<Resource> =
            ids.map(|id| Resource { id: id.clone(), ..Resource::default() }).collect();
        let mut page = Page { items: resources.len(), resources, total: Some(400), ..Page::default() };
        assert_eq!(pager.took(&mut page), Ok(()));
    }
    assert!(pager.is_complete());
}

/// Only the numbers of later pages depend on the size.
#[test]
fn a_first_page_that_is_larger_than_requested_is_read() {
    let fleet = Fleet::of(80);
    let mut pager = Pager::new(Dialect::Labels);
    assert_eq!(oversized(&mut pager), PageVerdict::RetrySmaller);
    while let Some((place, _)) = pager.next() {
        let place = Place { size: PAGE_SIZE, ..place.clone() };
        assert_eq!(pager.took(&mut fleet.page(Dialect::Labels, &place)), Ok(()));
    }
    assert!(pager.is_complete());
}

/// Its list has exactly the length of a page.
#[test]
fn an_api_without_totals_and_page_numbers_is_read_once() {
    let fleet = Fleet { has_total: false, ..Fleet::of(PAGE_SIZE) };
    let mut pager = Pager::new(Dialect::Labels);
    for _ in 0..2 {
        assert!(!pager.is_done());
        assert_eq!(pager.took(&mut fleet.page(Dialect::Labels, &Place::default())), Ok(()));
    }
    assert!(pager.is_complete());
}

#[test]
fn the_length_of_the_whole_list_is_that_of_its_first_page() {
    let (fleet, mut pager) = (Fleet::of(250), Pager::new(Dialect::Search));
    for _ in 0..2 {
        let place = pager.next().unwrap().0.clone();
        pager.took(&mut fleet.page(Dialect::Search, &place)).unwrap();
    }
    fails(&mut pager, &Failure::new(ErrorKind::Forbidden, "403"));
    let mut next = Pager::resumed(Dialect::Search, pager.progress());
    assert_eq!(fails(&mut next, &Failure::new(ErrorKind::Unavailable, "500")), [1, 1, 1, 2, 3]);
}

#[test]
fn the_length_of_the_rest_of_a_list_is_known_to_the_next_poll() {
    let (fleet, mut pager) = (Fleet::of(1000), Pager::new(Dialect::Search));
    pager.took(&mut fleet.page(Dialect::Search, &Place::default())).unwrap();
    let failure = Failure::new(ErrorKind::Unavailable, "500");
    assert_eq!(fails(&mut pager, &failure), [1, 1, 1, 2, 3, 4, 5, 6]);
    let mut next = Pager::resumed(Dialect::Search, pager.progress());
    assert_eq!(next.next().unwrap().0.after.as_deref(), Some("000099"));
    // Nine pages follow after the first one.
    assert_eq!(fails(&mut next, &failure)[..7], [6, 6, 6, 7, 8, 9, 1]);
}
