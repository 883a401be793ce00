//! Tests of the types of rules.

use serde_json::{Map, Value, json};

use super::{Refusal, Variables, check_message, check_rule};

fn schema() -> Map<String, Value> {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "when": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "a-b": {"type": "boolean"},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    schema.as_object().cloned().unwrap_or_default()
}

#[test]
fn sound_rules_pass() {
    let schema = schema();
    let variables = Variables::of(&schema, true, false).unwrap();
    for rule in [
        "self.n > 1 && self.s.startsWith('a') || self.a__dash__b",
        "self.metadata.name.size() <= 63 && self.kind == 'X'",
        "self.list.all(item, item.k != '' && item.k in self.map)",
        "self.list.map(item, item.k).exists(k, k == self.s)",
        "self.list.filter(item, has(item.k)).size() == 2 && self.list.exists_one(x, x.k == 'a')",
        "self.map.all(key, self.map[key] > 1)",
        "type(self.any) == int ? self.any < 5 : string(self.any).endsWith('%')",
        "self.?s.orValue('') == '' && self.?list[0].k.hasValue()",
        "self.when > timestamp('2020-01-01T00:00:00Z') && self.when - self.when < duration('1h')",
        "quantity(self.s).isGreaterThan(quantity('1Mi')) && ip(self.s).family() == 4 && isCIDR(self.s)",
        "sets.contains([1, 2], [self.n]) && !format.named('uri').value().validate(self.s).hasValue()",
        "self.n > 1.5 && (self.n == 1 ? [] : [self.n]).size() > 0 && {'a': 1}.a == 1",
        "oldSelf.n == self.n && self.list.all(i, x, x.k == string(i))",
        "-9223372036854775808 < self.n && self.n < 9223372036854775807",
        "self.list.all(i, x, i < 3 && x.k != '') && self.map.exists(k, v, k == string(v))",
        "self.map.existsOne(k, v, v == 1) && self.list.transformList(i, x, i > 0, x.k)[0] == self.s",
        "self.list.transformMap(i, x, x.k)[0] == '' && self.map.transformMapEntry(k, v, {v: k})[1] == ''",
        "self.?s.optMap(s, s + 'x').orValue('') == '' && self.?list[0].optFlatMap(x, x.?k).hasValue()",
        "self.list.sortBy(x, x.k)[0].k == self.list.map(x, x.k).sort()[0]",
        "self.list == null || self.list.size() == 0",
    ] {
        let verdict = check_rule(rule, &variables);
        if rule.contains("null") {
            // A list is no message type: it can't be null.
            assert!(matches!(verdict, Err(Refusal::Compilation(_))), "{rule}");
        } else {
            assert_eq!(verdict.err(), None, "{rule}");
        }
    }
    assert_eq!(check_message("'size ' + string(self.n)", &variables).err(), None);
}

#[test]
fn mistakes_are_reported_at_their_places() {
    let schema = schema();
    let variables = Variables::of(&schema, true, false).unwrap();
    for (rule, expected) in [
        ("self.y > 1", "ERROR: <input>:1:5: undefined field 'y'\n | self.y > 1\n | ....^"),
        ("self.free == 1", "ERROR: <input>:1:5: undefined field 'free'\n | self.free == 1\n | ....^"),
        (
            "self.s > 1",
            "ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.s > 1\n | .......^",
        ),
        ("x == 1", "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x == 1\n | ^"),
        (
            "self.n.startsWith('a')",
            "ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'int.(string)'\n \
             | self.n.startsWith('a')\n | .................^",
        ),
        (
            "self.list.all(i, i.none == 1)",
            "ERROR: <input>:1:19: undefined field 'none'\n | self.list.all(i, i.none == 1)\n | ..................^",
        ),
        (
            "none(self.n)",
            "ERROR: <input>:1:5: undeclared reference to 'none' (in container '')\n | none(self.n)\n | ....^",
        ),
        (
            "self.n && true",
            "ERROR: <input>:1:5: expected type 'bool' but found 'int'\n | self.n && true\n | ....^",
        ),
        (
            "self.s.matches('(')",
            "ERROR: <input>:1:16: invalid matches argument\n | self.s.matches('(')\n | ...............^",
        ),
        (
            "self.list.all(i, x, x.none == i)",
            "ERROR: <input>:1:22: undefined field 'none'\n | self.list.all(i, x, x.none == i)\n | .....................^",
        ),
        (
            "self.list.all(i, i, true)",
            "ERROR: <input>:1:18: duplicate variable name: i\n | self.list.all(i, i, true)\n | .................^",
        ),
        (
            "self.?s.optMap(s, s > 1).hasValue()",
            "ERROR: <input>:1:21: found no matching overload for '_>_' applied to '(string, int)'\n \
             | self.?s.optMap(s, s > 1).hasValue()\n | ....................^",
        ),
        (
            "self.list.sort().size() == 1",
            "ERROR: <input>:1:15: found no matching overload for 'sort' applied to 'list(selfType.list.@idx).()'\n \
             | self.list.sort().size() == 1\n | ..............^",
        ),
        (
            "self.n.x == 1",
            "ERROR: <input>:1:7: type 'int' does not support field selection\n | self.n.x == 1\n | ......^",
        ),
    ] {
        let refusal = check_rule(rule, &variables).err();
        assert_eq!(refusal, Some(Refusal::Compilation(expected.to_owned())), "{rule}");
    }
    for rule in ["self.n", "self.any", "'text'"] {
        assert_eq!(check_rule(rule, &variables).err(), Some(Refusal::Result), "{rule}");
    }
    assert_eq!(check_message("self.n", &variables).err(), Some(Refusal::Result));
}
