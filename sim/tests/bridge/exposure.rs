//! The exposure of a cluster that serves.

use std::time::Duration;

use super::bench::Bench;
use super::scenarios::node_ports;

/// HyperShift stops reconciling such a cluster, which goes on serving (decision 52).
#[test]
fn an_invalid_configuration_does_not_affect_the_exposure_of_a_cluster_that_serves() {
    for (ready, exposed) in
        [(Bench::ready as fn() -> Bench, "True/LoadBalancerReady"), (node_ports, "True/NodePortReady")]
    {
        let mut bench = ready();
        let before = bench.condition("prod", "ServiceExposureReady");
        assert_eq!(before.0, exposed);
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "ValidConfiguration", "False", "InvalidConfiguration");
        bench.set_condition("HostedCluster", "Progressing", "False", "Blocked");
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.condition("prod", "ServiceExposureReady"), before);
        let (ready, message) = bench.condition("prod", "Ready");
        assert_eq!((ready.as_str(), bench.phase("prod").as_str()), ("True/ClusterReady", "Ready"));
        assert!(message.contains("HyperShift can't change it now: Blocked: as a test wants it"), "{message}");
    }
}
