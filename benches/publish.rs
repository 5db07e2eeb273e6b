//! One change to 10,000 cursors, in memory.

use criterion::{Criterion, criterion_group, criterion_main};
use toolcast::feed::bench::Publisher;
use toolcast::metrics::Metrics;

const STREAMS: usize = 10_000;

fn publish(criterion: &mut Criterion) {
    #[expect(
        clippy::unwrap_used,
        reason = "without metrics there is nothing to measure"
    )]
    let metrics = Metrics::on().unwrap().feed;
    let mut publisher = Publisher::new(STREAMS, metrics);
    criterion.bench_function("one change to 10,000 cursors", |bencher| {
        bencher.iter(|| assert_eq!(publisher.publish(), STREAMS));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50);
    targets = publish
}
criterion_main!(benches);
