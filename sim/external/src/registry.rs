//! A container registry: its images, and the credentials for them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ErrorKind, Failure, Outcome, ResolveImage, Success};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::{FoundImage, ImageReference};
use lockstep_sim::cluster::ExternalSystems;

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of its manifest.
    pub digest: String,
    /// The OpenShift version in its label.
    pub release: Option<String>,
    /// The `user:password` that is required to pull it; none for a public image.
    pub credentials: Option<String>,
}

/// The health of the registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Health {
    /// It is available.
    #[default]
    Up,
    /// It is unreachable.
    Down,
    /// It refuses all clients.
    Forbidden,
}

/// The registry.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Its images, by the full reference.
    pub images: BTreeMap<String, Image>,
    /// Its health.
    pub health: Health,
}

impl Registry {
    /// Resolves an image with these credentials. A malformed reference is refused without a query.
    pub fn find(&self, reference: &str, credentials: Option<&str>) -> Result<FoundImage, Failure> {
        ImageReference::parse(reference).map_err(|problem| Failure::new(ErrorKind::Invalid, problem))?;
        let refused = || {
            Failure::new(
                ErrorKind::Forbidden,
                "unauthorized: access to the requested resource is not authorized",
            )
        };
        match self.health {
            Health::Up => {}
            Health::Down => return Err(Failure::new(ErrorKind::Unavailable, "connection refused")),
            Health::Forbidden => return Err(refused()),
        }
        let image = self.images.get(reference);
        let image = image.ok_or_else(|| Failure::new(ErrorKind::NotFound, "manifest unknown"))?;
        if image.credentials.is_some() && image.credentials.as_deref() != credentials {
            return Err(refused());
        }
        let name = reference.rsplit('/').next().unwrap_or_default();
        let has_tag = name.contains(':') && !name.contains('@');
        let release = image.release.clone().filter(|_| !has_tag);
        Ok(FoundImage { digest: image.digest.clone(), release })
    }
}

impl ExternalSystems for Registry {
    fn serves(&self, action: &Action) -> bool {
        matches!(action, Action::Registry(_))
    }

    fn carry_out(&mut self, _: usize, action: &Action, _: Timestamp) -> Outcome {
        let Action::Registry(ResolveImage { image, credentials }) = action else {
            return Err(Failure::new(ErrorKind::Invalid, "a registry only knows images"));
        };
        self.find(image, credentials.as_ref().map(SecretString::reveal)).map(Success::Image)
    }

    fn died(&mut self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_DIGEST: &str =
        "r.example/a@sha256:0000000000000000000000000000000000000000000000000000000000000001";

    fn image(credentials: Option<&str>) -> Image {
        let (digest, release) = ("sha256:01".to_owned(), Some("4.19.0".to_owned()));
        Image { digest, release, credentials: credentials.map(str::to_owned) }
    }

    #[test]
    fn an_image_is_found_by_who_may_pull_it() {
        let images = [("r.example/a:4.19.0", None), (BY_DIGEST, Some("me:secret"))];
        let images = images.map(|(reference, credentials)| (reference.to_owned(), image(credentials)));
        let mut registry = Registry { images: images.into(), health: Health::Up };
        let mut class = |health, reference, credentials| {
            registry.health = health;
            registry.find(reference, credentials).map(|found| found.release).map_err(|failure| failure.class)
        };
        let release = Some("4.19.0".to_owned());
        assert_eq!(class(Health::Up, "r.example/a:4.19.0", None), Ok(None));
        assert_eq!(class(Health::Up, BY_DIGEST, Some("me:secret")), Ok(release));
        assert_eq!(class(Health::Up, BY_DIGEST, Some("me:wrong")), Err(ErrorKind::Forbidden));
        assert_eq!(class(Health::Up, BY_DIGEST, None), Err(ErrorKind::Forbidden));
        assert_eq!(class(Health::Up, "r.example/b:1", None), Err(ErrorKind::NotFound));
        assert_eq!(class(Health::Down, "r.example/A:4.19.0", None), Err(ErrorKind::Invalid));
        assert_eq!(class(Health::Down, "r.example/a:4.19.0", None), Err(ErrorKind::Unavailable));
        assert_eq!(class(Health::Forbidden, "r.example/a:4.19.0", None), Err(ErrorKind::Forbidden));
    }
}
