//! Tests the address of the load balancer, and whether it is set.

use std::fmt::Write as _;

use super::{Court, Value, bridge, json, set, shown, spec};

pub(super) async fn addresses(court: Court) -> anyhow::Result<()> {
    let good =
        ["0.0.0.0", "1.2.3.4", "9.10.99.100", "127.0.0.1", "199.200.249.250", "224.0.0.1", "255.255.255.255"];
    let bad = [
        "256.1.1.1",
        "1.256.1.1",
        "1.1.260.1",
        "1.1.1.300",
        "1.1.1.999",
        "1.1.1.1000",
        "1.2.3",
        "1.2.3.",
        ".1.2.3.4",
        "1..2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "1.2.3.04",
        "00.0.0.0",
        "1.2.3.4 ",
        " 1.2.3.4",
        " ",
        "\n",
        "1.2.3.4\n",
        "1.2.3.4/32",
        "1.2.3.4:6443",
        "1.2.3.4,1.2.3.5",
        "1.2.3.-4",
        "+1.2.3.4",
        "0x1.2.3.4",
        "1,2,3,4",
        "a.b.c.d",
        "example.com",
        "::1",
        "::ffff:1.2.3.4",
        "fd00::1",
        "١.٢.٣.٤",
    ];
    insta::assert_snapshot!(
        "addresses",
        court.judge_texts("metalLBVirtualIP", good.into_iter().chain(bad)).await?
    );
    Ok(())
}

pub(super) async fn exposure_and_address_go_together(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for expose in [Some(json!(true)), Some(json!(false)), Some(Value::Null), None] {
        for address in
            [None, Some(Value::Null), Some(json!("")), Some(json!("192.168.1.100")), Some(json!("192.168.1"))]
        {
            let case = |value: &Option<Value>| value.as_ref().map_or_else(|| "left out".to_owned(), shown);
            writeln!(results, "load balancer {}, address {}", case(&expose), case(&address))?;
            let mut spec = spec();
            set(&mut spec, "exposeThroughLoadBalancer", expose.clone());
            set(&mut spec, "metalLBVirtualIP", address);
            writeln!(results, "    {}", court.judge(&bridge(Some(spec))).await?)?;
        }
    }
    insta::assert_snapshot!("exposure_and_address_go_together", results);
    Ok(())
}

pub(super) async fn a_pool_needs_a_load_balancer(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for pool in [json!({ "namespace": "metallb-system" }), Value::Null] {
        writeln!(results, "metalLBPool {pool}")?;
        for (expose, address) in [(true, "192.168.1.100"), (true, ""), (false, "192.168.1.100"), (false, "")]
        {
            let mut spec = spec();
            set(&mut spec, "metalLBPool", Some(pool.clone()));
            set(&mut spec, "exposeThroughLoadBalancer", Some(json!(expose)));
            set(&mut spec, "metalLBVirtualIP", Some(json!(address)));
            let answer = court.judge(&bridge(Some(spec))).await?;
            writeln!(results, "load balancer {expose}, address {address:?}\n    {answer}")?;
        }
    }
    insta::assert_snapshot!("a_pool_needs_a_load_balancer", results);
    Ok(())
}

pub(super) async fn several_mistakes_are_reported_at_once(court: Court) -> anyhow::Result<()> {
    let mut malformed = spec();
    set(&mut malformed, "baseDomain", Some(json!("X")));
    set(&mut malformed, "clusterType", Some(json!("-")));
    set(&mut malformed, "metalLBVirtualIP", Some(json!("")));
    let mut unsupported = malformed.clone();
    set(&mut unsupported, "controlPlaneAvailabilityPolicy", Some(json!("Many")));
    set(&mut unsupported, "pullSecretRef", None);
    let mut results = String::new();
    for spec in [Some(malformed), Some(unsupported), Some(json!({})), Some(Value::Null), None] {
        writeln!(results, "{}", court.judge(&bridge(spec)).await?)?;
    }
    insta::assert_snapshot!("several_mistakes_are_reported_at_once", results);
    Ok(())
}
