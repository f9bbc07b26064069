//! Where a text may not go: with services that keep all that they get, nothing of it gets
//! there, and it is kept and found all the same.

use halofy_gate::embed::{HttpConfig, HttpEmbedder};
use halofy_gate::{Model, ModelConfig};
use halofy_tests::{
    Answer, Caller, Kernel, ModelCall, ModelResponse, RecordingEmbeddings, Role, ScriptedModel,
};
use serde_json::{Value, json};

use super::{count, details, quiet};

/// Stands in every text that may not leave, and nowhere else.
const CANARY: &str = "zanzibar";
const BOTH: &[&str] = &["llm-extraction", "embedding-provider"];

/// A kernel with a model and an embedder outside of it.
struct Outside {
    model: ScriptedModel,
    embeddings: RecordingEmbeddings,
    kernel: Kernel,
    dana: Caller,
}

impl Outside {
    async fn start(
        model_is: impl FnOnce(&mut ModelConfig),
        embedder_is: impl FnOnce(&mut HttpConfig),
    ) -> Self {
        let (model, embeddings) = (ScriptedModel::by_sentences(), RecordingEmbeddings::start());
        let (mut of_model, mut of_embedder) = (model.config(), embeddings.config());
        model_is(&mut of_model);
        embedder_is(&mut of_embedder);
        let asked = Model::new(&of_model, None).expect("a model");
        let embedder = HttpEmbedder::new(&of_embedder, None).expect("an embedder");
        let kernel = Kernel::with().model(asked).embedder(embedder).start().await;
        let dana = kernel.key("acme", "user:dana", Role::Agent).await;
        Self {
            model,
            embeddings,
            kernel,
            dana,
        }
    }

    /// Writes it between two others that are compared with their neighbours.
    async fn write(&self, body: Value) -> Answer {
        let plain = |name: &str| json!({ "content": format!("The key of the depot is {name}.") });
        self.dana
            .call("write", plain("blue"))
            .await
            .expect_status(200);
        quiet(&self.kernel).await;
        let answer = self.dana.call("write", body).await.expect_status(200);
        quiet(&self.kernel).await;
        self.dana
            .call("write", plain("heavy"))
            .await
            .expect_status(200);
        quiet(&self.kernel).await;
        answer
    }

    /// Writes it, and gives the one id in that list of the answer.
    async fn told(&self, body: &Value, list: &str) -> String {
        let answer = self.dana.call("write", body.clone()).await;
        let answer = answer.expect_status(200);
        quiet(&self.kernel).await;
        let id = answer.body[list][0].as_str();
        id.unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
    }

    /// Whether anything of such a text came to the model, and to the embedder.
    fn reached(&self) -> (bool, bool) {
        let among = |requests: &[String]| {
            requests
                .iter()
                .any(|request| request.to_lowercase().contains(CANARY))
        };
        (
            among(&self.model.requests()),
            among(&self.embeddings.requests()),
        )
    }

    async fn without_vector(&self) -> Vec<String> {
        let sql = "select id from memory_objects where embedding is null";
        self.kernel.sql_values(sql).await
    }

    /// Asserts that the text is kept whole, without what it may not have, and found.
    async fn expect_withheld(&self, body: &Value, answer: &Answer, withheld: &[&str]) {
        assert_eq!(answer.body["withheld"], json!(withheld), "{}", answer.text);
        assert!(answer.body.get("brownout").is_none(), "nothing is broken");
        let without = withheld.contains(&"embedding-provider");
        let expected: Vec<&str> = without.then(|| answer.id()).into_iter().collect();
        assert_eq!(self.without_vector().await, expected);
        let memory = self.dana.read(answer.id()).await.expect_status(200).body;
        assert_eq!(memory["content"], body["content"]);
        let found = self.dana.search(CANARY).await.expect_status(200);
        assert_eq!(found.ids()[0], answer.id(), "found by its words");
        let audited = details(&self.kernel).await;
        assert_eq!(
            audited[1],
            format!("stored=1 withheld={}", withheld.join(","))
        );
    }
}

fn local_text() -> Value {
    json!({ "content": "The key of the depot is zanzibar. It opens all.", "localOnly": true })
}

/// In no one piece here, so that nothing which scans the sources finds one.
fn secret() -> String {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let draw = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[(state >> 33) as usize % letters.len()]
    });
    ["gh", "p_"].concat() + &draw.take(36).collect::<String>()
}

fn secret_text() -> Value {
    json!({ "content": format!("The key of the depot is {} of zanzibar.", secret()) })
}

fn bound_text() -> Value {
    json!({ "content": "The key of the depot is zanzibar. It opens all." })
}

#[tokio::test]
async fn nothing_of_a_local_text_or_of_one_with_a_secret_reaches_a_service_outside() {
    for body in [local_text(), secret_text()] {
        let outside = Outside::start(|_| {}, |_| {}).await;
        let answer = outside.write(body.clone()).await;
        assert_eq!(outside.reached(), (false, false), "{body}");
        assert!(
            count(&outside.model, ModelCall::Contradicts) > 0,
            "others are compared"
        );
        outside.expect_withheld(&body, &answer, BOTH).await;
        let whole = format!(
            "{:?}{:?}",
            outside.model.requests(),
            outside.embeddings.requests()
        );
        assert!(!whole.contains(&secret()));
        assert!(whole.contains("depot is heavy"), "what may leave does");
    }
}

#[tokio::test]
async fn what_is_bound_to_a_region_goes_to_services_that_are_there_and_to_no_others() {
    for (region, reaches) in [(None, false), (Some("us"), false), (Some("EU"), true)] {
        let region = region.map(str::to_owned);
        let of_embedder = region.clone();
        let outside = Outside::start(
            |config| config.region = region,
            |config| config.region = of_embedder,
        );
        let outside = outside.await;
        let dana = &outside.dana;
        dana.write("The key of the depot is blue.")
            .await
            .expect_status(200);
        outside
            .kernel
            .policy("acme", json!({ "dataRegion": "eu" }))
            .await;
        let answer = dana.call("write", bound_text()).await.expect_status(200);
        quiet(&outside.kernel).await;
        assert_eq!(outside.reached(), (reaches, reaches), "{:?}", answer.text);
        if reaches {
            assert!(answer.body.get("withheld").is_none());
            assert_eq!(outside.without_vector().await.len(), 0);
        } else {
            outside.expect_withheld(&bound_text(), &answer, BOTH).await;
        }
    }
}

#[tokio::test]
async fn services_of_the_operators_own_get_it_all() {
    for body in [local_text(), secret_text()] {
        let outside =
            Outside::start(|config| config.local = true, |config| config.local = true).await;
        outside
            .kernel
            .policy("acme", json!({ "dataRegion": "eu" }))
            .await;
        let answer = outside.write(body.clone()).await;
        assert_eq!(outside.reached(), (true, true), "{body}");
        assert!(answer.body.get("withheld").is_none(), "{}", answer.text);
        assert_eq!(outside.without_vector().await.len(), 0);
    }
}

#[tokio::test]
async fn a_model_outside_is_not_shown_it_as_a_neighbour_of_others_either() {
    // Its vector makes it the nearest neighbour of both.
    let outside = Outside::start(|_| {}, |config| config.local = true).await;
    let body = local_text();
    let answer = outside.write(body.clone()).await;
    assert_eq!(outside.reached(), (false, true));
    let compared = count(&outside.model, ModelCall::Contradicts);
    assert_eq!(compared, 1, "the two others with each other, once");
    outside
        .expect_withheld(&body, &answer, &["llm-extraction"])
        .await;
}

#[tokio::test]
async fn facts_that_a_model_of_ones_own_draws_from_a_secret_text_stay_as_close() {
    let outside = Outside::start(|config| config.local = true, |_| {}).await;
    // No rule knows the secret again in what the model makes of it.
    let spelt: Vec<String> = secret().chars().map(String::from).collect();
    let spelt = format!("The key of zanzibar is spelt {}.", spelt.join(" "));
    let told = spelt.clone();
    outside.model.becomes(move |request| match request.call {
        ModelCall::Extract if request.text.contains(CANARY) => ModelResponse::facts(&[&told]),
        ModelCall::Extract => ModelResponse::facts(&[&request.text]),
        _ => ModelResponse::verdicts(request, |_| request.call == ModelCall::Verify),
    });
    let answer = outside.write(secret_text()).await;
    assert_eq!(outside.reached(), (true, false));
    let body = json!({ "content": spelt });
    outside
        .expect_withheld(&body, &answer, &["embedding-provider"])
        .await;
    let memory = outside.dana.read(answer.id()).await.body;
    assert_eq!(memory["classification"]["sensitivity"], "restricted");
}

#[tokio::test]
async fn a_local_text_that_is_not_waited_for_stays_as_close() {
    let outside = Outside::start(|_| {}, |_| {}).await;
    let mut body = local_text();
    body["async"] = json!(true);
    let answer = outside.dana.call("write", body).await.expect_status(200);
    let ticket = answer.body["ticket"].as_str().expect("a ticket");
    let ended = super::ended(&outside.dana, ticket).await;
    assert_eq!(ended["result"]["withheld"], json!(BOTH), "{ended}");
    assert_eq!(outside.reached(), (false, false));
    quiet(&outside.kernel).await;
    assert_eq!(outside.reached(), (false, false));
}

/// The same text as anybody may say it, and once as one that may not leave.
#[tokio::test]
async fn a_text_that_is_said_again_as_a_local_one_is_local_from_then_on() {
    let plain = json!({ "content": "The key of the depot is zanzibar.", "verbatim": true });
    let mut local = plain.clone();
    local["localOnly"] = json!(true);
    let mut by_itself = local.clone();
    by_itself["slot"] = json!("depot");
    for (first, again) in [
        (&plain, &local),
        (&local, &plain),
        (&with_slot(&plain), &by_itself),
    ] {
        let outside = Outside::start(|_| {}, |config| config.local = true).await;
        let id = outside.told(first, "stored").await;
        assert_eq!(outside.told(again, "deduplicated").await, id);
        // A neighbour, whose check would show the text to the model.
        let near = json!({ "content": "The key of the depot is blue.", "verbatim": true });
        outside.told(&near, "stored").await;
        let far = json!({ "content": "The key of the depot is red.", "verbatim": true });
        outside.told(&far, "stored").await;
        assert!(count(&outside.model, ModelCall::Contradicts) > 0);
        assert_eq!(outside.reached(), (false, true), "{again}");
        let label = &outside.dana.read(&id).await.body["classification"];
        assert_eq!(label["destinations"], json!(["canonical-l2"]), "{again}");
    }
}

fn with_slot(body: &Value) -> Value {
    let mut body = body.clone();
    body["slot"] = json!("depot");
    body
}
