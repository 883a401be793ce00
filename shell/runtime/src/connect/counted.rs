//! Counts the requests of a client.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use tower::{Layer, Service};

use crate::metrics::Metrics;

/// Counts all requests to a host, including those of watches.
#[derive(Debug, Clone)]
pub(super) struct Counting {
    pub(super) metrics: Metrics,
    pub(super) host: String,
}

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counting: self.clone() }
    }
}

/// A client with the counter of its requests.
#[derive(Debug, Clone)]
pub(super) struct Counted<S> {
    inner: S,
    counting: Counting,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        let answer = self.inner.call(request);
        let Counting { metrics, host } = self.counting.clone();
        Box::pin(async move {
            let answer = answer.await;
            let code =
                answer.as_ref().map_or("<error>".to_owned(), |answer| answer.status().as_str().to_owned());
            metrics.requested(&code, method.as_str(), &host);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use prometheus::Registry;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_code_method_and_host() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        let counting = Counting { metrics: metrics.clone(), host: "10.96.0.1:443".to_owned() };
        let refuse = tower::service_fn(async |_| {
            Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap())
        });
        let fail = tower::service_fn(async |_| Err::<Response<Body>, _>("no route"));
        let list = || Request::get("/api/v1/pods").body(Body::empty()).unwrap();
        counting.layer(refuse).oneshot(list()).await.unwrap();
        counting.layer(fail).oneshot(list()).await.unwrap_err();
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        for code in ["403", "<error>"] {
            let line =
                format!(r#"rest_client_requests_total{{code="{code}",host="10.96.0.1:443",method="GET"}} 1"#);
            assert!(text.contains(&line), "{text}");
        }
    }
}
