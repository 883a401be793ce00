//! The function that the core has with all mutants in it: it says whether a mutant is chosen.

/// The environment variable with the number of the mutant to be.
pub(crate) const CHOSEN: &str = "LOCKSTEP_MUTANT";

/// The environment variable with a file, to which the numbers of the mutants are appended whose code is reached.
pub(crate) const REACHED: &str = "LOCKSTEP_MUTANTS_REACHED";

/// What the root of a crate begins with. Functions that the compiler can evaluate have mutants as well, which needs this.
pub(crate) const FEATURES: &str =
    "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n";

/// Returns the condition that a mutant is chosen.
pub(crate) fn condition(id: u32) -> String {
    format!("crate::is_mutant({id})")
}

/// Returns the function, for the end of the root of a crate. `count` is the number of all mutants. What the compiler evaluates has no
/// mutant.
pub(crate) fn function(count: usize) -> String {
    format!(
        r#"
#[doc(hidden)]
pub const fn is_mutant(id: u32) -> bool {{
    const fn never(_: u32) -> bool {{
        false
    }}
    fn is_chosen(id: u32) -> bool {{
        use std::sync::atomic::{{AtomicBool, Ordering}};
        static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
        static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];
        if let Some(chosen) = CHOSEN.get_or_init(|| std::env::var("{CHOSEN}").ok().and_then(|it| it.parse().ok())) {{
            return *chosen == id;
        }}
        if !SEEN[id as usize].swap(true, Ordering::Relaxed) {{
            if let Some(path) = std::env::var_os("{REACHED}") {{
                use std::io::Write as _;
                let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
                file.write_all(format!("{{id}}\n").as_bytes()).unwrap();
            }}
        }}
        false
    }}
    std::intrinsics::const_eval_select((id,), never, is_chosen)
}}
"#
    )
}
