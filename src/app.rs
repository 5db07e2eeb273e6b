//! Builds every part from the settings, owns all tasks, runs and drains.
