//! A server that sends exactly what the test specifies, byte for byte.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Answers one request on each connection. An endless answer does not block other connections. The server ends with the test.
#[derive(Debug)]
pub struct Raw {
    /// Its URL.
    pub url: String,
    heads: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Raw {
    /// Starts a server. The function gets the head of each request, and answers it.
    pub async fn start<A>(answer: impl Fn(String, TcpStream) -> A + Send + 'static) -> Self
    where
        A: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            // A client that has read enough closes the connection, so errors at the end of an answer are ignored.
            let mut answers = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                // The first byte of TLS is answered at once: a TLS handshake has no empty line at its end.
                while !head.ends_with(b"\r\n\r\n") && head != [0x16] {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                seen.lock().unwrap().push(head.clone());
                answers.spawn(answer(head, stream));
            }
        });
        Self { url, heads, serving }
    }

    /// Starts a server that answers every request with the same text.
    pub async fn saying(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::start(move |_, mut stream| {
            let answer = answer.clone();
            async move { stream.write_all(answer.as_bytes()).await }
        })
        .await
    }

    /// Returns the heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns a complete HTTP/1.1 answer with these additional header lines.
pub fn answer(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}
