//! Secrets at rest, token hashes.
