//! The arguments of a call, held against the schema of the tool before the tool's server is asked.

mod check;
mod coerce;

pub(super) use check::check;
pub(super) use coerce::coerce;
