//! Which state may follow which.

use crate::model::ConnectionState::{
    self, Authenticated, Authenticating, Connected, Connecting, Disconnected, Discovering, Failed,
    Initializing, Ready, Reconnecting, Validating,
};

/// Whether a session that stands at `from` may come to stand at `to`. An order from outside
/// (pause, edit, another owner) may come at any time; everything else has its place.
pub(super) fn may_follow(from: ConnectionState, to: ConnectionState) -> bool {
    match to {
        Disconnected | Initializing | Validating => true,
        Connecting => matches!(
            from,
            Initializing | Validating | Authenticated | Connected | Discovering | Connecting
        ),
        Connected => matches!(from, Connecting | Reconnecting),
        Discovering => from == Connected,
        Ready => from == Discovering,
        Reconnecting => matches!(from, Connected | Discovering | Ready | Failed),
        Failed => matches!(from, Connecting | Connected | Discovering | Reconnecting),
        Authenticating => matches!(
            from,
            Connecting | Connected | Discovering | Ready | Reconnecting
        ),
        Authenticated => from == Authenticating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ConnectionState; 11] = [
        Disconnected,
        Connecting,
        Authenticating,
        Authenticated,
        Discovering,
        Connected,
        Ready,
        Validating,
        Reconnecting,
        Initializing,
        Failed,
    ];

    #[test]
    fn the_usual_ways_are_open() {
        for way in [
            &[
                Disconnected,
                Initializing,
                Connecting,
                Connected,
                Discovering,
                Ready,
            ][..],
            &[Ready, Validating, Connecting, Connected],
            &[Ready, Reconnecting, Connected, Discovering, Ready],
            &[
                Connecting,
                Failed,
                Reconnecting,
                Failed,
                Reconnecting,
                Connected,
            ],
            &[Connecting, Authenticating, Authenticated, Connecting],
            &[Ready, Disconnected, Initializing],
        ] {
            for step in way.windows(2) {
                assert!(may_follow(step[0], step[1]), "{step:?}");
            }
        }
    }

    #[test]
    fn ready_comes_after_discovering_only_and_every_state_can_be_left() {
        for from in ALL {
            assert_eq!(may_follow(from, Ready), from == Discovering, "{from:?}");
            assert_eq!(may_follow(from, Authenticated), from == Authenticating);
            assert!(may_follow(from, Disconnected) && may_follow(from, Initializing));
        }
        assert!(!may_follow(Disconnected, Connected));
        assert!(!may_follow(Authenticating, Connecting));
    }
}
