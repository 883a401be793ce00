//! `lockstep completions`: what the scripts offer.

use std::collections::BTreeSet;
use std::process::Command;

use super::usage::commands;
use super::{folder, run, succeeds};

/// The commands that choose controllers.
const CHOOSING: [&str; 6] = ["run", "check", "plan", "dev", "sim", "crds"];

fn script(shell: &str) -> String {
    succeeds(&run(folder().path(), &["completions", shell]))
}

/// Returns what bash offers for the last of these words.
fn offered_by_bash(script: &str, words: &[&str]) -> BTreeSet<String> {
    let ask = r#"
        eval "$1"
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _lockstep "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let words = [&["-c", ask, "bash", script, "lockstep"][..], words].concat();
    let offered = succeeds(&Command::new("bash").args(words).output().unwrap());
    offered.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the flags in a help text.
fn flags(help: &str) -> BTreeSet<String> {
    let is_flag = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    let lines = help.lines().filter(is_flag);
    let words =
        lines.flat_map(|line| line.split([' ', ',', '[', '=']).filter(|word| !word.is_empty()).take(2));
    words.filter(|word| word.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn bash_offers_the_flags_of_the_help_and_no_other() {
    let (folder, script) = (folder(), script("bash"));
    for command in commands() {
        let help = flags(&succeeds(&run(folder.path(), &[command.as_str(), "--help"])));
        let offered = offered_by_bash(&script, &[command.as_str(), "-"]);
        assert!(help.contains("--help"), "{command}: {help:?}");
        assert_eq!(offered, help, "{command}");
    }
}

#[test]
fn every_shell_offers_the_names_of_controllers() {
    let bash = script("bash");
    let names: Vec<&str> = lockstep_crds::all().iter().map(|set| set.controller).collect();
    let all: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for command in CHOOSING {
        assert_eq!(offered_by_bash(&bash, &[command, "--controllers", ""]), all, "{command}");
    }
    let name = offered_by_bash(&bash, &["run", "--controllers", "dpu"]);
    assert_eq!(name, BTreeSet::from(["dpuservice".to_owned()]));

    let (zsh, fish) = (script("zsh"), script("fish"));
    let (of_zsh, of_fish) = (format!("({})", names.join(" ")), format!("{}\\t''", names.join("\\t''\n")));
    assert_eq!(zsh.matches(&of_zsh).count(), CHOOSING.len(), "{of_zsh}");
    assert_eq!(fish.matches(&of_fish).count(), CHOOSING.len(), "{of_fish}");
    // The singular is accepted, and not offered.
    assert!(!zsh.contains("--controller=") && !fish.contains("-l controller "));
}
