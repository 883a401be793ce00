//! The fake Pub/Sub of Google's client library for Go, and a consumer that uses that library.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::spawn_blocking;

use crate::control_plane;
use crate::ground::PATIENCE;

/// The service; dropping it ends it.
#[derive(Debug)]
pub struct PubSub {
    /// Its address.
    pub address: String,
    _process: Child,
    commands: ChildStdin,
    printed: Lines<BufReader<ChildStdout>>,
    /// Messages that arrived during the wait for something else.
    arrived: VecDeque<Message>,
}

/// A message as the consumer received it.
#[derive(Debug, Deserialize)]
pub struct Message {
    /// The full name of the topic.
    pub topic: String,
    /// Its data, which must be text.
    pub data: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Started { address: String },
    Done { done: String },
    Arrived(Message),
}

impl PubSub {
    /// Starts it without topics, on a free port.
    pub async fn start() -> anyhow::Result<Self> {
        let program = spawn_blocking(control_plane::pubsub).await??;
        let mut process =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let commands = process.stdin.take().context("no standard input")?;
        let mut printed = BufReader::new(process.stdout.take().context("no standard output")?).lines();
        let Line::Started { address } = line(&mut printed).await? else { bail!("no address") };
        Ok(Self { address, _process: process, commands, printed, arrived: VecDeque::new() })
    }

    /// Creates `projects/P/topics/T` with a consumer, before the first message.
    pub async fn create(&mut self, topic: &str) -> anyhow::Result<()> {
        self.send(&format!("create {topic}")).await
    }

    /// Closes all connections of publishers, and accepts no new ones. The consumer stays.
    pub async fn leave(&mut self) -> anyhow::Result<()> {
        self.send("leave").await
    }

    /// Accepts connections again, at the same address.
    pub async fn come_back(&mut self) -> anyhow::Result<()> {
        self.send("return").await
    }

    async fn send(&mut self, command: &str) -> anyhow::Result<()> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        loop {
            match line(&mut self.printed).await? {
                Line::Arrived(message) => self.arrived.push_back(message),
                Line::Done { done } if done == command => return Ok(()),
                Line::Done { done: other } | Line::Started { address: other } => bail!("{other}"),
            }
        }
    }

    /// Returns the next message.
    pub async fn next(&mut self) -> anyhow::Result<Message> {
        if let Some(message) = self.arrived.pop_front() {
            return Ok(message);
        }
        match line(&mut self.printed).await? {
            Line::Arrived(message) => Ok(message),
            Line::Done { done: other } | Line::Started { address: other } => bail!("{other}"),
        }
    }
}

async fn line(printed: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<Line> {
    let line = tokio::time::timeout(PATIENCE, printed.next_line()).await.context("nothing came")??;
    let line = line.context("the service has ended; the output above has the cause")?;
    serde_json::from_str(&line).with_context(|| line)
}
