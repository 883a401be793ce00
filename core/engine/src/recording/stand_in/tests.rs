use std::collections::BTreeSet;

use super::*;

#[test]
fn equal_secrets_alone_have_equal_placeholders() {
    let placeholders = Placeholders::new([7; 32]);
    let all: Vec<String> = (0..3000).map(|n| placeholders.text(format!("secret {n}").as_bytes())).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(placeholders.text(b"secret 5"), all[5]);
    assert_ne!(Placeholders::new([8; 32]).text(b"secret 5"), all[5], "without the key it can't be guessed");
}

#[test]
fn a_placeholder_of_one_type_says_nothing_about_another() {
    let placeholders = Placeholders::new([7; 32]);
    let digits = |text: &str| text.trim_start_matches("hidden-").to_owned();
    let (text, mark) = (digits(&placeholders.text(b"4711")), placeholders.mark("4711"));
    let number = placeholders.number(&Number::from(4711));
    assert!(number.as_u64().is_some_and(|number| number < 1_000_000_000_000_000));
    let of_text = u64::from_str_radix(&text, 16).unwrap() % 1_000_000_000_000_000;
    assert!(text != mark && number != Number::from(of_text), "{text} {mark} {number}");
}
