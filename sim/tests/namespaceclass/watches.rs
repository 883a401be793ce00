//! Watches that can't list at once: every flow ends the same.

use std::time::Duration;

use super::flows::{End, FLOWS, prepared};
use crate::bystanders::Objects;
use crate::refusal::{CLASSES, Refusal};

/// The operator dies when the users have done what they do, so that all its watches begin anew.
#[test]
fn refused_in_any_way_at_any_list_every_flow_ends_the_same() {
    let mut runs = 0;
    for flow in &FLOWS {
        let end = End::of(flow);
        for class in CLASSES {
            for number in 1.. {
                let mut bench = prepared(flow);
                (flow.act)(&mut bench);
                let objects = Objects::of(&bench.cluster.server);
                let (refusal, lists) = Refusal::new(number, class);
                bench.cluster.weather = Box::new(refusal);
                bench.cluster.crash(0, Some(Duration::ZERO));
                bench.settle();
                end.is_reached(&mut bench, &objects, &format!("{}: {class} at list {number}", flow.name));
                if lists.get() < number {
                    break;
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs with a watch that is refused");
    assert!(runs > 200);
}
