use super::*;

const POLLING: Polling = Polling {
    every: Duration::from_secs(30),
    at_most: Duration::from_mins(5),
};

/// Lists of `seconds` in which the server tells every `every`, each list with this result.
fn lists(seconds: u64, every: Duration, listed: Listed, watch: Watch) -> Vec<Duration> {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, watch, start);
    let mut at = start;
    let mut told = start + every;
    let mut lists = Vec::new();
    while at < start + Duration::from_secs(seconds) {
        at = pace.next().min(told);
        if told <= at {
            pace.notified(at);
            told += every;
        }
        match pace.due(at) {
            Due::List => {
                pace.begin();
                pace.listed(listed, at);
                lists.push(at - start);
            }
            Due::Check => pace.checked(at),
            Due::Nothing => {}
        }
    }
    lists
}

const NEVER: Duration = Duration::from_hours(1000);

#[test]
fn a_burst_is_one_list_after_the_debounce() {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, Watch::Trust, start);
    for ms in 0..150 {
        pace.notified(start + Duration::from_millis(ms));
    }
    assert_eq!(pace.next(), start + DEBOUNCE);
    assert_eq!(pace.due(start + DEBOUNCE), Due::List);
    pace.begin();
    assert_eq!(pace.due(start + DEBOUNCE), Due::Nothing);
}

#[test]
fn who_tells_for_ever_without_reason_is_asked_less_and_less() {
    let lists = lists(600, Duration::from_millis(1), Listed::Same, Watch::Trust);
    assert!(lists.len() < 25, "{}", lists.len());
    let minute = lists.iter().filter(|at| at.as_secs() < 60).count();
    assert!((3..=10).contains(&minute), "{minute}");
}

#[test]
fn who_tells_whenever_it_is_asked_is_asked_once_more_and_then_no_more() {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, Watch::Trust, start);
    let mut at = start;
    let mut lists = 0;
    pace.notified(start);
    while at < start + Duration::from_mins(4) {
        at = pace.next();
        if pace.due(at) == Due::List {
            pace.begin();
            pace.listed(Listed::Same, at);
            pace.told_meanwhile(Listed::Same, at);
            lists += 1;
        }
    }
    assert_eq!(lists, 3, "one told, one to make sure, one by the poll");
}

#[test]
fn a_change_that_a_list_just_missed_is_found_by_the_next() {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, Watch::Trust, start);
    for _ in 0..3 {
        pace.begin();
        pace.listed(Listed::Same, start);
        pace.told_meanwhile(Listed::Same, start);
        assert_eq!(pace.next(), start + CONFIRM);
        pace.begin();
        pace.listed(Listed::Other, start);
        pace.silent_meanwhile();
    }
}

#[test]
fn who_changes_without_end_is_slowed_down() {
    let lists = lists(600, Duration::from_millis(100), Listed::Other, Watch::Trust);
    assert!(lists.len() < 900, "{}", lists.len());
    assert!(lists[4].as_secs() < 2, "{:?}", lists[4]);
}

#[test]
fn one_change_a_second_waits_for_nothing_but_the_debounce() {
    let mut lists = lists(120, Duration::from_secs(1), Listed::Other, Watch::Trust);
    lists.truncate(115);
    for (at, list) in (1..).zip(&lists) {
        assert_eq!(*list, Duration::from_secs(at) + DEBOUNCE);
    }
}

#[test]
fn polls_rise_to_five_minutes_and_less_where_there_is_push() {
    let polls = lists(3600, NEVER, Listed::Same, Watch::Poll);
    assert!(polls[0] > Duration::from_secs(23) && polls[0] < Duration::from_secs(37));
    assert!((12..24).contains(&polls.len()), "{}", polls.len());
    let pushed = lists(3600, NEVER, Listed::Same, Watch::Trust);
    assert!((10..=15).contains(&pushed.len()), "{}", pushed.len());
    let changing = lists(600, NEVER, Listed::Other, Watch::Poll);
    assert!((16..=25).contains(&changing.len()), "{}", changing.len());
}

#[test]
fn a_quiet_server_costs_three_requests_a_minute_at_most() {
    for watch in [Watch::Poll, Watch::Trust, Watch::Check] {
        let start = Instant::now();
        let mut pace = Pace::new(POLLING, watch, start);
        let mut asked = 0;
        let mut at = start;
        while at < start + Duration::from_mins(10) {
            at = pace.next();
            asked += 1;
            match pace.due(at) {
                Due::List => {
                    pace.begin();
                    pace.listed(Listed::Same, at);
                }
                _ => pace.checked(at),
            }
        }
        assert!(asked <= 30, "{watch:?}: {asked}");
    }
}

#[test]
fn a_session_whose_push_channel_went_is_checked_once() {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, Watch::Check, start);
    pace.lost(start);
    assert_eq!(pace.next(), start + DOUBT);
    assert_eq!(pace.due(start + DOUBT), Due::Check);
    pace.checked(start + DOUBT);
    assert!(pace.next() > start + Duration::from_secs(20));
    pace.lost(start);
    pace.watch(Watch::Check, start);
    assert!(pace.next() > start + DOUBT, "it came back");
}

#[test]
fn a_list_that_failed_is_tried_again_later_and_later() {
    let start = Instant::now();
    let mut pace = Pace::new(POLLING, Watch::Trust, start);
    let mut at = start;
    for seconds in [2, 4, 8, 16, 32, 64, 64] {
        pace.begin();
        pace.listed(Listed::Failed, at);
        assert_eq!(pace.next(), at + Duration::from_secs(seconds));
        at = pace.next();
    }
    assert_eq!(pace.failures(), 7);
}
