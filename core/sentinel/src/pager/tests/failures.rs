//! Pages that can't be read.

use super::*;

/// Reads a list in which the pages with these first rows fail; returns the items and the number of requests.
fn read_around(dialect: Dialect, fleet: &Fleet, bad: &[usize], failure: &Failure) -> (Vec<String>, usize) {
    let (mut pager, mut found, mut asked) = (Pager::new(dialect), Vec::new(), 0);
    let mut random = Random::from_seed(1);
    while let Some((place, _)) = pager.next() {
        asked += 1;
        let mut page = fleet.page(dialect, place);
        let first = page.resources.first().map(|resource| resource.id.clone());
        if bad.iter().any(|bad| first.as_ref() == Some(&fleet.ids[bad * fleet.page])) {
            pager.failed(failure, NOW, &mut random);
            continue;
        }
        pager.took(&mut page).unwrap();
        found.extend(page.resources.into_iter().map(|resource| resource.id));
    }
    assert_eq!(pager.is_complete(), bad.is_empty());
    (found, asked)
}

#[test]
fn pages_that_keep_failing_hold_back_no_others() {
    let failure = Failure::new(ErrorKind::Unavailable, "500");
    for (dialect, page) in [
        (Dialect::Search, PAGE_SIZE),
        (Dialect::Labels, PAGE_SIZE),
        (Dialect::Search, 15),
        (Dialect::Labels, 15),
    ] {
        let fleet = Fleet { page, ..Fleet::of(11 * page + page / 2) };
        for bad in [&[1][..], &[2, 3], &[0, 1, 2, 3, 4], &[3, 4, 5, 6, 7, 9], &[10, 11], &[0], &[11]] {
            let (found, asked) = read_around(dialect, &fleet, bad, &failure);
            let good = (0..12).filter(|page| !bad.contains(page));
            let good: Vec<String> =
                good.flat_map(|at| fleet.ids[at * page..].iter().take(page).cloned()).collect();
            assert_eq!(found, good, "{dialect:?} {page} {bad:?}");
            // One more request is needed to learn that nothing follows a last page that failed.
            assert!(asked <= 13 + 2 * bad.len(), "{dialect:?} {page} {bad:?}: {asked}");
        }
    }
}

/// Makes every page fail until the list is done, and returns the requested pages.
pub(super) fn fails(pager: &mut Pager, failure: &Failure) -> Vec<u64> {
    let (mut random, mut asked) = (Random::from_seed(1), Vec::new());
    while let Some((place, _)) = pager.next() {
        asked.push(place.page);
        pager.failed(failure, NOW, &mut random);
    }
    asked
}

#[test]
fn after_a_poll_that_read_nothing_the_next_begins_at_page_1() {
    for class in [ErrorKind::Unavailable, ErrorKind::Invalid, ErrorKind::NotFound] {
        let mut pager = Pager::begun(Dialect::Labels, Place { page: 50, ..Place::default() });
        fails(&mut pager, &Failure::new(class, "no"));
        assert_eq!(pager.progress().from, Place::default(), "{class:?}");
    }
}

#[test]
fn an_api_that_stays_away_gets_three_requests_a_poll() {
    let failure = Failure::new(ErrorKind::Unavailable, "503");
    let mut progress = Progress::default();
    let polls = (0..8).map(|_| {
        let mut pager = Pager::resumed(Dialect::Labels, std::mem::take(&mut progress));
        let asked = fails(&mut pager, &failure);
        progress = pager.progress();
        asked
    });
    let polls: Vec<Vec<u64>> = polls.collect();
    let all = vec![1, 1, 1, 2, 3, 4, 5, 6];
    assert_eq!((&polls[0], &polls[6]), (&all, &all), "it may be the first pages alone");
    for quiet in [1, 2, 3, 4, 5, 7] {
        assert_eq!(polls[quiet], [1, 1, 1], "poll {quiet}");
    }
}

#[test]
fn no_page_beyond_the_known_total_is_requested() {
    let failure = Failure::new(ErrorKind::Unavailable, "500");
    for dialect in [Dialect::Labels, Dialect::Search] {
        let fleet = Fleet::of(250);
        let mut pager = Pager::new(dialect);
        let (first, mut pages) = (fleet.page(dialect, &Place::default()), Vec::new());
        pager.took(&mut first.clone()).unwrap();
        while let Some((place, _)) = pager.next() {
            pages.push(place.clone());
            pager.failed(&failure, NOW, &mut Random::from_seed(1));
        }
        assert_eq!(pages.len(), 4, "{dialect:?}: the second page three times, the third once: {pages:?}");
        assert!(!pager.is_complete());
        // The total is passed from poll to poll.
        let mut next = Pager::resumed(dialect, pager.progress());
        assert_eq!(fails(&mut next, &failure), [1, 1, 1, 2, 3], "{dialect:?}");
    }
}

#[test]
fn what_was_added_after_pages_that_all_fail_is_read() {
    let failure = Failure::new(ErrorKind::Unavailable, "500");
    for dialect in [Dialect::Labels, Dialect::Search] {
        let mut pager = Pager::new(dialect);
        pager.took(&mut Fleet::of(90).page(dialect, &Place::default())).unwrap();
        assert!(pager.is_complete());
        let (grown, mut progress, mut found) = (Fleet::of(150), pager.progress(), Vec::new());
        for poll in 1..=7 {
            assert!(found.is_empty(), "{dialect:?}: poll {poll}");
            let mut pager = Pager::resumed(dialect, progress);
            while let Some((place, _)) = pager.next() {
                let mut page = grown.page(dialect, place);
                if page.resources.iter().any(|resource| resource.id == grown.ids[0]) {
                    pager.failed(&failure, NOW, &mut Random::from_seed(1));
                } else {
                    pager.took(&mut page).unwrap();
                    found.extend(page.resources.into_iter().map(|resource| resource.id));
                }
            }
            assert!(!pager.is_complete());
            progress = pager.progress();
        }
        assert_eq!(found, grown.ids[100..], "{dialect:?}");
        assert_eq!(progress.total, Some(150));
    }
}

#[test]
fn retry_after_is_honoured() {
    let mut pager = Pager::new(Dialect::Labels);
    let retry_after = Duration::from_secs(30);
    let failure = Failure { retry_after: Some(retry_after), ..Failure::new(ErrorKind::Throttled, "429") };
    pager.failed(&failure, NOW, &mut Random::from_seed(1));
    assert_eq!(pager.next().unwrap().1, NOW + retry_after);
    // A `Retry-After` of a day is not honoured for a day.
    let failure = Failure { retry_after: Some(Duration::from_hours(24)), ..failure };
    pager.failed(&failure, NOW, &mut Random::from_seed(1));
    assert_eq!(pager.next().unwrap().1, NOW + RETRY_AFTER_MAX);
}

#[test]
fn an_api_that_is_away_is_given_up() {
    let mut random = Random::from_seed(1);
    let failure = Failure::new(ErrorKind::Unavailable, "503");
    let mut pager = Pager::new(Dialect::Labels);
    let verdicts: Vec<PageVerdict> =
        std::iter::from_fn(|| (!pager.is_done()).then(|| pager.failed(&failure, NOW, &mut random))).collect();
    let (again, over) = (PageVerdict::Retry, PageVerdict::Skip);
    assert_eq!(verdicts, [again, again, over, over, over, over, over, PageVerdict::GiveUp]);
    let forbidden = Failure::new(ErrorKind::Forbidden, "401");
    assert_eq!(Pager::new(Dialect::Labels).failed(&forbidden, NOW, &mut random), PageVerdict::GiveUp);
}

#[test]
fn an_api_that_is_busy_is_waited_for() {
    let (mut pager, mut random, mut now) = (Pager::new(Dialect::Labels), Random::from_seed(1), NOW);
    let failure = Failure::new(ErrorKind::Throttled, "429");
    let mut waits = Vec::new();
    for _ in 0..20 {
        assert_eq!(pager.failed(&failure, now, &mut random), PageVerdict::Retry);
        let (place, at) = pager.next().expect("it is asked again");
        assert_eq!(place.page, 1);
        waits.push(at.since(now));
        now = at;
    }
    assert!(waits[0] <= Duration::from_secs(1) && waits[19] >= Duration::from_secs(45), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_mins(1)), "{waits:?}");
    // It has not used up the attempts at a broken page.
    assert_eq!(
        pager.failed(&Failure::new(ErrorKind::Unavailable, "500"), now, &mut random),
        PageVerdict::Retry
    );
}
