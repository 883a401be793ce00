use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Item(u64, &'static str);

impl Cached for Item {
    type Index = &'static str;

    fn resource_version(&self) -> ResourceVersion {
        self.0.into()
    }

    fn indexes(&self) -> Vec<&'static str> {
        vec![self.1]
    }
}

fn synced() -> Cache<u8, Item> {
    let mut cache = Cache::default();
    cache.start_list();
    cache.complete_list();
    cache
}

#[test]
fn a_relist_removes_what_it_does_not_contain() {
    let mut cache = synced();
    cache.observe(1, Item(1, "red"));
    cache.observe(2, Item(2, "red"));
    cache.start_list();
    cache.observe(2, Item(2, "red"));
    assert_eq!(cache.complete_list(), [(1, Item(1, "red"))]);
    assert_eq!(cache.keys_by(&"red").collect::<Vec<_>>(), [&2]);
}

#[test]
fn an_older_list_does_not_undo_what_is_known() {
    let mut cache = synced();
    cache.observe(1, Item(5, "blue"));
    cache.start_list();
    assert!(!cache.observe(1, Item(3, "red")));
    cache.complete_list();
    assert_eq!(cache.get(&1), Some(&Item(5, "blue")));
}

#[test]
fn what_was_removed_stays_so_though_the_watch_lags() {
    let mut cache = synced();
    cache.observe(1, Item(3, "red"));
    assert!(cache.removed(1, 5.into()));
    assert!(!cache.observe(1, Item(5, "red")));
    assert_eq!(cache.get(&1), None);
    assert!(!cache.vanish(&1, 6.into()));
    assert!(cache.observe(1, Item(8, "blue")), "another object of that name");
}

#[test]
fn of_what_the_watch_has_seen_go_nothing_is_remembered() {
    let mut cache = synced();
    cache.observe(1, Item(3, "red"));
    cache.vanish(&1, 4.into());
    assert!(!cache.removed(1, 3.into()));
    assert!(cache.removed.is_empty());
}

#[test]
fn an_object_removed_before_the_watch_showed_it_stays_removed() {
    let mut cache = synced();
    cache.observe(2, Item(4, "red"));
    cache.removed(1, 5.into());
    assert!(!cache.observe(1, Item(5, "red")));
    assert_eq!(cache.get(&1), None);
}

#[test]
fn what_was_removed_before_the_list_had_come_stays_so() {
    for began in [true, false] {
        let mut cache = Cache::default();
        if began {
            cache.start_list();
        }
        cache.removed(1, 5.into());
        if !began {
            cache.start_list();
        }
        assert!(!cache.observe(1, Item(5, "red")), "the list is older");
        cache.complete_list();
        assert_eq!(cache.get(&1), None);
    }
}

#[test]
fn an_answer_is_known_before_the_watch_shows_it() {
    let mut cache = synced();
    cache.observe(1, Item(5, "red"));
    assert!(cache.absorb(1, Item(7, "blue")));
    assert!(!cache.observe(1, Item(6, "red")), "the watch lags");
    assert_eq!(cache.get(&1), Some(&Item(7, "blue")));
}

#[test]
fn a_write_without_an_answer_is_doubted_until_one_succeeds() {
    let mut cache = synced();
    cache.observe(1, Item(5, "red"));
    cache.write_failed(1, &Failure::new(ErrorKind::Conflict, ""));
    assert!(!cache.is_doubted(&1), "it was refused");
    cache.write_failed(1, &Failure::new(ErrorKind::Unknown, ""));
    cache.observe(1, Item(6, "red"));
    assert!(cache.is_doubted(&1), "the watch may be behind");
    cache.confirm(1, Item(6, "red"));
    assert!(!cache.is_doubted(&1), "it had not taken effect, and the write changed nothing");
}

#[test]
fn what_is_gone_is_doubted_no_more() {
    let mut cache = synced();
    for key in 1..=3 {
        cache.observe(key, Item(5, "red"));
        cache.write_failed(key, &Failure::new(ErrorKind::Unknown, ""));
    }
    cache.vanish(&1, 6.into());
    cache.removed(2, 6.into());
    cache.start_list();
    cache.complete_list();
    assert_eq!(cache.doubted, BTreeSet::new());
}

#[test]
fn a_late_answer_does_not_bring_back_the_dead() {
    let mut cache = synced();
    cache.observe(1, Item(5, "red"));
    assert!(cache.vanish(&1, 8.into()));
    assert!(!cache.absorb(1, Item(7, "blue")));
    assert_eq!(cache.get(&1), None);
}

#[test]
fn what_has_left_the_selector_can_be_known_again() {
    let mut cache = synced();
    cache.observe(1, Item(5, "red"));
    assert!(cache.vanish(&1, 7.into()), "it was changed, so that the watch shows it no more");
    assert!(cache.absorb(1, Item(7, "blue")));
    assert_eq!(cache.get(&1), Some(&Item(7, "blue")));
}

#[test]
fn the_end_of_an_earlier_object_leaves_the_next_one_alone() {
    let mut cache = synced();
    cache.absorb(1, Item(9, "new"));
    assert!(!cache.vanish(&1, 8.into()));
    assert_eq!(cache.get(&1), Some(&Item(9, "new")));
}

/// Zero is what a text that is no number is read as.
#[test]
fn of_versions_that_cannot_be_compared_the_watch_showed_the_newest_last() {
    let mut cache = synced();
    assert!(cache.observe(1, Item(0, "red")));
    assert!(cache.observe(1, Item(0, "blue")));
    assert!(!cache.absorb(1, Item(0, "red")), "the watch may have shown a later change");
    assert_eq!(cache.get(&1), Some(&Item(0, "blue")));
    assert!(cache.removed(1, 0.into()));
    assert!(cache.observe(1, Item(0, "red")), "another object of that name");
    assert!(cache.vanish(&1, 0.into()));
    assert_eq!(cache.get(&1), None);
}

/// As a recording stores it.
fn stored(cache: &Cache<u8, Item>) -> Cache<u8, Item> {
    let text: &'static str = Box::leak(serde_json::to_string(cache).unwrap().into_boxed_str());
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_stored_cache_goes_on_where_it_stopped() {
    let mut cache = synced();
    for (key, colour) in [(1, "red"), (2, "blue"), (3, "red"), (4, "red")] {
        cache.observe(key, Item(5, colour));
    }
    cache.removed(4, 7.into());
    cache.write_failed(1, &Failure::new(ErrorKind::Unknown, ""));
    cache.observe(2, Item(8, "blue"));
    cache.start_list();
    cache.observe(1, Item(5, "red"));
    let mut cache = stored(&cache);
    assert!(cache.is_synced() && cache.is_doubted(&1) && !cache.is_doubted(&2));
    assert_eq!(cache.get(&2), Some(&Item(8, "blue")));
    assert_eq!(cache.keys_by(&"red").collect::<Vec<_>>(), [&1, &3]);
    assert!(!cache.observe(4, Item(7, "red")), "it was removed");
    assert!(!cache.absorb(5, Item(7, "red")), "the watch has shown a newer state");
    assert_eq!(cache.complete_list(), [(2, Item(8, "blue")), (3, Item(5, "red"))], "the list goes on");
    assert_eq!(cache.count_by(&"red"), 1);
}

proptest! {
    #[test]
    fn the_index_always_agrees_with_the_objects(
        operations in proptest::collection::vec((0u8..5, 0u8..5, 1u64..50, 0usize..3), 0..100)
    ) {
        let colours = ["red", "green", "blue"];
        let mut cache = Cache::default();
        for (operation, key, version, colour) in operations {
            match operation {
                0 => { cache.observe(key, Item(version, colours[colour])); }
                1 => { cache.vanish(&key, version.into()); }
                2 => { cache.absorb(key, Item(version, colours[colour])); }
                3 => cache.start_list(),
                _ => { cache.complete_list(); }
            }
            for colour in colours {
                let scanned: Vec<&u8> =
                    cache.iter().filter(|(_, item)| item.1 == colour).map(|(key, _)| key).collect();
                prop_assert_eq!(cache.keys_by(&colour).collect::<Vec<_>>(), scanned);
            }
        }
    }
}
