//! The actor on a scripted server, with a row in memory and a clock that is held: hours pass in no
//! time, and every interleaving is one that can be had again.

mod heals;
mod listens;
mod races;
mod world;
