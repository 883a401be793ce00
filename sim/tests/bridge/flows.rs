//! The life of a bridge, as a table of what it asks for and what its status says.

use super::bench::Bench;
use super::objects::bridge;

#[test]
fn a_bridge_comes_and_goes() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    insta::assert_snapshot!("comes", bench.transitions());
}
