use jiff::Timestamp;

use super::*;
use crate::machine::{Event, Step};
use crate::recording::RecordedStep;
use crate::time::{Monotonic, Now, Wall};

/// Returns a recording with these steps.
fn recording(steps: &[u64]) -> Vec<u8> {
    let now = Now { wall: Wall::from_timestamp(Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
    let header = Header {
        format: FORMAT,
        program: "1.0.0".to_owned(),
        machine: "test".to_owned(),
        config: Value::Null,
        segment: 0,
    };
    let step = |number: &u64| {
        let taken = RecordedStep { number: *number, now, event: Event::TimerFired, gave: Step::default() };
        Line::Step(taken).to_json().unwrap()
    };
    header.to_json().unwrap().into_iter().chain(steps.iter().flat_map(step)).collect()
}

/// Returns the numbers of the steps that can be read, the error that ends them, and whether the end is cut.
fn read(bytes: &[u8]) -> (Vec<u64>, Option<String>, bool) {
    let (_, mut lines) = open(bytes).unwrap();
    let (mut numbers, mut error) = (Vec::new(), None);
    for line in &mut lines {
        match line {
            Ok(Line::Step(taken)) => numbers.push(taken.number),
            Ok(Line::Checkpoint(_)) => {}
            Err(unreadable) => error = Some(unreadable.to_string()),
        }
    }
    (numbers, error, lines.is_cut())
}

#[test]
fn a_recording_is_read_up_to_a_line_that_was_cut() {
    let whole = recording(&[1, 2, 3]);
    assert_eq!(read(&whole), (vec![1, 2, 3], None, false));
    let without_line_feed = &whole[..whole.len() - 1];
    assert_eq!(read(without_line_feed), (vec![1, 2, 3], None, false));
    assert_eq!(read(&whole[..whole.len() - 9]), (vec![1, 2], None, true));
}

/// As if the process had written on after it could not write a whole line.
#[test]
fn nothing_after_a_broken_line_is_read() {
    let mut bytes = recording(&[1, 2]);
    bytes.extend_from_slice(b"{\"step\":\n");
    let rest = recording(&[3]);
    bytes.extend_from_slice(&rest);
    let error =
        "line 4 is broken (EOF while parsing a value at column 8); --until 2 replays the steps before it";
    assert_eq!(read(&bytes), (vec![1, 2], Some(error.to_owned()), false));
    let error = "line 3 is broken (step 3 follows step 1); --until 1 replays the steps before it";
    assert_eq!(read(&recording(&[1, 3, 4])), (vec![1], Some(error.to_owned()), false));
}
