//! Entities: a name is registered once, whoever else names it at the same time.

use futures_util::future::join_all;
use halofy_tests::{Kernel, ModelCall, ModelResponse, Role, ScriptedModel};
use serde_json::{Value, json};

use super::{asking, count, fact, finding, found};

async fn registered(kernel: &Kernel) -> Vec<String> {
    let sql = "select canonical from entity_registry order by canonical collate \"C\"";
    kernel.sql_values(sql).await
}

/// A model that takes the text for one fact, about the names behind its colon.
fn naming() -> ScriptedModel {
    ScriptedModel::start(|request| {
        let (_, names) = request.text.split_once(": ").unwrap_or_default();
        let names: Vec<&str> = names.trim_end_matches('.').split(", ").collect();
        found(request, &json!([fact(&request.text, &names)]))
    })
}

#[tokio::test]
async fn writers_that_name_the_same_new_entities_at_once_register_each_once() {
    let model = naming();
    let kernel = asking(&model).await;
    let mut kernels = Vec::new();
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let mut callers = vec![dana.clone()];
    if kernel.data().is_on_server() {
        let asked = halofy_gate::Model::new(&model.config(), None).expect("a model");
        let other = Kernel::with().on(kernel.data()).model(asked).start().await;
        callers.push(other.caller(&dana.key, &dana.key_id));
        kernels.push(other);
    }
    for round in 0..5 {
        // In every order, and in any case: nobody waits for a name in a circle.
        let spellings = [
            format!("Zoë{round}, anna{round}, Émile{round}"),
            format!("ANNA{round}, émile{round}, zoë{round}"),
            format!("ÉMILE{round}, ZOË{round}, Anna{round}"),
        ];
        let texts =
            (0..12).map(|at| format!("Visitors of day {round}.{at}: {}.", spellings[at % 3]));
        let texts: Vec<String> = texts.collect();
        let writes = texts.iter().enumerate();
        let writes = writes.map(|(at, text)| callers[at % callers.len()].write(text));
        let answers = join_all(writes).await;
        let names = registered(&kernel).await;
        assert_eq!(names.len(), 3 * (round + 1), "{names:?}");
        let mut spoken = Vec::new();
        for answer in answers {
            let memory = dana
                .read(answer.expect_status(200).id())
                .await
                .expect_status(200);
            spoken.push(memory.body["entities"].clone());
        }
        assert!(spoken.iter().all(|names| *names == spoken[0]), "{spoken:?}");
        let spoken: Vec<String> = serde_json::from_value(spoken[0].clone()).expect("names");
        assert!(spoken.len() == 3 && spoken.iter().all(|name| names.contains(name)));
    }
}

#[tokio::test]
async fn a_name_in_any_case_and_an_alias_are_the_entity_that_is_registered() {
    let names = ["BOB", "bobby", "Bob", "ΟΔΟΣ", "Straße"];
    let model = finding(json!([fact("The parcel went to Bob.", &names)]));
    let kernel = asking(&model).await;
    kernel
        .sql(
            "insert into entity_registry (id, namespace, canonical, aliases, created_at) values
             ('e1', 'acme', 'Bob', '{Bobby,Robert}', now()),
             ('e2', 'other', 'BOBBY', '{}', now())",
        )
        .await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let first = dana
        .write("The parcel went to Bob.")
        .await
        .expect_status(200);
    let memory = dana.read(first.id()).await.expect_status(200).body;
    assert_eq!(memory["entities"], json!(["Bob", "Straße", "ΟΔΟΣ"]));
    // The same letters again: what one side lowers and the other does not must not matter.
    model.becomes(|request| {
        found(
            request,
            &json!([fact(
                "The other went to Bob.",
                &["ROBERT", "ΟΔΟΣ", "straße"]
            )]),
        )
    });
    let again = dana
        .write("The other went to Bob.")
        .await
        .expect_status(200);
    let memory = dana.read(again.id()).await.expect_status(200).body;
    assert_eq!(memory["entities"], json!(["Bob", "Straße", "ΟΔΟΣ"]));
    assert_eq!(
        registered(&kernel).await,
        ["BOBBY", "Bob", "Straße", "ΟΔΟΣ"]
    );
}

#[tokio::test]
async fn spellings_of_a_new_name_in_one_text_are_one_entity() {
    let model = finding(json!([
        fact("Zoë Kern lives in Bern.", &["Zoë Kern", "Bern"]),
        fact("ZOË KERN has a dog.", &["ZOË KERN", "zoë kern"]),
    ]));
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let answer = dana
        .write("Zoë Kern lives in Bern and has a dog.")
        .await
        .expect_status(200);
    assert_eq!(registered(&kernel).await.len(), 2);
    let mut names = Vec::new();
    for id in answer.body["stored"].as_array().expect("ids") {
        let memory = dana.read(id.as_str().expect("an id")).await.body;
        names.extend(memory["entities"].as_array().expect("names").clone());
    }
    names.retain(|name| name != "Bern");
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], names[1]);
    assert_eq!(count(&model, ModelCall::Extract), 1);
}

#[tokio::test]
async fn an_entity_goes_with_the_last_memory_that_speaks_of_it() {
    let model = naming();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Owner).await;
    let first = dana
        .write("First guests: Anna, Zoë.")
        .await
        .expect_status(200);
    let second = dana.write("Second guests: anna.").await.expect_status(200);
    // Known already, and with a new name: nothing new speaks of that name.
    model.becomes(|request| match request.call {
        ModelCall::Extract => {
            let facts = json!([fact("second guests: ANNA.", &["Canary"])]);
            ModelResponse::Says(json!({ "facts": facts }))
        }
        _ => found(request, &Value::Null),
    });
    let again = dana
        .write("Second guests were Anna.")
        .await
        .expect_status(200);
    assert_eq!(again.body["deduplicated"], json!([second.id()]));
    assert_eq!(registered(&kernel).await, ["Anna", "Zoë"]);
    dana.call("forget", json!({ "id": first.id() }))
        .await
        .expect_status(200);
    assert_eq!(registered(&kernel).await, ["Anna"]);
    dana.call("forget", json!({ "id": second.id() }))
        .await
        .expect_status(200);
    assert!(registered(&kernel).await.is_empty());
}
