//! Loads the configuration, and the Secret that it names.
//!
//! If a loaded configuration is replaced by an invalid one, the Sentinel continues with the loaded one. A deleted
//! configuration stops it: that is a load failure. Source: HyperFleet Sentinel, "Config Loader", "Error Handling".

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_crds::sentinel::SecretKeyRef;
use lockstep_engine::action::{Action, ActionId, Answer as _, KubeRequest, Outcome};
use lockstep_engine::broker::Broker;
use lockstep_engine::machine::{Note, Step};
use lockstep_engine::object::{Kind, ObjectRef, ResourceVersion, Uid, generation};
use lockstep_engine::time::{Monotonic, Now};
use serde_json::Value;

use super::config::{self, Config, Target};
use super::link::Link;
use super::loader::{Loaded, Observed};
use super::metrics::{self, RELOADS, Shard, operation};
use super::pager::Progress;
use super::state::{Asked, Sentinel};
use super::status::{self, Finding};

/// The delay until a configuration that could not be loaded is tried again.
const RETRY: Duration = Duration::from_secs(30);

impl Sentinel {
    pub(super) fn list_started(&mut self) {
        self.loader.was_listed = false;
    }

    pub(super) fn list_completed(&mut self, now: Now, step: &mut Step) {
        // An object that a list does not contain was deleted while the watch was interrupted.
        let is_gone = self.loader.observed.is_some() && !self.loader.was_listed;
        if is_gone || (self.loader.observed.is_none() && self.loader.problem.is_none()) {
            self.missing(now, step);
        }
    }

    pub(super) fn missing(&mut self, now: Now, step: &mut Step) {
        self.loader.observed = None;
        let problem = if self.loader.loaded.is_some() {
            self.unload(now, step);
            format!("{} was deleted; nothing is polled or published until it is created again", self.object())
        } else {
            format!("{} does not exist; create it, or name another one with --config", self.object())
        };
        self.config_failed(problem, now, step);
    }

    /// Stops the work for the configuration. Events that were sent to the broker before are still counted.
    fn unload(&mut self, now: Now, step: &mut Step) {
        self.former.extend(self.loader.loaded.take().map(|loaded| loaded.shard.clone()));
        (self.broker, self.link) = (None, Link::default());
        self.forget_secret(now);
        // It is ready again once it has polled and connected with another configuration.
        (self.has_polled, self.has_connected) = (false, false);
        self.malformed.clear();
        self.leave_cycle("was deleted", now, step);
        self.forget(step);
    }

    fn leave_cycle(&mut self, why: &str, now: Now, step: &mut Step) {
        self.progress = Progress::default();
        let Some(mut cycle) = self.cycle.take() else { return };
        step.notes.extend(cycle.take_span(now.monotonic, None));
        let message = format!("cycle {} was left, because the configuration {why}", cycle.number);
        step.notes.push(Note::info(message));
    }

    fn config_failed(&mut self, problem: String, now: Now, step: &mut Step) {
        step.notes.push(self.shard().count_of(metrics::API_ERRORS, operation::CONFIG_LOAD, 1));
        step.notes.push(Note::Warning { message: problem.clone() });
        self.loader.problem = Some((problem, now.monotonic + RETRY));
    }

    /// Reports what is still wrong, every half minute.
    pub(super) fn retry_config(&mut self, now: Now, step: &mut Step) {
        if let Some((problem, _)) = self.loader.problem.take_if(|(_, at)| *at <= now.monotonic) {
            self.config_failed(problem, now, step);
        }
    }

    pub(super) fn observe(&mut self, object: &Value, now: Now, step: &mut Step) {
        self.loader.was_listed = true;
        let version = ResourceVersion::of(object);
        let uid = Uid::of(object);
        // A list may be stale.
        if self.loader.observed.as_ref().is_some_and(|before| before.version > version) {
            return;
        }
        let same = self.loader.observed.take().filter(|before| before.uid == uid);
        let generation = generation(object);
        self.conditions.observed(same.as_ref().is_none_or(|same| same.generation != generation));
        let is_changed = same.as_ref().is_none_or(|same| same.spec != object["spec"]);
        let status = serde_json::from_value(object["status"].clone()).unwrap_or_default();
        if same.is_none() {
            self.conditions.adopt(&status);
        } else if self.is_acting {
            self.conditions.follow(&status);
        }
        // A deletion that waits for a finalizer of another client is a new generation of the same spec. Until the object is gone,
        // the Sentinel continues.
        if let Some(same) = same.filter(|same| !is_changed && same.generation != generation) {
            let since = self.loader.loaded.as_ref().map_or(same.generation, |loaded| loaded.generation);
            self.conditions.hold_for(generation, since);
        }
        let spec = object["spec"].clone();
        self.loader.observed = Some(Observed { uid, version, generation, spec, status });
        if is_changed {
            self.load(object, generation, now, step);
        } else if self.is_acting {
            self.summarise(now, step);
        }
    }

    fn load(&mut self, object: &Value, generation: i64, now: Now, step: &mut Step) {
        self.loader.problem = None;
        match config::read(object) {
            Ok(config) => {
                if let Some(loaded) = self.loader.loaded.as_ref().filter(|loaded| loaded.config == config) {
                    self.conditions.hold_for(generation, loaded.generation);
                }
                self.find(
                    Finding::valid(status::CONFIG_VALID, "ConfigLoaded", "the configuration is in force"),
                    now,
                    step,
                );
                self.adopt(config, generation, now, step);
            }
            Err(problems) => {
                let mut problem = problems.join("; ");
                self.find(Finding::broken(status::CONFIG_VALID, "InvalidConfig", problem.clone()), now, step);
                if let Some(loaded) = &self.loader.loaded {
                    problem =
                        format!("{problem} (the Sentinel goes on with generation {})", loaded.generation);
                }
                self.config_failed(format!("{}: {problem}", self.object()), now, step);
            }
        }
    }

    /// Switches to a configuration. The work for the previous one is abandoned.
    fn adopt(&mut self, config: Config, generation: i64, now: Now, step: &mut Step) {
        let before = self.loader.loaded.take();
        let is_same = before.as_ref().is_some_and(|before| before.config == config);
        let shard = Shard {
            shard: config.selector.to_string(),
            resource_type: config.resource_type.name().to_owned(),
            broker_type: config.target.name(),
        };
        let is_same_target = before.as_ref().is_some_and(|before| before.config.target == config.target);
        let loaded = Arc::new(Loaded { config, shard, generation });
        self.loader.loaded = Some(Arc::clone(&loaded));
        if is_same {
            return;
        }
        self.former.retain(|former| *former != loaded.shard);
        // Values that were counted without a configuration have empty shard labels.
        let former = before.as_ref().map(|before| before.shard.clone()).unwrap_or_default();
        self.former.extend(Some(former).filter(|former| *former != loaded.shard));
        self.forget(step);
        step.notes.extend(loaded.shard.all());
        if before.is_some() {
            step.notes.push(loaded.shard.count(RELOADS, 1));
        }
        let message = format!("{} is in force, generation {generation}", self.object());
        step.notes.push(Note::info(message));
        if !is_same_target {
            self.broker = match &loaded.config.target {
                Target::Known(broker) => Some(Arc::new(broker.clone())),
                Target::InSecret { .. } => None,
            };
            self.link = Link::default();
            self.forget_secret(now);
        }
        // An API that has asked for a pause gets it with another configuration as well.
        let is_same_api = before.as_ref().is_some_and(|before| before.config.url == loaded.config.url);
        let pause = self.cycle.as_ref().map_or(self.pause, |cycle| cycle.pager.pause());
        self.pause = if is_same_api { pause } else { Monotonic::START };
        self.leave_cycle("has changed", now, step);
        self.failures.clear();
        self.next_poll = now.monotonic.max(self.pause);
    }

    fn forget_secret(&mut self, now: Now) {
        let loader = &mut self.loader;
        (loader.secret_read, loader.secret_not_before) = (None, now.monotonic);
        (loader.is_secret_suspect, loader.secret_problem) = (false, None);
    }

    /// Returns when the Secret with the broker's URL is due to be read, if it is needed.
    pub(super) fn secret_due(&self) -> Option<Monotonic> {
        let is_unknown = self.broker.is_none() || self.loader.is_secret_suspect;
        let is_needed = is_unknown && self.loader.secret().is_some();
        (is_needed && self.loader.secret_read.is_none()).then_some(self.loader.secret_not_before)
    }

    pub(super) fn read_secret(&mut self, now: Now, step: &mut Step) {
        if self.secret_due().is_none_or(|at| at > now.monotonic) {
            return;
        }
        let Some(secret) = self.loader.secret() else { return };
        let kind = Kind::known("", "v1", "Secret", "secrets", true);
        let target = ObjectRef::namespaced(&kind, &self.settings.namespace, &secret.name);
        let action = Action::Kube(KubeRequest::Get { target, metadata_only: false });
        self.loader.secret_read = Some(self.ask(action, Asked::Secret, step));
    }

    pub(super) fn secret_read(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        // The configuration may have changed since. Another one may name the same Secret, so names are not compared.
        if self.loader.secret_read.take_if(|current| *current == id).is_none() {
            return;
        }
        let Some(loaded) = self.loader.loaded.clone() else { return };
        let Target::InSecret { secret, exchange } = &loaded.config.target else { return };
        self.loader.secret_not_before = now.monotonic + RETRY;
        let url = match outcome.object() {
            Ok(object) => url_in(&object, &secret.key).and_then(|url| config::broker_url(&url)),
            Err(failure) => Err(failure.to_string()),
        };
        match url {
            Ok(url) => {
                (self.loader.is_secret_suspect, self.loader.secret_problem) = (false, None);
                let broker = Some(Arc::new(Broker::RabbitMq { url, exchange: exchange.clone() }));
                if self.broker != broker {
                    // What was sent to the former one is still counted.
                    (self.broker, self.link) = (broker, self.link.to_another());
                }
            }
            Err(problem) => {
                let (namespace, SecretKeyRef { name, key }) = (&self.settings.namespace, secret);
                let problem = format!("key {key:?} of Secret {namespace}/{name}: {problem}");
                step.notes.push(loaded.shard.count_of(metrics::API_ERRORS, operation::CONFIG_LOAD, 1));
                if self.broker.is_none() {
                    self.not_connected("SecretUnusable", problem, now, step);
                } else {
                    let message = format!("{problem}; the URL that was read before is still used");
                    step.notes.push(Note::Warning { message: message.clone() });
                    self.loader.secret_problem = Some(message);
                }
            }
        }
    }
}

fn url_in(secret: &Value, key: &str) -> Result<String, String> {
    let encoded = secret["data"].get(key).and_then(Value::as_str).ok_or("there is no such key; add it")?;
    let decoded = STANDARD.decode(encoded).map_err(|_| "is not base64")?;
    let text = String::from_utf8(decoded).map_err(|_| "is not text")?;
    Ok(text.trim().to_owned())
}
