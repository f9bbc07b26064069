//! A language model that a test plays: a real HTTP server on the loopback interface that
//! speaks the chat protocol, answers as a closure says, and keeps all that it was sent.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halofy_gate::ModelConfig;
use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation;

use crate::loopback::{Loopback, lock};

/// What every answer says that it cost, unless told otherwise.
const TOKENS: u64 = 100;

/// What the kernel wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCall {
    /// The facts in `text`.
    Extract,
    /// Whether `text` states each of the `others`.
    Verify,
    /// Which of the `others` contradict `text`.
    Contradicts,
}

/// One request, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// What is asked.
    pub call: ModelCall,
    /// The text that came in.
    pub text: String,
    /// Candidates or incumbents, in order.
    pub others: Vec<String>,
    /// When the text was told, as sent; only of an extraction.
    pub told_at: Option<String>,
}

/// What the model does about a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelResponse {
    /// Writes this JSON.
    Says(Value),
    /// Writes this, whatever it is.
    Writes(String),
    /// Answers with this status and no body.
    Status(u16),
    /// Closes the connection.
    Closes,
    /// Waits, and then does that.
    Slowly(Duration, Box<ModelResponse>),
}

impl ModelResponse {
    /// An extraction that found these.
    pub fn facts(contents: &[impl AsRef<str>]) -> Self {
        let facts = contents.iter().map(|content| {
            json!({"content": content.as_ref(), "kind": "fact", "eventTime": null, "entities": []})
        });
        Self::Says(json!({ "facts": facts.collect::<Vec<_>>() }))
    }

    /// A verdict on each of the others of `request`.
    pub fn verdicts(request: &ModelRequest, verdict: impl Fn(&str) -> bool) -> Self {
        let name = match request.call {
            ModelCall::Contradicts => "contradicts",
            _ => "supported",
        };
        let others = request.others.iter().enumerate();
        let verdicts = others.map(|(id, other)| json!({"id": id, name: verdict(other)}));
        Self::Says(json!({ "verdicts": verdicts.collect::<Vec<_>>() }))
    }
}

type Behaviour = Arc<dyn Fn(&ModelRequest) -> ModelResponse + Send + Sync>;

/// The server.
pub struct ScriptedModel {
    server: Loopback,
    shared: Arc<Shared>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    bodies: Mutex<Vec<String>>,
    answered: AtomicUsize,
    tokens: AtomicU64,
}

impl ScriptedModel {
    /// One that does what `behaviour` says, on a free port.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn start(
        behaviour: impl Fn(&ModelRequest) -> ModelResponse + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(Arc::new(behaviour)),
            bodies: Mutex::default(),
            answered: AtomicUsize::new(0),
            tokens: AtomicU64::new(TOKENS),
        });
        let serving = shared.clone();
        let server = Loopback::start(move |body| {
            let shared = serving.clone();
            async move { shared.answer(body).await }
        });
        Self { server, shared }
    }

    /// Takes each sentence for a fact, finds all supported, and sees no contradictions.
    pub fn by_sentences() -> Self {
        Self::by_sentences_where(|_, _| false)
    }

    /// Takes each sentence for a fact, finds all supported, and asks `contradicts` about
    /// what comes in and what is there.
    pub fn by_sentences_where(
        contradicts: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |request| by_sentences(request, &contradicts))
    }

    /// As [`by_sentences`](Self::by_sentences), after a while.
    pub fn slow(wait: Duration) -> Self {
        Self::start(move |request| {
            let answer = by_sentences(request, &|_, _| false);
            ModelResponse::Slowly(wait, Box::new(answer))
        })
    }

    /// Writes prose where JSON was asked for.
    pub fn garbage() -> Self {
        let prose = "Certainly! Here are the facts you asked for:";
        Self::start(move |_| ModelResponse::Writes(prose.to_owned()))
    }

    /// Answers so many requests [`by_sentences`](Self::by_sentences), then closes every
    /// connection. The kernel may try a closed one again, which is a request too.
    pub fn dies_after(requests: usize) -> Self {
        let served = AtomicUsize::new(0);
        Self::start(move |request| {
            if served.fetch_add(1, Ordering::Relaxed) < requests {
                by_sentences(request, &|_, _| false)
            } else {
                ModelResponse::Closes
            }
        })
    }

    /// Answers with this status.
    pub fn status(status: u16) -> Self {
        Self::start(move |_| ModelResponse::Status(status))
    }

    /// Behaves otherwise from the next request on.
    pub fn becomes(
        &self,
        behaviour: impl Fn(&ModelRequest) -> ModelResponse + Send + Sync + 'static,
    ) {
        *lock(&self.shared.behaviour) = Arc::new(behaviour);
    }

    /// From now on every answer says that it cost so many tokens; before, 100.
    pub fn costs(&self, tokens: u64) {
        self.shared.tokens.store(tokens, Ordering::Relaxed);
    }

    /// What to configure the kernel with: a model that says nothing about where it is.
    pub fn config(&self) -> ModelConfig {
        ModelConfig::new(self.base_url(), "scripted")
    }

    /// What comes before `/chat/completions`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.server.address)
    }

    /// The body of every request that ever came, as it came, understood or not.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.shared.bodies).clone()
    }

    /// How many requests were dealt with, in whatever way, slow ones at the end of their wait.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// The requests that could be understood, in order.
    pub fn asked(&self) -> Vec<ModelRequest> {
        self.requests()
            .iter()
            .filter_map(|body| decode(body))
            .collect()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests().len();
        f.debug_struct("ScriptedModel")
            .field("base_url", &self.base_url())
            .field("requests", &requests)
            .finish_non_exhaustive()
    }
}

/// Takes each sentence for a fact and finds all supported.
pub fn by_sentences(
    request: &ModelRequest,
    contradicts: &dyn Fn(&str, &str) -> bool,
) -> ModelResponse {
    match request.call {
        ModelCall::Extract => {
            let sentences = request.text.unicode_sentences().map(str::trim);
            ModelResponse::facts(&sentences.collect::<Vec<_>>())
        }
        ModelCall::Verify => ModelResponse::verdicts(request, |_| true),
        ModelCall::Contradicts => {
            ModelResponse::verdicts(request, |other| contradicts(&request.text, other))
        }
    }
}

/// What the kernel's client sends, from its form alone.
fn decode(body: &str) -> Option<ModelRequest> {
    let body: Value = serde_json::from_str(body).ok()?;
    let message = body["messages"][1]["content"].as_str()?;
    let inside = message
        .strip_prefix("<data>\n")?
        .strip_suffix("\n</data>")?;
    let data: Value = serde_json::from_str(inside).ok()?;
    let (call, text, others) = match data["task"].as_str()? {
        "extract" => (ModelCall::Extract, "text", "candidates"),
        "verify" => (ModelCall::Verify, "text", "candidates"),
        "contradicts" => (ModelCall::Contradicts, "incoming", "incumbents"),
        _ => return None,
    };
    let others = data[others].as_array().into_iter().flatten();
    let others = others.map(|other| other["content"].as_str().map(str::to_owned));
    Some(ModelRequest {
        call,
        text: data[text].as_str()?.to_owned(),
        others: others.collect::<Option<_>>()?,
        told_at: data["toldAt"].as_str().map(str::to_owned),
    })
}

impl Shared {
    /// Status and body; nothing where the connection is to be closed.
    async fn answer(&self, body: String) -> Option<(u16, String)> {
        let request = decode(&body);
        lock(&self.bodies).push(body);
        let behaviour = lock(&self.behaviour).clone();
        let mut response = match &request {
            Some(request) => behaviour(request),
            None => ModelResponse::Status(400),
        };
        while let ModelResponse::Slowly(wait, then) = response {
            tokio::time::sleep(wait).await;
            response = *then;
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        let tokens = self.tokens.load(Ordering::Relaxed);
        match response {
            ModelResponse::Says(value) => Some((200, completion(&value.to_string(), tokens))),
            ModelResponse::Writes(text) => Some((200, completion(&text, tokens))),
            ModelResponse::Status(status) => Some((status, String::new())),
            ModelResponse::Closes | ModelResponse::Slowly(..) => None,
        }
    }
}

fn completion(content: &str, tokens: u64) -> String {
    let message = json!({"role": "assistant", "content": content});
    json!({
        "object": "chat.completion",
        "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"total_tokens": tokens},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel's client writes it.
    fn body(data: &Value) -> Value {
        let data = format!("<data>\n{data}\n</data>");
        let system = json!({"role": "system", "content": "rules"});
        json!({"model": "m", "messages": [system, {"role": "user", "content": data}]})
    }

    async fn post(model: &ScriptedModel, data: &Value) -> reqwest::Result<Value> {
        let url = format!("{}/chat/completions", model.config().base_url);
        let request = reqwest::Client::new().post(url).json(&body(data));
        let answer: Value = request.send().await?.error_for_status()?.json().await?;
        let content = answer["choices"][0]["message"]["content"].as_str();
        Ok(serde_json::from_str(content.expect("a message")).unwrap_or_default())
    }

    #[tokio::test]
    async fn each_sentence_is_a_fact_and_each_other_gets_a_verdict() {
        let model = ScriptedModel::by_sentences_where(|new, old| new.len() == old.len());
        let extract = json!({"task": "extract", "text": "It is 3.5 km. Bea walks!"});
        let facts = post(&model, &extract).await.expect("facts");
        assert_eq!(facts["facts"][0]["content"], "It is 3.5 km.");
        assert_eq!(facts["facts"][1]["content"], "Bea walks!");
        let incumbents = json!([{"id": 0, "content": "ab"}, {"id": 1, "content": "abc"}]);
        let contradicts =
            json!({"task": "contradicts", "incoming": "xyz", "incumbents": incumbents});
        let verdicts = post(&model, &contradicts).await.expect("verdicts");
        let expected = json!([{"id": 0, "contradicts": false}, {"id": 1, "contradicts": true}]);
        assert_eq!(verdicts["verdicts"], expected);
        let calls: Vec<ModelCall> = model.asked().iter().map(|asked| asked.call).collect();
        assert_eq!(calls, [ModelCall::Extract, ModelCall::Contradicts]);
        assert!(model.requests()[0].contains("Bea walks!"));
    }

    #[tokio::test]
    async fn it_fails_as_it_is_told_and_stops_when_dropped() {
        let verify = json!({"task": "verify", "text": "a", "candidates": [{"content": "b"}]});
        let model = ScriptedModel::dies_after(1);
        post(&model, &verify).await.expect("the first is answered");
        post(&model, &verify).await.expect_err("then it is dead");
        model.becomes(|_| ModelResponse::Status(503));
        let error = post(&model, &verify).await.expect_err("503");
        assert_eq!(error.status().map(|status| status.as_u16()), Some(503));
        model.becomes(|request| ModelResponse::verdicts(request, |_| true));
        post(&model, &verify).await.expect("it is back");
        assert_eq!(model.requests().len(), 4);
        let unknown = post(&model, &json!({"task": "sing"}))
            .await
            .expect_err("400");
        assert_eq!(unknown.status().map(|status| status.as_u16()), Some(400));
        let address = model.server.address.clone();
        drop(model);
        let mut tries = 0..200;
        while std::net::TcpStream::connect(&address).is_ok() {
            tries.next().expect("it stops within two seconds");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
