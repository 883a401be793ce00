//! Tests what is read from an image.

use lockstep_engine::action::{Action, ErrorKind, ResolveImage, Success};
use lockstep_engine::image::FoundImage;
use lockstep_runtime::execute::Executor;

use super::raw::answer;
use super::stand_in::{CONFIG, Guard, INDEX, MANIFEST, answering, asked, registry, repository, respond};
use super::{class, found, user};

#[tokio::test]
async fn an_image_by_tag_is_one_question() {
    let server = registry(Guard::Anybody).await;
    let image = found(&format!("{}:4.19.3", repository(&server)), None).await;
    assert_eq!(image, FoundImage { digest: INDEX.to_owned(), release: None });
    assert_eq!(asked(&server), ["HEAD /v2/ocp/release/manifests/4.19.3 -"]);
    let head = server.heads().remove(0).to_lowercase();
    let accept = head.lines().find(|line| line.starts_with("accept: ")).unwrap();
    for media_type in [
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    ] {
        assert!(accept.contains(media_type), "{accept}");
    }
}

#[tokio::test]
async fn the_release_of_an_image_without_a_tag_is_read() {
    let server = registry(Guard::Anybody).await;
    let at = repository(&server);
    let whole = FoundImage { digest: INDEX.to_owned(), release: Some("4.19.3".to_owned()) };
    assert_eq!(found(&format!("{at}@{INDEX}"), None).await, whole);
    let questions = [
        format!("HEAD /v2/ocp/release/manifests/{INDEX} -"),
        format!("GET /v2/ocp/release/manifests/{INDEX} -"),
        format!("GET /v2/ocp/release/manifests/{MANIFEST} -"),
        format!("GET /v2/ocp/release/blobs/{CONFIG} -"),
    ];
    assert_eq!(asked(&server), questions);
    assert_eq!(found(&at, None).await, whole);
    let single = found(&format!("{at}@{MANIFEST}"), None).await;
    assert_eq!(single, FoundImage { digest: MANIFEST.to_owned(), ..whole });
    // With a tag and a digest, the digest selects the image; the tag gives the version.
    let both = found(&format!("{at}:4.18.0@{MANIFEST}"), None).await;
    assert_eq!(both, FoundImage { digest: MANIFEST.to_owned(), release: None });
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = registry(Guard::Anybody).await;
    assert_eq!(class(&format!("{}:4.20.0", repository(&server)), None).await, ErrorKind::NotFound);
    assert_eq!(class(&format!("{}/other:4.19.3", repository(&server)), None).await, ErrorKind::NotFound);
    assert_eq!(class(&format!("{}@{CONFIG}", repository(&server)), None).await, ErrorKind::NotFound);
}

#[tokio::test]
async fn what_is_no_name_or_digest_is_invalid() {
    let server = registry(Guard::Anybody).await;
    assert_eq!(class(&format!("{}:4.19.3@", repository(&server)), None).await, ErrorKind::Invalid);
    assert_eq!(class("", None).await, ErrorKind::Invalid);
    assert!(server.heads().is_empty());
    // The registry's digest is invalid, which says nothing about the image.
    assert_eq!(class(&format!("{}:odd", repository(&server)), None).await, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_version_that_cannot_be_read_is_none() {
    let long = format!(r#"{{"config":{{"Labels":{{"io.openshift.release":"{}"}}}}}}"#, "4".repeat(129));
    let table = [
        (MANIFEST, answer("404 Not Found", &[], "")),
        (MANIFEST, answer("200 OK", &[], "<html>")),
        (MANIFEST, answer("200 OK", &[], r#"{"manifests":[]}"#)),
        (MANIFEST, answer("200 OK", &[], r#"{"manifests":[{"digest":"../../secret"}]}"#)),
        (MANIFEST, answer("200 OK", &[], r#"{"config":{"digest":"sha256:../x"}}"#)),
        (CONFIG, answer("403 Forbidden", &[], "")),
        (CONFIG, answer("200 OK", &[], "{}")),
        (CONFIG, answer("200 OK", &[], r#"{"config":{"Labels":{"vendor":"x"}}}"#)),
        (CONFIG, answer("200 OK", &[], r#"{"config":{"Labels":null}}"#)),
        (CONFIG, answer("200 OK", &[], &long)),
    ];
    for (digest, said) in table {
        let shown = said.clone();
        let server = answering(move |head| {
            let is_it = head.line.starts_with("GET") && head.line.ends_with(digest);
            if is_it { said.clone() } else { respond(head, Guard::Anybody) }
        })
        .await;
        let image = found(&format!("{}@{INDEX}", repository(&server)), None).await;
        assert_eq!(image, FoundImage { digest: INDEX.to_owned(), release: None }, "{shown}");
        assert!(asked(&server).last().unwrap().ends_with(&format!("{digest} -")), "{shown}");
    }
}

#[tokio::test]
async fn the_executor_carries_the_action_out() {
    let server = registry(Guard::Bearer("token")).await;
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let executor = Executor::new(kube::Client::try_from(nowhere).unwrap(), "bridge");
    let image = format!("{}@{INDEX}", repository(&server));
    let outcome =
        executor.execute(&Action::Registry(ResolveImage { image, credentials: Some(user()) })).await;
    let image = FoundImage { digest: INDEX.to_owned(), release: Some("4.19.3".to_owned()) };
    assert_eq!(outcome, Ok(Success::Image(image)));
}
