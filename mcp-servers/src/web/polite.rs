//! No host gets more at once than a browser would ask of it, and none less time between than its robots.txt wants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// As browsers do over HTTP/1.1.
const MAX_REQUESTS_A_HOST: usize = 6;
/// A longer delay than this is meant for crawlers that read a whole site; we read single pages.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(2);
/// Hosts remembered. An entry is small; forgetting all of them costs nothing but politeness.
const MAX_HOSTS: usize = 10_000;

/// The hosts that this process has asked for something.
#[derive(Debug, Default)]
pub struct Hosts {
    gates: Mutex<HashMap<String, Gate>>,
}

#[derive(Debug, Clone)]
struct Gate {
    places: Arc<Semaphore>,
    delay: Duration,
    /// When the next request may start.
    next: Instant,
}

impl Hosts {
    /// Waits for a place at the host, which is `host:port`. The place is free again when the permit is dropped.
    pub async fn enter(&self, host: &str) -> Option<OwnedSemaphorePermit> {
        let (places, start) = {
            let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            let gate = gate(&mut gates, host);
            let start = gate.next.max(Instant::now());
            gate.next = start + gate.delay;
            (gate.places.clone(), start)
        };
        tokio::time::sleep_until(start).await;
        // Nobody closes it.
        places.acquire_owned().await.ok()
    }

    /// The `Crawl-delay` of the host's robots.txt.
    pub fn slow_down(&self, host: &str, delay: Duration) {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gate(&mut gates, host);
        gate.delay = delay.min(MAX_CRAWL_DELAY);
        gate.next = gate.next.max(Instant::now() + gate.delay);
    }
}

fn gate<'a>(gates: &'a mut HashMap<String, Gate>, host: &str) -> &'a mut Gate {
    if gates.len() >= MAX_HOSTS && !gates.contains_key(host) {
        gates.clear();
    }
    gates.entry(host.to_owned()).or_insert_with(|| Gate {
        places: Arc::new(Semaphore::new(MAX_REQUESTS_A_HOST)),
        delay: Duration::ZERO,
        next: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_has_six_places_and_another_host_its_own() {
        let hosts = Hosts::default();
        let mut held = Vec::new();
        for _ in 0..MAX_REQUESTS_A_HOST {
            held.push(hosts.enter("a:80").await.unwrap());
        }
        let seventh = tokio::time::timeout(Duration::from_secs(60), hosts.enter("a:80")).await;
        assert!(seventh.is_err());
        assert!(hosts.enter("b:80").await.is_some());
        held.pop();
        assert!(hosts.enter("a:80").await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crawl_delay_spaces_requests_and_is_bounded() {
        let hosts = Hosts::default();
        hosts.slow_down("a:80", Duration::from_secs(1));
        let start = Instant::now();
        for _ in 0..3 {
            hosts.enter("a:80").await;
        }
        assert_eq!(start.elapsed().as_secs(), 3);
        hosts.slow_down("b:80", Duration::from_secs(3600));
        let start = Instant::now();
        hosts.enter("b:80").await;
        assert_eq!(start.elapsed(), MAX_CRAWL_DELAY);
    }
}
