//! Bounded concurrency: items are started in order, at most so many at a time, until they are done or someone
//! says stop.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// Runs `work` on each item. Once `drain` is cancelled nothing new starts and what runs is waited for.
/// `finished` hears of each end, in the order in which they come; `None` stands for work that panicked.
pub async fn run_all<Item, Output, Future>(
    items: impl IntoIterator<Item = Item>,
    concurrency: NonZeroUsize,
    drain: &CancellationToken,
    work: impl Fn(Item) -> Future,
    mut finished: impl FnMut(Item, Option<Output>),
) where
    Item: Clone,
    Output: Send + 'static,
    Future: std::future::Future<Output = Output> + Send + 'static,
{
    let mut items = items.into_iter();
    let mut running = JoinSet::new();
    let mut started: HashMap<Id, Item> = HashMap::new();
    loop {
        while running.len() < concurrency.get() && !drain.is_cancelled() {
            let Some(item) = items.next() else { break };
            let handle = running.spawn(work(item.clone()));
            started.insert(handle.id(), item);
        }
        let (id, output) = match running.join_next_with_id().await {
            None => return,
            Some(Ok((id, output))) => (id, Some(output)),
            Some(Err(error)) => {
                tracing::error!("a sample ended in a fault of ours: {error}");
                (error.id(), None)
            }
        };
        if let Some(item) = started.remove(&id) {
            finished(item, output);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Barrier;

    use super::*;

    fn limit(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[tokio::test]
    async fn everything_runs_and_never_more_at_a_time_than_allowed() {
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        // Three meet at the barrier each time: it would hang if fewer ran at the same time.
        let barrier = Arc::new(Barrier::new(3));
        let mut done = Vec::new();
        run_all(
            0..12,
            limit(3),
            &CancellationToken::new(),
            |item| {
                let (running, most, barrier) = (running.clone(), most.clone(), barrier.clone());
                async move {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    barrier.wait().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    item * 2
                }
            },
            |item, output| done.push((item, output)),
        )
        .await;
        done.sort_unstable();
        assert_eq!(done, (0..12).map(|item| (item, Some(item * 2))).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn draining_finishes_what_runs_and_starts_nothing_new() {
        let drain = CancellationToken::new();
        let mut done = Vec::new();
        run_all(
            0..100,
            limit(2),
            &drain,
            |item| {
                let drain = drain.clone();
                async move {
                    if item == 3 {
                        drain.cancel();
                    }
                    tokio::task::yield_now().await;
                }
            },
            |item, _| done.push(item),
        )
        .await;
        done.sort_unstable();
        assert!(done.contains(&3) && done.len() <= 6, "{done:?}");
        assert_eq!(done, (0..done.len()).collect::<Vec<_>>(), "what started was waited for");
    }

    #[tokio::test]
    async fn a_panic_ends_one_item_only() {
        let mut done = Vec::new();
        run_all(
            0..3,
            limit(1),
            &CancellationToken::new(),
            |item| async move { assert_ne!(item, 1) },
            |item, output| done.push((item, output)),
        )
        .await;
        assert_eq!(done, [(0, Some(())), (1, None), (2, Some(()))]);
    }
}
