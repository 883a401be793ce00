//! Checks that the API server answers, and that its version is supported.

use kube::Client;
use lockstep_crds::CrdSet;
use lockstep_runtime::failure::from_client;

use super::super::cluster::Cluster;
use super::finding::Finding;

/// The check of the connection.
pub(super) const REACHABLE: &str = "API server";
/// The check of the version.
const VERSION: &str = "version";

/// The oldest minor version of Kubernetes 1 on which the chart installs (`kubeVersion` of the chart).
const OLDEST: u32 = 27;
/// The oldest for the CRD of DPUServices: its validation rules compare quantities.
const OLDEST_FOR_DPUSERVICES: u32 = 29;

pub(super) async fn check(cluster: &Cluster, sets: &[CrdSet]) -> Finding {
    match version(&cluster.client).await {
        Ok((minor, version)) => judge(&cluster.url, minor, &version, sets),
        Err(message) => Finding::fail(
            REACHABLE,
            &cluster.url,
            format!("no answer to GET /version: {message}"),
            "check the URL, the network and the credentials; the other checks were not made",
        ),
    }
}

/// Returns the minor version and the name of the version.
async fn version(client: &Client) -> Result<(u32, String), String> {
    let info = client.apiserver_version().await.map_err(|error| from_client(&error).to_string())?;
    // Some distributions write "27+".
    let minor = info.minor.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let minor = minor.parse().map_err(|_| format!("{:?} is not a minor version", info.minor))?;
    Ok((minor, info.git_version))
}

fn judge(url: &str, minor: u32, version: &str, sets: &[CrdSet]) -> Finding {
    let dpuservices = sets.iter().any(|set| set.controller == lockstep_crds::dpuservice::CONTROLLER);
    let oldest = if dpuservices { OLDEST_FOR_DPUSERVICES } else { OLDEST };
    if minor >= oldest {
        return Finding::ok(REACHABLE, url, format!("answers, Kubernetes {version}"));
    }
    let what = if minor >= OLDEST { "the CRD of DPUServices needs" } else { "the controllers need" };
    Finding::fail(
        VERSION,
        url,
        format!("Kubernetes {version} is too old: {what} 1.{oldest} or newer"),
        "upgrade the cluster",
    )
}

#[cfg(test)]
mod tests {
    use lockstep_cli::controllers;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_oldest_version_depends_on_the_controllers() {
        let chart = include_str!("../../../../../deploy/lockstep/Chart.yaml");
        assert!(chart.contains(&format!("kubeVersion: \">=1.{OLDEST}.0-0\"")));
        let all = controllers::select(&[]).unwrap();
        let bridge = controllers::select(&["bridge".to_owned()]).unwrap();
        for (minor, sets, level) in [
            (26, &bridge, Level::Fail),
            (27, &bridge, Level::Ok),
            (28, &all, Level::Fail),
            (29, &all, Level::Ok),
        ] {
            assert_eq!(judge("u", minor, "v", sets).level, level, "{minor}");
        }
    }
}
