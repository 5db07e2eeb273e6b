//! Prometheus' text format, read strictly.

use std::collections::{BTreeMap, BTreeSet};

/// One collection, read as strictly as Prometheus does.
#[derive(Debug)]
pub(super) struct Scrape {
    /// By family, its type.
    pub(super) types: BTreeMap<String, String>,
    pub(super) helped: BTreeSet<String>,
    /// As they are written, with their labels.
    pub(super) series: BTreeMap<String, f64>,
}

impl Scrape {
    pub(super) fn read(text: &str) -> Self {
        let mut scrape = Self {
            types: BTreeMap::new(),
            helped: BTreeSet::new(),
            series: BTreeMap::new(),
        };
        assert!(text.ends_with('\n'), "the last line has no end");
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a text");
                assert!(
                    !help.is_empty() && scrape.helped.insert(name.to_owned()),
                    "{line}"
                );
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let twice = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert!(twice.is_none(), "{line} comes twice");
            } else {
                scrape.sample(line);
            }
        }
        scrape
    }

    fn sample(&mut self, line: &str) {
        assert!(!line.starts_with('#'), "{line}");
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let value: f64 = value
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line}"));
        let (name, labels) = series
            .split_once('{')
            .map_or((series, None), |(name, rest)| {
                (
                    name,
                    Some(rest.strip_suffix('}').expect("an end of the labels")),
                )
            });
        assert!(is_name(name), "{line}");
        for label in labels.into_iter().flat_map(|labels| labels.split("\",")) {
            let (label, text) = label.split_once("=\"").expect("a label");
            let text = text.trim_end_matches('"');
            assert!(is_name(label) && !text.contains(['"', '\\']), "{line}");
        }
        assert!(
            self.types.contains_key(self.family(name)),
            "{line} has no type"
        );
        let twice = self.series.insert(series.to_owned(), value);
        assert!(twice.is_none(), "{series} comes twice");
    }

    /// The family that a sample of this name belongs to.
    fn family<'a>(&self, name: &'a str) -> &'a str {
        let is_histogram = |stem: &&str| self.types.get(*stem).is_some_and(|t| t == "histogram");
        ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end).filter(is_histogram))
            .unwrap_or(name)
    }

    pub(super) fn value(&self, series: &str) -> f64 {
        self.series.get(series).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn sum(&self, family: &str) -> f64 {
        let of = |(series, _): &(&String, &f64)| series.split('{').next() == Some(family);
        self.series.iter().filter(of).map(|(_, value)| value).sum()
    }
}

fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}
