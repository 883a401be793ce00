//! A complete tiny controller and its simulation: the example of `docs/simulating-a-controller.md`.

mod greeting {
    mod acts;
    mod bugs;
    mod controller;
    mod desired;
    mod guide;
    mod reconcile;
    mod rules;
    mod search;
    mod subject;
}
