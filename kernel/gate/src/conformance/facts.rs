//! What the fixture says: facts to be found and canaries that must not be, each
//! with its question. No two of them share a telling word, so that a question has
//! one right answer for any engine that reads it.

use super::checks::PLANTED;

/// Facts of the caller's namespace.
pub(super) const FACTS: [(&str, &str); PLANTED] = [
    (
        "The harbour pilot Anselm keeps a brass sextant wrapped in oilcloth below deck.",
        "Where does Anselm keep his brass sextant?",
    ),
    (
        "Reactor loop seven tolerates forty bar before the tantalum valve vents steam.",
        "Which valve of reactor loop seven vents steam?",
    ),
    (
        "Grandmother Ottilie proves her rye sourdough beside a lukewarm tiled stove.",
        "Where does Ottilie prove her rye sourdough?",
    ),
    (
        "Payroll for Lisbon closes on the third Thursday after auditor Quillon signs.",
        "When does payroll for Lisbon close?",
    ),
    (
        "Glacier hut Fjellnes rents crampons and lends avalanche beacons without deposit.",
        "Does hut Fjellnes lend avalanche beacons?",
    ),
    (
        "The cello of Bertrand was varnished with amber resin by a luthier in Cremona.",
        "Who varnished the cello of Bertrand with amber resin?",
    ),
    (
        "Parcel locker Zinnia jams whenever humidity exceeds eighty per cent at dawn.",
        "Why does parcel locker Zinnia jam?",
    ),
    (
        "Beekeeper Iolanthe feeds her hives fondant once goldenrod stops blooming.",
        "What does beekeeper Iolanthe feed her hives?",
    ),
    (
        "Compiler branch Wolverine drops register spilling for vectorised gather kernels.",
        "Does compiler branch Wolverine do register spilling?",
    ),
    (
        "Archivist Demetrius shelves the papyrus fragments under argon in vault twelve.",
        "Where does archivist Demetrius shelve the papyrus fragments?",
    ),
];

/// Facts of the sibling namespace: what must never cross between tenants.
pub(super) const CANARIES: [(&str, &str); 5] = [
    (
        "The strongroom at Antwerp opens on hearing the phrase marzipan lantern.",
        "Which phrase opens the strongroom at Antwerp?",
    ),
    (
        "Severance for director Halvorsen was settled at nine hundred thousand kroner.",
        "What severance was settled for director Halvorsen?",
    ),
    (
        "The merger with Pellucid Optics remains secret until the October filing.",
        "When is the merger with Pellucid Optics filed?",
    ),
    (
        "Patient Corwin suffers from a mitochondrial disorder diagnosed last winter.",
        "Which disorder does patient Corwin suffer from?",
    ),
    (
        "The master password of firmware Basilisk hides inside a teddy bear.",
        "Where does the master password of firmware Basilisk hide?",
    ),
];

/// As many queries as there are facts, each of them all questions in another order:
/// every fact is an answer, and together they exceed the budget. With one question
/// a query, an engine that found one fact would never come near it.
pub(super) fn questions_for_everything() -> Vec<String> {
    let rotated = |by: usize| {
        let questions = FACTS.iter().cycle().skip(by).take(FACTS.len());
        questions
            .map(|(_, question)| *question)
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..FACTS.len()).map(rotated).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use halofy_retrieval::{estimate_tokens, terms};

    use super::super::checks::TOKEN_BUDGET;
    use super::*;

    fn words(text: &str) -> BTreeSet<String> {
        terms(text).into_iter().collect()
    }

    #[test]
    fn each_question_shares_words_with_its_own_fact_and_with_no_other() {
        let all: Vec<_> = FACTS.iter().chain(&CANARIES).collect();
        for (at, (fact, question)) in all.iter().enumerate() {
            let question = words(question);
            assert!(question.intersection(&words(fact)).count() >= 3, "{fact}");
            for (_, (other, _)) in all.iter().enumerate().filter(|(other, _)| *other != at) {
                let shared: Vec<_> = words(other).intersection(&question).cloned().collect();
                assert!(shared.is_empty(), "{fact} / {other}: {shared:?}");
                let shared: Vec<_> = words(other).intersection(&words(fact)).cloned().collect();
                assert!(shared.is_empty(), "{fact} / {other}: {shared:?}");
            }
        }
    }

    #[test]
    fn the_facts_together_exceed_the_budget_and_one_alone_does_not() {
        let estimates = FACTS.map(|(fact, _)| estimate_tokens(fact));
        assert!(estimates.iter().sum::<u64>() > u64::from(TOKEN_BUDGET));
        assert!(
            estimates
                .iter()
                .all(|tokens| *tokens < u64::from(TOKEN_BUDGET))
        );
    }

    #[test]
    fn every_query_for_everything_is_another_one() {
        let queries: BTreeSet<String> = questions_for_everything().into_iter().collect();
        assert_eq!(queries.len(), PLANTED);
        let counted = queries
            .iter()
            .all(|query| query.matches('?').count() == PLANTED);
        assert!(counted);
    }
}
