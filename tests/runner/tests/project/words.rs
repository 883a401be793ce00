//! Words that neither pages nor texts of the program may use: Kubernetes engineers do not know them in this meaning.

/// The words, each with a replacement.
const UNUSUAL: [(&str, &str); 35] = [
    ("tell", "report"),
    ("tells", "reports"),
    ("told", "reported"),
    ("telling", "reporting"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("anew", "again"),
    ("await", "wait for"),
    ("awaits", "waits for"),
    ("awaited", "pending"),
    ("stands", "is"),
    ("whoever", "a client that"),
    ("whose", "with"),
    ("whom", "for which"),
    ("somebody", "another client"),
    ("nobody", "no client"),
    ("befalls", "affects"),
    ("strays", "objects on the wrong server"),
    ("comes to", "reaches"),
    ("goes by", "uses"),
    ("bring about", "cause"),
    ("brings about", "causes"),
    ("in vain", "without success"),
    ("for want of", "because of missing"),
    ("at growing distances", "with exponential backoff"),
    ("definitions of kinds", "CRDs"),
    ("worlds", "external systems"),
    ("hand", "client"),
    ("life", "lifetime"),
    ("news", "changes"),
    ("thing", "object"),
    ("things", "objects"),
    ("sight", "view"),
    ("luck", "chance"),
];

/// Returns the unusual words in a text, each with its replacement.
pub(crate) fn unusual(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !(letter.is_alphanumeric() || letter == '-' || letter == '_'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let words = format!(" {} ", words.join(" "));
    let found = UNUSUAL.iter().filter(|(word, _)| words.contains(&format!(" {word} ")));
    found.map(|(word, better)| format!("{word:?}, better {better:?}")).collect()
}
