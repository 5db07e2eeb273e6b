//! How many files, and so how many streams, this process may have open.

use rlimit::Resource;

/// Files kept for everything that is no event stream.
const RESERVED: usize = 512;
/// Of those, for connections that carry ordinary requests.
const REQUESTS: usize = 256;
/// Streams where the system sets no limit.
const UNLIMITED: usize = 1_000_000;

/// Event streams and connections of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) streams: usize,
    pub(super) connections: usize,
}

impl Limits {
    /// Raises the soft limit of open files to the hard one, and fits the wish to it.
    pub(super) fn raise(wish: Option<usize>) -> Self {
        let files = match Resource::NOFILE.get() {
            Ok((soft, hard)) => match Resource::NOFILE.set(hard, hard) {
                Ok(()) => hard,
                Err(error) => {
                    tracing::warn!(%error, "the limit of open files stays at {soft}: {error}");
                    soft
                }
            },
            // A system without such a limit.
            Err(_) => rlimit::INFINITY,
        };
        let fitted = Self::fit(wish, files);
        if let Some(wish) = wish.filter(|wish| *wish > fitted.streams) {
            tracing::warn!(
                "TOOLCAST_MAX_STREAMS is lowered from {wish} to {}: the hard limit of open files \
                 is {files}",
                fitted.streams
            );
        }
        fitted
    }

    fn fit(wish: Option<usize>, files: u64) -> Self {
        let most = usize::try_from(files)
            .unwrap_or(usize::MAX)
            .saturating_sub(RESERVED)
            .clamp(1, UNLIMITED);
        let streams = wish.unwrap_or(most).min(most);
        Self {
            streams,
            connections: streams + REQUESTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_files_for_the_rest() {
        let streams = |wish, files| Limits::fit(wish, files).streams;
        assert_eq!(streams(None, 20_000), 19_488);
        assert_eq!(streams(Some(100_000), 20_000), 19_488);
        assert_eq!(streams(Some(100), 20_000), 100);
        assert_eq!(streams(None, 100), 1);
        assert_eq!(streams(None, rlimit::INFINITY), UNLIMITED);
        assert_eq!(Limits::fit(None, 20_000).connections, 19_744);
    }
}
