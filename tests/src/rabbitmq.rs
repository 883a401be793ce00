//! A real RabbitMQ for one test, from Debian's package, with its own ports, data and node.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The directory of Debian's programs that run as any user. Those on the path require a user of their own.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// Runs the programs until standard input closes, so they end with the test, however the test ends. All are in one process
/// group.
const SUPERVISOR: &str = r#"epmd -address 127.0.0.1 & "$0" >server.log 2>&1 & cat >/dev/null; kill -9 0"#;

/// How long a broker may take to start or stop. It is slow when all processors are busy.
const PATIENCE: Duration = Duration::from_mins(5);

/// The user with all permissions.
pub const USER: &str = "sentinel";

/// The password of both users, with characters that URLs must encode.
pub const PASSWORD: &str = "hunter2:/@%";

/// The password in the encoding of URLs.
pub const ENCODED_PASSWORD: &str = "hunter2%3A%2F%40%25";

/// The user that may publish to exchanges, but not declare any.
pub const RESTRICTED_USER: &str = "restricted";

/// A broker. Dropping it ends its processes and deletes its data.
#[derive(Debug)]
pub struct RabbitMq {
    dir: TempDir,
    ports: Ports,
    supervisor: Option<Child>,
}

#[derive(Debug)]
struct Ports {
    amqp: u16,
    amqps: u16,
    distribution: u16,
    epmd: u16,
    _claim: TcpListener,
}

impl RabbitMq {
    /// Returns the broker that the tests of one test binary share, if there is one. The first call starts it.
    ///
    /// Each test uses its own names of exchanges and queues.
    ///
    /// # Panics
    /// If RabbitMQ is installed but does not start.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<RabbitMq>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().expect("RabbitMQ starts")).as_ref()
    }

    /// Starts a broker. Returns `None` and prints a line on standard error if RabbitMQ is not installed.
    pub fn start() -> anyhow::Result<Option<Self>> {
        if !Path::new(PROGRAMS).join("rabbitmq-server").exists() {
            // Not the macro: its output is captured for tests that pass.
            writeln!(
                std::io::stderr(),
                "SKIPPED: RabbitMQ is not installed (package rabbitmq-server); the publisher is not tested with it"
            )?;
            return Ok(None);
        }
        let dir = tempfile::tempdir()?;
        let ports = Ports::claim()?;
        configure(dir.path(), &ports)?;
        let mut broker = Self { dir, ports, supervisor: None };
        broker.resume()?;
        Ok(Some(broker))
    }

    /// Starts it again, with the same data and ports, and waits until it serves.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        let mut command = self.command("sh");
        command.args(["-c", SUPERVISOR]).arg(Path::new(PROGRAMS).join("rabbitmq-server"));
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        self.supervisor = Some(command.spawn().context("starting RabbitMQ")?);
        // The listener for TLS opens after the other: 44 ms later on a busy machine.
        self.wait("RabbitMQ serves", |broker| {
            [broker.ports.amqp, broker.ports.amqps]
                .iter()
                .all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())
        })
    }

    /// Stops it with SIGTERM, as an administrator does.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.end(Signal::TERM)
    }

    /// Kills it, as a crash does.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.end(Signal::KILL)
    }

    /// Writes declarations to disk. RabbitMQ itself does that up to two seconds later, and a declaration that is not on disk is
    /// lost in a crash.
    pub async fn remember(&self) -> anyhow::Result<()> {
        self.control(&["eval", "mnesia:sync_log()."]).await.map(drop)
    }

    /// Runs `rabbitmqctl`, and returns its output. On a busy machine that takes longer than a client may be silent (heartbeats
    /// are sent every 10 s), so it runs beside the runtime of the test and does not block it.
    pub async fn control(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(Path::new(PROGRAMS).join("rabbitmqctl"));
        command.args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await?.context("running rabbitmqctl")?;
        if !output.status.success() {
            bail!("rabbitmqctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Freezes the broker, which then does not even send heartbeats, until [`thaw`](Self::thaw). It waits until all threads have
    /// stopped: on a busy machine one of them may still confirm messages after the signal.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        self.wait("all threads of RabbitMQ have stopped", Self::is_frozen)
    }

    fn is_frozen(&self) -> bool {
        let Some(supervisor) = &self.supervisor else { return true };
        let is_of_broker =
            |process: &PathBuf| stat(process).is_some_and(|(_, group)| group == supervisor.id());
        let processes = entries(Path::new("/proc")).filter(is_of_broker);
        let mut threads = processes.flat_map(|process| entries(&process.join("task")));
        threads.all(|thread| stat(&thread).is_none_or(|(state, _)| matches!(&*state, "T" | "X" | "Z")))
    }

    /// Continues a frozen broker.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Returns the number of connected clients, as the operating system reports it.
    pub fn connections(&self) -> anyhow::Result<usize> {
        let port = format!(":{:04X}", self.ports.amqp);
        let established = fs::read_to_string("/proc/net/tcp")?
            .lines()
            .filter(|line| {
                let mut columns = line.split_whitespace().skip(1);
                let (local, _, state) = (columns.next(), columns.next(), columns.next());
                local.is_some_and(|local| local.ends_with(&port)) && state == Some("01")
            })
            .count();
        Ok(established)
    }

    /// Returns its address for AMQP.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.amqp).into()
    }

    /// Returns the URL for the user with all permissions.
    pub fn url(&self) -> String {
        format!("amqp://{USER}:{ENCODED_PASSWORD}@{}/", self.address())
    }

    /// Returns the URL for the same user, over TLS.
    pub fn tls_url(&self) -> String {
        format!("amqps://{USER}:{ENCODED_PASSWORD}@localhost:{}/%2F", self.ports.amqps)
    }

    /// Returns the path of the CA certificate that signed its certificate, in PEM.
    pub fn certificate_authority(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn end(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.signal(signal)?;
        let Some(mut supervisor) = self.supervisor.take() else { return Ok(()) };
        let group = Pid::from_child(&supervisor);
        supervisor.wait()?;
        self.wait("RabbitMQ ends", |_| test_kill_process_group(group) == Err(Errno::SRCH))
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match &self.supervisor {
            Some(supervisor) => Ok(kill_process_group(Pid::from_child(supervisor), signal)?),
            None => Ok(()),
        }
    }

    fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !done(self) {
            if start.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default();
                bail!("not within {PATIENCE:?}: {what}; its log:\n{log}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Creates a command with the environment that leads to this broker, and to no other.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().env("HOME", dir).env("LANG", "C.UTF-8");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("RABBITMQ_NODENAME", format!("test{}@localhost", self.ports.amqp));
        command.env("RABBITMQ_DIST_PORT", self.ports.distribution.to_string());
        command.env("ERL_EPMD_PORT", self.ports.epmd.to_string());
        command.env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"));
        for (name, path) in [
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_QUORUM_DIR", "quorum"),
            ("RABBITMQ_STREAM_DIR", "stream"),
            ("RABBITMQ_SCHEMA_DIR", "schema"),
            ("RABBITMQ_GENERATED_CONFIG_DIR", "generated"),
            ("RABBITMQ_PLUGINS_EXPAND_DIR", "plugins"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_FEATURE_FLAGS_FILE", "feature_flags"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "advanced.config"),
            ("RABBITMQ_CONF_ENV_FILE", "environment"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(name, dir.join(path));
        }
        command
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

impl Ports {
    /// Finds ports that are not in use, below the range of ephemeral ports: they must be free each time that the broker starts.
    /// The first of five stays bound as long as the broker exists, so that no other test takes the rest while the broker is
    /// down.
    fn claim() -> anyhow::Result<Self> {
        let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
        // Tests that start at the same time begin their search at different ports.
        let blocks = (20_000..30_000).step_by(5).cycle().skip(std::process::id() as usize % 2000).take(2000);
        for first in blocks {
            if let Some(claim) = free(first)
                && (first + 1..first + 5).all(|port| free(port).is_some())
            {
                return Ok(Self {
                    amqp: first + 1,
                    amqps: first + 2,
                    distribution: first + 3,
                    epmd: first + 4,
                    _claim: claim,
                });
            }
        }
        bail!("no five ports in a row are free from 20000 to 29999")
    }
}

/// Returns the paths in a directory that still exists.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the state and the process group of a process or thread, if it still exists (`man 5 proc_pid_stat`).
fn stat(path: &Path) -> Option<(String, u32)> {
    let text = fs::read_to_string(path.join("stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
}

/// Writes the configuration: users, a certificate for `localhost`, and loopback only.
fn configure(dir: &Path, ports: &Ports) -> anyhow::Result<()> {
    let all = json!({ "vhost": "/", "configure": ".*", "write": ".*", "read": ".*" });
    let mut permissions = vec![all.clone(), all];
    permissions[0]["user"] = json!(USER);
    permissions[1]["user"] = json!(RESTRICTED_USER);
    permissions[1]["configure"] = json!("^$");
    let user = |name: &str| {
        json!({
            "name": name, "tags": [],
            "password_hash": password_hash(), "hashing_algorithm": "rabbit_password_hashing_sha256",
        })
    };
    let definitions = json!({
        "users": [user(USER), user(RESTRICTED_USER)],
        "vhosts": [{ "name": "/" }, { "name": "closed" }],
        "permissions": permissions,
    });
    fs::write(dir.join("definitions.json"), definitions.to_string())?;

    let mut authority = rcgen::CertificateParams::new(Vec::new())?;
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()])?.signed_by(&key, &authority)?;
    fs::write(dir.join("ca.pem"), authority.pem())?;
    fs::write(dir.join("cert.pem"), certificate.pem())?;
    fs::write(dir.join("key.pem"), key.serialize_pem())?;

    let at = dir.display();
    let configuration = format!(
        "listeners.tcp.1 = 127.0.0.1:{}\n\
         listeners.ssl.1 = 127.0.0.1:{}\n\
         distribution.listener.interface = 127.0.0.1\n\
         load_definitions = {at}/definitions.json\n\
         ssl_options.cacertfile = {at}/ca.pem\n\
         ssl_options.certfile = {at}/cert.pem\n\
         ssl_options.keyfile = {at}/key.pem\n",
        ports.amqp, ports.amqps
    );
    fs::write(dir.join("rabbitmq.conf"), configuration)?;
    Ok(())
}

/// Returns the password as RabbitMQ stores it: a salt, and the hash of both.
fn password_hash() -> String {
    let salt = *b"salt";
    let hash = Sha256::new().chain_update(salt).chain_update(PASSWORD).finalize();
    BASE64.encode([salt.as_slice(), hash.as_slice()].concat())
}
