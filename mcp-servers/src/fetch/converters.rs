//! Pages become Markdown one on each processor: more at once would be no faster, and each has a tree in memory.

use tokio::sync::{Semaphore, SemaphorePermit};

/// A larger page has all places for itself: its tree may take half a gigabyte.
const LARGE_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// More processors than this are of no use, as other samples need some, too.
const MAX_AT_ONCE: u32 = 8;

/// Places for conversions.
#[derive(Debug)]
pub(super) struct Converters {
    places: Semaphore,
    count: u32,
}

impl Converters {
    pub(super) fn of_this_machine() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = u32::try_from(processors).unwrap_or(MAX_AT_ONCE).min(MAX_AT_ONCE);
        Self { places: Semaphore::new(count as usize), count }
    }

    /// Waits for a place, which is free again when the permit is dropped. Nobody closes the semaphore.
    pub(super) async fn enter(&self, page_bytes: usize) -> Option<SemaphorePermit<'_>> {
        let places = if page_bytes > LARGE_PAGE_BYTES { self.count } else { 1 };
        self.places.acquire_many(places).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_large_page_waits_for_the_others_and_they_for_it() {
        let converters = Converters { places: Semaphore::new(2), count: 2 };
        let one = converters.enter(LARGE_PAGE_BYTES).await;
        let two = converters.enter(1).await;
        assert!(converters.enter(1).now_or_never().is_none(), "one for each processor");
        drop(one);
        assert!(converters.enter(LARGE_PAGE_BYTES + 1).now_or_never().is_none());
        drop(two);
        let large = converters.enter(LARGE_PAGE_BYTES + 1).now_or_never().expect("all places are free");
        assert!(converters.enter(1).now_or_never().is_none());
        drop(large);
        assert!(converters.enter(1).now_or_never().is_some());
    }
}
