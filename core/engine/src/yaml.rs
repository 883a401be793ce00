//! YAML, parsed as the programs of Kubernetes parse it (`sigs.k8s.io/yaml`): `yes` and `on` are booleans, `0755` is octal,
//! `<<` merges, and if a key is repeated, the last value wins.

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

/// The error of a text. It quotes only the invalid value.
pub type Error = serde_saphyr::Error;

/// The maximum nesting depth of a document, as in `serde_json`.
const MAX_DEPTH: usize = 128;
/// The maximum number of nodes. A document of 3 MiB, the largest that an API server accepts, has fewer.
const MAX_NODES: usize = 2_000_000;

/// Parses one document.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Parses one document of UTF-8 by a seed, which gets a repeated key each time that it occurs.
pub fn read_with<T, S: for<'de> DeserializeSeed<'de, Value = T>>(bytes: &[u8], seed: S) -> Result<T, Error> {
    serde_saphyr::with_deserializer_from_slice_with_options(bytes, options(), |deserializer| {
        seed.deserialize(deserializer)
    })
}

/// Parses all documents of a text. Empty ones are left out.
pub fn read_all(text: &str) -> Result<Vec<Value>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

/// Writes one document.
pub fn write<T: Serialize>(value: &T) -> Result<String, serde_saphyr::SerializeError> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES, max_events: 2 * MAX_NODES },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Merge,
        legacy_octal_numbers: true,
        // Lines around an error may contain credentials.
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_those_of_kubernetes() {
        let text =
            "{a: yes, b: off, c: 0755, d: 1_000, e: \"yes\", f: 1e3, g: ~, h: 1.5, i: 0x1f, j: 2001-01-01}";
        let expected = json!({"a": true, "b": false, "c": 493, "d": 1000, "e": "yes", "f": 1000.0, "g": null, "h": 1.5, "i": 31, "j": "2001-01-01"});
        assert_eq!(read::<Value>(text).unwrap(), expected);
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_merge_keys_merge() {
        assert_eq!(read::<Value>("{a: 1, a: 2}").unwrap(), json!({"a": 2}));
        let text = "base: &base {a: 1, b: 2}\nderived: {<<: *base, b: 3}";
        assert_eq!(read::<Value>(text).unwrap()["derived"], json!({"a": 1, "b": 3}));
    }

    #[test]
    fn documents_are_read_one_by_one() {
        assert_eq!(
            read_all("---\n# nothing\n---\na: 1\n---\nb: 2\n").unwrap(),
            [json!({"a": 1}), json!({"b": 2})]
        );
        assert!(read::<Value>("a: 1\n---\nb: 2\n").is_err());
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let value = json!({
            "bool": "yes", "octal": "0755", "number": "1", "null": "null", "date": "2001-01-01", "empty": "", "lines": "a\nb\n\n",
            "long": "word ".repeat(60), "colon": "a: b", "list": [[], {}, [{"a": ["b"]}]], "float": 1.5, "key:": {"0": null},
        });
        assert_eq!(read::<Value>(&write(&value).unwrap()).unwrap(), value);
    }

    #[test]
    fn an_error_quotes_no_other_line() {
        let error = read::<Value>("token: hunter2\nserver: [\n").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn depth_and_aliases_are_bounded() {
        assert!(read::<Value>(&"[".repeat(100_000)).is_err());
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read::<Value>(&nested(100)).is_ok());
        let bomb = (1..30).fold("a0: &a0 [x]\n".to_owned(), |text, level| {
            let before = level - 1;
            text + &format!("a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]\n")
        });
        assert!(read::<Value>(&bomb).is_err());
    }
}
