//! A Kubernetes API server as a pure state machine.
