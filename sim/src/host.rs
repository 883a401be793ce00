//! Serves the API server model over HTTP on loopback.
