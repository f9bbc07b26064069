//! The promises of the contract, as the fake view keeps them.

use super::*;

fn view() -> FakeView {
    FakeView::new("acme/eng")
        .memories([
            "Ann is planning the launch",
            "Bob met Annie at the harbour",
            "The planning board is full",
            "Bob sails a dinghy",
        ])
        .entity("Ann", &["Annie"])
        .entity("Bob", &[])
        .concept("launches")
}

fn handles(rows: &[Candidate]) -> Vec<Handle> {
    rows.iter().map(|row| row.handle).collect()
}

#[test]
fn handles_count_up_in_the_order_of_admission_and_stay_with_their_memory() {
    let view = view();
    let lexical = view
        .lexical_candidates("dinghy sailing", 9)
        .expect("it answers");
    assert_eq!(handles(&lexical), [0]);
    let newest = view.candidates(2).expect("it answers");
    assert_eq!(handles(&newest), [0, 1]);
    assert_eq!(view.row(1), Some(Row::Memory(2)));
    assert_eq!(view.content(0), Some("Bob sails a dinghy"));
    assert_eq!(view.row(2), None);
    view.next_call();
    assert_eq!(view.content(0), None);
}

#[test]
fn the_rarer_shared_stem_comes_first_and_strangers_not_at_all() {
    let found = view()
        .lexical_candidates("Plans for launching with Bob", 9)
        .expect("it answers");
    let texts: Vec<&str> = found.iter().map(|row| row.content.as_str()).collect();
    assert_eq!(texts[0], "Ann is planning the launch");
    assert_eq!(texts.len(), 4);
    assert_eq!(view().lexical_candidates("walrus", 9), Ok(Vec::new()));
}

#[test]
fn the_nearest_memory_is_first_and_a_foreign_dimension_is_refused() {
    let view = view();
    let vector = view
        .embed(&["a full planning board"])
        .expect("it answers")
        .remove(0);
    let near = view.vector_search(&vector, 2).expect("it answers");
    assert_eq!(near.len(), 2);
    assert_eq!(near[0].content, "The planning board is full");
    assert!(near[0].score > near[1].score);
    assert!(matches!(
        view.vector_search(&[1.0], 2),
        Err(ViewError::InvalidArgument(_))
    ));
}

#[test]
fn a_name_within_a_word_is_no_mention() {
    let facts = view().entity_facts(" ANNIE ", 1).expect("it answers");
    let found: Vec<_> = facts
        .iter()
        .map(|fact| (&*fact.content, &*fact.entity))
        .collect();
    assert_eq!(
        found,
        [
            ("Ann is planning the launch", "Ann"),
            ("Bob met Annie at the harbour", "Ann")
        ]
    );
}

#[test]
fn the_second_hop_adds_facts_of_those_mentioned_together() {
    let facts = view().entity_facts("Ann", 2).expect("it answers");
    let entities: Vec<&str> = facts.iter().map(|fact| fact.entity.as_str()).collect();
    assert_eq!(entities, ["Ann", "Ann", "Bob"]);
    assert_eq!(facts[2].content, "Bob sails a dinghy");
    assert!(matches!(
        view().entity_facts("Ann", 3),
        Err(ViewError::InvalidArgument(_))
    ));
}

#[test]
fn a_concept_is_no_memory() {
    let view = view();
    let found = view.concepts("launch", 5).expect("it answers");
    assert_eq!(found.len(), 1);
    assert_eq!(view.row(found[0].handle), Some(Row::Concept(0)));
}

#[test]
fn a_broken_arm_fails_and_every_call_is_recorded() {
    let error = ViewError::LimitExceeded("enough".to_owned());
    let view = view().failing(Arm::Candidates, error.clone());
    assert_eq!(view.candidates(7), Err(error));
    assert_eq!(view.namespace(), "acme/eng");
    assert_eq!(
        *view.calls(),
        [Call::Candidates { limit: 7 }, Call::Namespace]
    );
}
