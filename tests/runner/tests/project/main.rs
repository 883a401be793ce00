//! Checks of the project as a whole: its pages, and the structure of its code.

mod documents;
mod excerpts;
mod files;
mod literals;
mod modules;
mod monitoring;
mod traceability;
mod words;
