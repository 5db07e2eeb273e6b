//! Every setting: flag, variable, default, check.
