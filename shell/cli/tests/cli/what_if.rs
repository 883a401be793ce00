//! `lockstep replay --what-if`: each edit shows its consequences, and only them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::Action;
use lockstep_engine::machine::Event;
use lockstep_engine::object::metadata;
use lockstep_engine::recording::{Line, RecordedStep, read};
use serde_json::json;

use super::explain::config_map;
use super::simulated::{NAMESPACE, RELEASE, Simulated};
use super::{fails, folder, misused, run, succeeds};

/// A recording in a folder.
struct Recorded {
    folder: tempfile::TempDir,
    steps: Vec<RecordedStep>,
}

impl Recorded {
    fn of(simulated: &Simulated) -> Self {
        let folder = folder();
        simulated.record_without_secrets(&folder.path().join("run.jsonl"));
        let bytes = std::fs::read(folder.path().join("run.jsonl")).unwrap();
        let lines = read::open(&bytes).unwrap().1.map(Result::unwrap);
        let steps = lines.filter_map(|line| match line {
            Line::Step(step) => Some(step),
            Line::Checkpoint(_) => None,
        });
        Self { steps: steps.collect(), folder }
    }

    /// Returns the namespace shop, which has the class web with the ConfigMap settings.
    fn shop() -> Self {
        let mut simulated = Simulated::new("namespaceclass");
        simulated.class(&json!([config_map("settings")]));
        simulated.namespace();
        Self::of(&simulated)
    }

    /// Returns the first step with such an event.
    fn step(&self, is_wanted: impl Fn(&Event) -> bool) -> u64 {
        self.steps.iter().find(|step| is_wanted(&step.event)).unwrap().number
    }

    /// Returns the step that showed an object first.
    fn applied(&self, wanted: &str, name: &str) -> u64 {
        self.step(|event| match event {
            Event::Applied { kind, object } => kind.kind == wanted && metadata(object, "name") == name,
            _ => false,
        })
    }

    /// Returns the step with the answer of the first such request.
    fn answer(&self, is_wanted: impl Fn(&Action) -> bool) -> u64 {
        let requests = self.steps.iter().flat_map(|step| &step.gave.requests);
        let wanted = requests.clone().find(|request| is_wanted(&request.action)).unwrap().id;
        self.step(|event| matches!(event, Event::Finished { id, .. } if *id == wanted))
    }

    fn replay(&self, flags: &[&str]) -> std::process::Output {
        run(self.folder.path(), &[&["replay", "run.jsonl"], flags].concat())
    }

    fn what_if(&self, edit: &str) -> String {
        succeeds(&self.replay(&["--what-if", edit]))
    }
}

fn writes_config_map(action: &Action) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind.kind == "ConfigMap")
}

/// Returns the lines of a section of the report.
fn section<'a>(report: &'a str, title: &str) -> Vec<&'a str> {
    let found = report.split("\n\n").find(|section| section.starts_with(title));
    found.unwrap_or_else(|| panic!("no {title:?} in:\n{report}")).lines().skip(1).collect()
}

/// Checks that a section has a line with all of these texts.
fn has(report: &str, title: &str, texts: &[&str]) {
    let mut lines = section(report, title).into_iter();
    assert!(lines.any(|line| texts.iter().all(|text| line.contains(text))), "{title} {texts:?}:\n{report}");
}

#[test]
fn without_the_namespace_nothing_is_created_in_it() {
    let recorded = Recorded::shop();
    let step = recorded.applied("Namespace", "shop");
    let report = recorded.what_if(&format!("{step}:drop"));
    has(&report, "The runs differ from the edited step", &["recorded", "saw Namespace shop"]);
    has(&report, "The runs differ from the edited step", &["what if", "nothing happens"]);
    has(&report, "Requests only in the recording:", &["ConfigMap shop/settings"]);
}

#[test]
fn a_failed_write_is_reported_in_the_condition_and_the_status_waits() {
    let recorded = Recorded::shop();
    let step = recorded.answer(writes_config_map);
    let report = recorded.what_if(&format!("{step}:fail=forbidden"));
    has(
        &report,
        "The runs differ",
        &["what if", "ConfigMap shop/settings: forbidden: counterfactual failure"],
    );
    let statuses = "Statuses that the runs requested last and that differ:";
    has(&report, statuses, &["recorded: True ResourcesApplied"]);
    has(&report, statuses, &["what if:  False Forbidden"]);
    let waiting = "Requests only in the counterfactual";
    has(&report, waiting, &["not recorded: patch_status", "NamespaceClassBinding", "shop/shop"]);
}

#[test]
fn a_patched_class_leads_to_other_content() {
    let recorded = Recorded::shop();
    let step = recorded.applied("NamespaceClass", "web");
    let patch = json!({"spec": {"resources": [config_map("other")]}});
    let report = recorded.what_if(&format!("{step}:patch={patch}"));
    has(
        &report,
        &format!("Step {step} is edited, and the runs differ"),
        &["what if", "get ConfigMap shop/other"],
    );
    has(&report, "Requests only in the recording:", &["apply ConfigMap shop/settings"]);
    let waiting = section(&report, "Requests only in the counterfactual");
    assert!(waiting.len() == 1 && waiting[0].ends_with("not recorded: get ConfigMap shop/other"), "{report}");
    let statuses = section(&report, "Statuses that the runs requested last").join(" ");
    assert!(
        statuses.contains("recorded: True ResourcesApplied") && statuses.contains("what if:  not written")
    );
    has(&report, "Kubernetes Events only in the recording:", &["ResourcesApplied"]);
}

#[test]
fn the_empty_patch_and_unimportant_events_make_no_difference() {
    let recorded = Recorded::shop();
    let step = recorded.applied("Namespace", "shop");
    let report = recorded.what_if(&format!("{step}:patch={{}}"));
    assert!(
        report.ends_with("The edit makes no difference: the same requests and notes follow.\n"),
        "{report}"
    );
}

#[test]
fn neither_the_report_nor_the_page_shows_a_secret() {
    let mut simulated = Simulated::new("bridge");
    simulated.bridge(RELEASE);
    simulated.pass(Duration::from_mins(10));
    let recorded = Recorded::of(&simulated);
    simulated.record(&recorded.folder.path().join("plain.jsonl"));
    let plain = std::fs::read_to_string(recorded.folder.path().join("plain.jsonl")).unwrap();
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25l";
    let secrets =
        [key.to_owned(), STANDARD.encode("puller:hush"), STANDARD.encode(format!("ssh-ed25519 {key}"))];
    let secrets = secrets.map(|secret| secret[..secret.len() - 4].to_owned());
    assert!(secrets.iter().any(|secret| plain.contains(secret)), "the run has secrets");
    let placeholder = STANDARD.encode("hidden-").trim_end_matches("LQ==").to_owned();
    let bridge = recorded.applied("DPFHCPBridge", "prod");
    let secret = recorded.answer(|action| {
        matches!(action.target(), Some(target) if target.kind.kind == "Secret" && target.namespace.as_deref() == Some(NAMESPACE))
    });
    for edit in [
        format!("{bridge}:drop"),
        format!("{secret}:fail=not_found"),
        format!("{secret}:patch={{\"data\":null}}"),
    ] {
        let flags = ["--what-if", &edit, "--diff", "--timeline", "page.html"];
        let report = succeeds(&recorded.replay(&flags));
        let page = std::fs::read_to_string(recorded.folder.path().join("page.html")).unwrap();
        for secret in &secrets {
            assert!(!report.contains(secret) && !page.contains(secret), "{secret} is shown for {edit}");
        }
        assert!(page.contains("bridge: what if") && page.contains(&placeholder), "{edit}");
    }
}

#[test]
fn what_if_errors_name_the_place_and_the_fix() {
    let recorded = Recorded::shop();
    let wrong = |edit: &str, parts: &[&str]| misused(&recorded.replay(&["--what-if", edit]), parts);
    wrong("31", &["--what-if", "no colon", "STEP:drop"]);
    wrong("x:drop", &["\"x\" is not the number of a step", "31:drop"]);
    wrong("3:forget", &["\"forget\" is not an edit", "STEP:fail=CLASS"]);
    wrong("3:fail=teapot", &["\"teapot\" is not a class of failure", "forbidden"]);
    wrong("3:patch={", &["the patch is not JSON", "quotes"]);
    wrong("3:patch=7", &["not a JSON object"]);
    let last = recorded.steps.len();
    wrong("9999:drop", &["run.jsonl has no step 9999", &format!("1 to {last}")]);
    let answer = recorded.step(|event| matches!(event, Event::Finished { .. }));
    wrong(
        "1:fail=gone",
        &["step 1 of run.jsonl (started)", "only an answer can fail", &format!("fits is {answer}")],
    );
    wrong("1:patch={}", &["step 1 of run.jsonl", "can be patched", "the next step that it fits is"]);
    wrong(&format!("{answer}:patch={{\"Ok\":7}}"), &["cannot be read", "the form"]);
    let flags = ["--what-if", "9:drop", "--until", "5"];
    misused(&recorded.replay(&flags), &["no step 9", "1 to 5"]);
    misused(&recorded.replay(&["--what-if", "3:drop", "--step"]), &["--step"]);
    misused(&recorded.replay(&["--timeline", "page.html"]), &["--what-if"]);
    fails(
        &recorded.replay(&["--what-if", "3:drop", "--timeline", "no/such/page.html"]),
        &["no/such/page.html"],
    );
}

#[test]
fn a_recording_of_another_version_is_refused() {
    let recorded = Recorded::shop();
    let path = recorded.folder.path().join("run.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"plural\":\"namespaceclasses\"", "\"plural\":\"others\"", 1))
        .unwrap();
    fails(&recorded.replay(&["--what-if", "3:drop"]), &["run.jsonl: step 1", "differs", "--diff"]);
}

#[test]
fn the_help_explains_the_edits() {
    let folder = folder();
    let help = succeeds(&run(folder.path(), &["replay", "--help"]));
    for part in ["--what-if <EDIT>", "--timeline <FILE>", "STEP:drop", "STEP:fail=CLASS", "STEP:patch=JSON"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for class in lockstep_engine::action::ErrorKind::ALL {
        assert!(help.contains(class.name()), "{class}");
    }
}
