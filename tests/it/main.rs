//! The integration tests: one binary, one file per feature.

#[macro_use]
mod support;

mod health;
mod layers;
mod settings;
mod start_stop;
