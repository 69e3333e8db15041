use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::Barrier;

use super::*;

/// Numbers up to `count`; what was done with them is written down.
struct Numbers {
    next: AtomicUsize,
    count: usize,
    work: Box<dyn Fn(usize) -> BoxFuture<'static, usize> + Send + Sync>,
    made_ready: Arc<Mutex<Vec<usize>>>,
    given_up: Mutex<Vec<usize>>,
    done: Vec<(usize, Option<usize>)>,
}

impl Numbers {
    fn new(count: usize, work: impl Fn(usize) -> BoxFuture<'static, usize> + Send + Sync + 'static) -> Self {
        Self {
            next: AtomicUsize::new(0),
            count,
            work: Box::new(work),
            made_ready: Arc::default(),
            given_up: Mutex::default(),
            done: Vec::new(),
        }
    }

    fn done(&self) -> Vec<(usize, Option<usize>)> {
        let mut done = self.done.clone();
        done.sort_unstable();
        done
    }
}

impl Stages for Numbers {
    type Item = usize;
    type Ready = usize;
    type Output = usize;

    async fn claim(&self) -> Option<usize> {
        let next = self.next.fetch_add(1, Ordering::SeqCst);
        (next < self.count).then_some(next)
    }

    fn make_ready(&self, item: usize) -> impl Future<Output = usize> + Send + 'static {
        let made_ready = self.made_ready.clone();
        async move {
            made_ready.lock().unwrap().push(item);
            item
        }
    }

    fn work(&self, item: usize, ready: JoinHandle<usize>) -> impl Future<Output = usize> + Send + 'static {
        let work = (self.work)(item);
        async move {
            assert_eq!(ready.await.unwrap(), item);
            work.await
        }
    }

    async fn give_up(&self, item: usize, ready: JoinHandle<usize>) {
        assert_eq!(ready.await.unwrap(), item);
        self.given_up.lock().unwrap().push(item);
    }

    fn finished(&mut self, item: usize, output: Option<usize>) {
        self.done.push((item, output));
    }
}

fn limits(worked_on: usize, ahead: usize) -> watch::Receiver<Limits> {
    watch::Sender::new(limited(worked_on, ahead, Starts::Allowed)).subscribe()
}

fn limited(worked_on: usize, ahead: usize, starts: Starts) -> Limits {
    Limits { worked_on: NonZeroUsize::new(worked_on).unwrap(), ahead, starts }
}

#[tokio::test]
async fn everything_runs_and_never_more_at_a_time_than_allowed() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Three meet at the barrier each time: it would hang if fewer ran at the same time.
    let barrier = Arc::new(Barrier::new(3));
    let counted = most.clone();
    let mut numbers = Numbers::new(12, move |item| {
        let (running, most, barrier) = (running.clone(), most.clone(), barrier.clone());
        Box::pin(async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait().await;
            running.fetch_sub(1, Ordering::SeqCst);
            item * 2
        })
    });
    run_all(&mut numbers, limits(3, 2), &CancellationToken::new()).await;
    assert_eq!(numbers.done(), (0..12).map(|item| (item, Some(item * 2))).collect::<Vec<_>>());
    assert_eq!(counted.load(Ordering::SeqCst), 3);
    assert!(numbers.given_up.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_next_items_are_made_ready_while_all_places_are_taken() {
    let made_ready: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = made_ready.clone();
    let mut numbers = Numbers::new(9, move |item| {
        let seen = seen.clone();
        Box::pin(async move {
            // Ends only once those after it are ready.
            let wanted = (item + 3).min(9);
            while seen.lock().unwrap().len() < wanted {
                tokio::task::yield_now().await;
            }
            seen.lock().unwrap().len()
        })
    });
    numbers.made_ready = made_ready;
    run_all(&mut numbers, limits(1, 2), &CancellationToken::new()).await;
    let expected: Vec<_> = (0..9).map(|item| (item, Some((item + 3).min(9)))).collect();
    assert_eq!(numbers.done(), expected, "one worked on, two ahead and never more");
}

#[tokio::test]
async fn draining_finishes_what_runs_and_starts_nothing_new() {
    let drain = CancellationToken::new();
    let stop = drain.clone();
    let mut numbers = Numbers::new(100, move |item| {
        let stop = stop.clone();
        Box::pin(async move {
            if item == 3 {
                stop.cancel();
            }
            tokio::task::yield_now().await;
            item
        })
    });
    run_all(&mut numbers, limits(2, 1), &drain).await;
    let done: Vec<usize> = numbers.done().into_iter().map(|(item, _)| item).collect();
    assert!(done.contains(&3) && done.len() <= 6, "{done:?}");
    assert_eq!(done, (0..done.len()).collect::<Vec<_>>(), "what started was waited for");
    let mut met = done;
    met.extend(numbers.given_up.lock().unwrap().iter());
    assert_eq!(met, (0..met.len()).collect::<Vec<_>>(), "what was ready and not started was given up");
}

#[tokio::test]
async fn a_panic_ends_one_item_only() {
    let mut numbers = Numbers::new(3, |item| {
        Box::pin(async move {
            assert_ne!(item, 1);
            item
        })
    });
    run_all(&mut numbers, limits(1, 0), &CancellationToken::new()).await;
    assert_eq!(numbers.done(), [(0, Some(0)), (1, None), (2, Some(2))]);
}

#[tokio::test]
async fn a_pause_starts_nothing_and_other_limits_hold_at_once() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let sender = Arc::new(watch::Sender::new(limited(1, 1, Starts::Allowed)));
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (opened, counted) = (gate.clone(), most.clone());
    let mut numbers = Numbers::new(9, move |item| {
        let (running, most, gate, started) = (running.clone(), most.clone(), gate.clone(), started.clone());
        Box::pin(async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            started.send(item).unwrap();
            gate.acquire().await.unwrap().forget();
            running.fetch_sub(1, Ordering::SeqCst);
            item
        })
    });
    let limits = sender.subscribe();
    let drain = CancellationToken::new();
    let working = run_all(&mut numbers, limits, &drain);
    let controlling = async {
        assert_eq!(starts.recv().await, Some(0));
        sender.send_replace(limited(1, 1, Starts::Paused));
        opened.add_permits(1);
        // The one that ran ends, and nothing begins in its place, however often the schedule gets its turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(starts.try_recv().is_err(), "a paused schedule began something");
        sender.send_replace(limited(4, 1, Starts::Allowed));
        let mut begun = Vec::new();
        for _ in 0..4 {
            begun.push(starts.recv().await.unwrap());
        }
        assert_eq!(begun, [1, 2, 3, 4], "four at a time now");
        sender.send_replace(limited(2, 0, Starts::Allowed));
        opened.add_permits(2);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(starts.try_recv().is_err(), "two of four ended, and two are as many as may run");
        opened.add_permits(9);
    };
    tokio::join!(working, controlling);
    assert_eq!(numbers.done().len(), 9);
    assert_eq!(counted.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_paused_schedule_can_be_drained() {
    let sender = watch::Sender::new(limited(1, 1, Starts::Paused));
    let drain = CancellationToken::new();
    let mut numbers = Numbers::new(3, |item| Box::pin(async move { item }));
    let stop = async {
        tokio::task::yield_now().await;
        drain.cancel();
    };
    tokio::join!(run_all(&mut numbers, sender.subscribe(), &drain), stop);
    assert!(numbers.done().is_empty());
}
