//! The path of the API, its dialects and releases.

/// The path of the API.
pub const API: &str = "/api/hyperfleet/v1";

/// The dialect of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The dialect of the Sentinel's specification: `?labels=<selector>` answers all resources, with `status.phase`; in pages, if
    /// the request has page parameters.
    Documented,
    /// The dialect of release 0.3.1: `?search=`, pages of at most 100, conditions.
    Released,
}

/// A release of the API with the dialect [`Dialect::Released`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Orders by `orderBy` and ignores `order`. A search has no `in`, and no label keys with dots, slashes or capitals. Pages
    /// have any size.
    V0_3_0,
    /// Orders by `order`; a search has at most 4,096 bytes, a page at most 100 items.
    V0_3_1,
}
