//! What discovery says about a kind.

/// One resource as in discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories for kubectl, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Subresources that the model serves, such as `status` and `scale`.
    pub subresources: &'static [&'static str],
}

/// The kind of the subresource `scale`.
pub static SCALE: Resource = Resource {
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    plural: "scales",
    singular: "scale",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
};

/// The kind of writes to `serviceaccounts/token` only.
pub static TOKEN_REQUEST: Resource = Resource {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    plural: "tokenrequests",
    singular: "tokenrequest",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
};
