//! The publisher against a real RabbitMQ.
use lockstep_tests::rabbitmq::RabbitMq;
#[test]
fn starts() {
    let mut b = RabbitMq::start().unwrap().unwrap();
    b.kill().unwrap();
    b.resume().unwrap();
    b.stop().unwrap();
    b.resume().unwrap();
    b.control(&["status"]).unwrap();
}
