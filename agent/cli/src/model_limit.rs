use std::sync::Arc;

use async_trait::async_trait;
use gaia_agent::model::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A model that is asked at most so many things at a time, retries and the waits between them included: an endpoint
/// that is overrun is not helped by the requests of other samples.
pub(crate) struct LimitedModel {
    model: Arc<dyn ChatModel>,
    permits: Arc<Semaphore>,
}

impl LimitedModel {
    /// Whoever shares the permits is asked for among those.
    pub(crate) fn new(model: Arc<dyn ChatModel>, permits: Arc<Semaphore>) -> Self {
        Self { model, permits }
    }
}

#[async_trait]
impl ChatModel for LimitedModel {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let permit = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
            permit = self.permits.acquire() => permit,
        };
        let reply = self.model.reply(request, observer, cancel).await;
        drop(permit);
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Counting {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl ChatModel for Counting {
        async fn reply(
            &self,
            _: ModelRequest<'_>,
            _: &dyn RetryObserver,
            _: &CancellationToken,
        ) -> Result<Reply, ModelError> {
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Reply { finish_reason: "stop".into(), ..Reply::default() })
        }
    }

    struct Deaf;

    impl RetryObserver for Deaf {
        fn retrying(&self, _: u32, _: &str, _: Duration) {}
    }

    #[tokio::test]
    async fn no_more_are_asked_at_a_time_than_allowed_and_one_that_waits_can_be_cancelled() {
        let counting = Arc::new(Counting::default());
        let model = LimitedModel::new(counting.clone(), Arc::new(Semaphore::new(3)));
        let request = ModelRequest { messages: &[], tools: &[] };
        let never = CancellationToken::new();
        let replies = (0..20).map(|_| model.reply(request, &Deaf, &never));
        let replies = futures_util::future::join_all(replies).await;
        assert!(replies.iter().all(Result::is_ok));
        assert_eq!(counting.most.load(Ordering::SeqCst), 3);

        let none_free = model.permits.acquire_many(3).await.unwrap();
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(matches!(model.reply(request, &Deaf, &cancel).await, Err(ModelError::Cancelled)));
        drop(none_free);
    }
}
