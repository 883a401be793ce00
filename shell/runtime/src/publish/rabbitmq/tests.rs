use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use lockstep_engine::action::ErrorKind;
use lockstep_engine::broker::ExchangeType;

use super::*;
use crate::publish::message::example;

#[test]
fn a_message_holds_the_whole_event_and_its_attributes() {
    let (body, properties) = encode(&example()).unwrap();
    insta::assert_snapshot!("body", String::from_utf8(body).unwrap());
    let headers = properties.headers().iter().flat_map(FieldTable::inner);
    let headers = headers.map(|(name, value)| match value {
        AMQPValue::LongString(text) => (name.as_str(), text.to_string()),
        value => panic!("{value:?}"),
    });
    insta::assert_json_snapshot!("headers", headers.collect::<BTreeMap<_, _>>());
    insta::assert_debug_snapshot!("properties", properties.with_headers(FieldTable::default()));
}

#[test]
fn an_event_that_no_message_can_hold_fails_alone() {
    for event in
        [CloudEvent { id: "x".repeat(256), ..example() }, CloudEvent { source: String::new(), ..example() }]
    {
        let failure = encode(&event).unwrap_err();
        assert_eq!(failure.class, ErrorKind::Invalid, "{failure}");
    }
}

#[test]
fn urls_as_operators_write_them() {
    let table = [
        ("amqp://u:secret@broker", "broker", 5672, "/", r#"RabbitMQ at broker:5672 (virtual host "/")"#),
        ("amqp://u:secret@broker/", "broker", 5672, "/", r#"RabbitMQ at broker:5672 (virtual host "/")"#),
        ("amqps://u:secret@broker/%2F", "broker", 5671, "/", r#"RabbitMQ at broker:5671 (virtual host "/")"#),
        ("amqp://10.1.2.3:1/a%2Fb", "10.1.2.3", 1, "a/b", r#"RabbitMQ at 10.1.2.3:1 (virtual host "a/b")"#),
        ("amqp://u:secret@[fd00::1]:2/v", "fd00::1", 2, "v", r#"RabbitMQ at [fd00::1]:2 (virtual host "v")"#),
        (
            "amqp://u:s%40%5B@[::1]?heartbeat=3",
            "::1",
            5672,
            "/",
            r#"RabbitMQ at [::1]:5672 (virtual host "/")"#,
        ),
    ];
    for (url, host, port, vhost, name) in table {
        let server = Server::new(&SecretString::new(url)).unwrap();
        let uri = server.uri();
        assert_eq!(
            (uri.authority.host.as_str(), uri.authority.port, uri.vhost.as_str()),
            (host, port, vhost)
        );
        assert_eq!(uri.query.heartbeat, Some(if url.ends_with('3') { 3 } else { 10 }), "{url}");
        assert_eq!(uri.query.frame_max, Some(16_384), "{url}");
        let failure = server.nack();
        assert!(failure.message.starts_with(&format!("{name}: ")), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_left() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("amqp://user:hunter2@{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || io::copy(&mut listener.accept().unwrap().0, &mut io::sink()));
    let exchange =
        Exchange { name: "events".to_owned(), r#type: ExchangeType::Fanout, routing_key: String::new() };
    let failure = Connection::open(&SecretString::new(url), &exchange).await.err().unwrap();
    assert_eq!(failure.class, ErrorKind::Unavailable);
    assert!(failure.message.contains("not connected within 10 s"), "{failure}");
    // The peer receives the end of the stream.
    let _ = tokio::task::spawn_blocking(|| peer.join()).await.unwrap().unwrap();
}
