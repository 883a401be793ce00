//! SSH public keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::recording::Hide;

/// Checks that a text is a list of public keys in the format of `authorized_keys`: one in a line, with blank lines and
/// comments between them. Returns their number. Errors name the line and show nothing of it, because it may be a private key.
pub fn check(data: &[u8]) -> Result<usize, String> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Err("it is not text; an SSH public key is a line such as `ssh-ed25519 AAAA… name`".to_owned());
    };
    let is_private = |line: &str| line.contains("PRIVATE KEY") || line.starts_with("PuTTY-User-Key-File");
    if let Some(line) = text.lines().position(is_private) {
        return Err(format!(
            "line {} begins a private key, which must stay where it was made; take the public key instead (the file \
             that ends in .pub), and replace the pair if others may have seen this",
            line + 1
        ));
    }
    let mut keys = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        key(line).map_err(|problem| format!("line {}: {problem}", index + 1))?;
        keys += 1;
    }
    if keys == 0 {
        return Err("there is no key in it; add a line such as `ssh-ed25519 AAAA… name`".to_owned());
    }
    Ok(keys)
}

/// The types of keys, and the number of fields in the body of each (RFC 4253, RFC 5656, RFC 8709, OpenSSH's PROTOCOL.u2f).
const TYPES: [(&str, usize); 7] = [
    ("ssh-rsa", 3),
    ("ssh-ed25519", 2),
    ("ecdsa-sha2-nistp256", 3),
    ("ecdsa-sha2-nistp384", 3),
    ("ecdsa-sha2-nistp521", 3),
    ("sk-ssh-ed25519@openssh.com", 3),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 4),
];

fn key(line: &str) -> Result<(), String> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let Some((name, fields)) = TYPES.into_iter().find(|(name, _)| *name == first) else {
        let names = TYPES.map(|(name, _)| name).join(", ");
        return Err(format!("it does not begin with a type of key; the types are {names}"));
    };
    let Some(body) = words.next() else {
        return Err(format!("the key is missing after {name}; write the type and the key in one line"));
    };
    let Ok(body) = STANDARD.decode(body) else {
        return Err(format!("what follows {name} is not base64; copy the whole line again"));
    };
    let Some(parts) = parts(&body) else {
        return Err(format!("the {name} key is damaged or cut short; copy the whole line again"));
    };
    if parts.first() != Some(&name.as_bytes()) {
        return Err(format!("it says {name}, but the key is of another type; copy the whole line again"));
    }
    if parts.len() != fields {
        return Err(format!("the {name} key is damaged or cut short; copy the whole line again"));
    }
    Ok(())
}

/// Returns the length-prefixed fields of a body; `None` if their lengths do not match the body.
fn parts(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        parts.push(part);
        body = rest;
    }
    Some(parts)
}

/// Returns a text with the same result of [`check`] that contains nothing of this one: for recordings.
pub fn stand_in(data: &[u8], hide: Hide<'_>) -> String {
    let verdict = check(data);
    let hidden = hide(data);
    let body = |parts: &[&[u8]]| {
        let lengths = parts.iter().map(|part| u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
        let pieces = lengths.zip(parts).flat_map(|(length, part)| [length.to_vec(), part.to_vec()]);
        STANDARD.encode(pieces.collect::<Vec<_>>().concat())
    };
    let whole = format!("ssh-ed25519 {}", body(&[b"ssh-ed25519", hidden.as_bytes()]));
    let mut candidates = vec![whole, String::new(), "PRIVATE KEY".to_owned(), "unknown".to_owned()];
    for (name, _) in TYPES {
        let another = body(&[b"another"]);
        candidates.extend([
            name.to_owned(),
            format!("{name} -"),
            format!("{name} AAAA"),
            format!("{name} {another}"),
        ]);
    }
    // The result names the line.
    let tail = verdict.as_ref().err().and_then(|problem| problem.split("line ").nth(1));
    let number = tail.and_then(|tail| tail.split(|letter: char| !letter.is_ascii_digit()).next());
    let before = number.and_then(|number| number.parse::<usize>().ok()).unwrap_or(1).saturating_sub(1);
    let mut texts = candidates.into_iter().map(|text| format!("{}{text}\n# {hidden}\n", "\n".repeat(before)));
    let same = |text: &String| check(text.as_bytes()).map(|_| ()) == verdict.clone().map(|_| ());
    texts.find(same).unwrap_or(hidden.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made with `ssh-keygen -t ed25519`.
    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMDW86w1967jNabNmGSLET/l/edceY37QxGh+KlH7+62 ops@example.com";
    /// Made with `ssh-keygen -t ecdsa -b 384`.
    const ECDSA: &str = "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBATM32Mr8GekBnRmaoS20u50YmwqjTOk9qKPkegmdmg0j0PIINgosocoN6EB20v1Ba6FtkzTo99PEAMdtQOYPPobTh4/pD3hBrNGo1ojYdLBvV42KJMOpiR3WIzDyo/Qrg== ops@example.com";

    fn line(name: &str, parts: &[Vec<u8>]) -> String {
        let mut body = Vec::new();
        for part in parts {
            body.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            body.extend(part);
        }
        format!("{name} {}", STANDARD.encode(body))
    }

    fn whole(name: &str, fields: usize, part: &[u8]) -> String {
        let mut parts = vec![name.as_bytes().to_vec()];
        parts.resize(fields, part.to_vec());
        line(name, &parts)
    }

    #[test]
    fn keys_of_all_types_are_counted() {
        assert_eq!(check(ED25519.as_bytes()), Ok(1));
        assert_eq!(check(ECDSA.as_bytes()), Ok(1));
        let keys: Vec<_> = TYPES.iter().map(|(name, fields)| whole(name, *fields, b"1234")).collect();
        let file = format!("# keys\r\n\n  {} a comment\r\n", keys.join("\n\t\n"));
        assert_eq!(check(file.as_bytes()), Ok(TYPES.len()));
    }

    #[test]
    fn an_invalid_key_is_reported_with_its_line() {
        let name = "ssh-ed25519";
        let other = line("ssh-rsa", &[name.into(), vec![1; 32]]);
        let cut = &ED25519[..ED25519.len() - 30];
        let table = [
            (&b"\xff\xfe"[..], "not text"),
            (b"", "no key in it"),
            (b"# only a comment\n\n", "no key in it"),
            (b"hunter2", "line 1: it does not begin with a type of key"),
            (b"\n\nssh-dss AAAA", "line 3: it does not begin with a type of key"),
            (b"ssh-ed25519", "line 1: the key is missing"),
            (b"ssh-ed25519 hunter2!", "line 1: what follows ssh-ed25519 is not base64"),
            (b"ssh-ed25519 aHVudGVyMg==", "line 1: the ssh-ed25519 key is damaged"),
            (cut.as_bytes(), "line 1: "),
            (other.as_bytes(), "line 1: it says ssh-rsa, but the key is of another type"),
        ];
        for (data, expected) in table {
            let error = check(data).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("aHVud"), "{error}");
        }
        let second = format!("{ED25519}\n{name} AAAA");
        assert!(check(second.as_bytes()).unwrap_err().starts_with("line 2: "));
    }

    #[test]
    fn a_private_key_has_a_message_of_its_own_that_does_not_show_it() {
        for head in [
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----",
            "PuTTY-User-Key-File-3: x",
        ] {
            let error = check(format!("{ED25519}\n{head}\nb3BlbnNzaC1rZXk\n").as_bytes()).unwrap_err();
            assert!(error.starts_with("line 2 begins a private key"), "{error}");
            assert!(!error.contains("b3BlbnNz"), "{error}");
        }
    }

    #[test]
    fn a_stand_in_has_the_same_verdict() {
        let hide = |part: &[u8]| format!("hidden-{}", part.len());
        let cut = &ED25519[..ED25519.len() - 30];
        let other = line("ssh-rsa", &["ssh-ed25519".into(), vec![1; 32]]);
        let private = format!("{ED25519}\n-----BEGIN OPENSSH PRIVATE KEY-----\n");
        let second = format!("{ED25519}\n\nssh-rsa !\n");
        for text in
            [ED25519, ECDSA, "", "# a\n", "hunter2", "ssh-rsa", "ssh-rsa !", cut, &other, &private, &second]
        {
            let stand_in = stand_in(text.as_bytes(), &hide);
            let verdict = |text: &str| check(text.as_bytes()).map(|_| ());
            assert_eq!(verdict(&stand_in), verdict(text), "{text:?} became {stand_in:?}");
            assert!(!stand_in.contains("hunter2") && !stand_in.contains("ops@example.com"), "{stand_in}");
        }
    }

    proptest! {
        #[test]
        fn a_key_that_was_cut_is_no_key(index in 0usize..7, part in proptest::collection::vec(any::<u8>(), 4..40), keep: prop::sample::Index) {
            let (name, fields) = TYPES[index];
            let key = whole(name, fields, &part);
            prop_assert_eq!(check(key.as_bytes()), Ok(1));
            let cut = &key[..keep.index(key.len())];
            // Without its padding it is not valid base64, although no data is missing.
            prop_assert!(check(cut.as_bytes()).is_err(), "{}", cut);
        }

        #[test]
        fn nothing_panics(data in proptest::collection::vec(any::<u8>(), 0..60), name in 0usize..7) {
            let _ = check(&data);
            let _ = check(format!("{} {}", TYPES[name].0, STANDARD.encode(&data)).as_bytes());
        }
    }
}
