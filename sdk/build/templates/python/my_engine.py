"""my-engine: ranks what the view offers by nearness, and lifts what shares words with the
query. Replace `rank` with your own ranking."""

import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import scoped_view
from wit_world.imports.types import (
    Capabilities,
    PlanError_Unavailable,
    Query,
    ScoredRef,
)

WORD = re.compile(r"\w+")


class Retriever(exports.Retriever):
    def capabilities(self) -> Capabilities:
        # Set `graph` only if you call `entity_facts`: conformance checks that it is honest.
        return Capabilities(graph=False, streaming=False)

    def plan(self, query: Query) -> list[ScoredRef]:
        try:
            return rank(query)
        except Err as error:
            # The view did not answer; the kernel then serves its baseline.
            raise Err(PlanError_Unavailable(error.value.value)) from None


def rank(query: Query) -> list[ScoredRef]:
    """Best first. Refs come from the view, the order is total, the budget is kept."""
    scores: dict[int, float] = {}
    contents: dict[int, str] = {}
    vector = scoped_view.embed([query.text])[0]
    for hit in scoped_view.vector_search(vector, min(max(4 * query.k, 20), 1000)):
        scores[hit.ref] = 0.5 * max(hit.score, 0.0)
        contents[hit.ref] = hit.content
    asked = words(query.text)
    for hit in scoped_view.lexical_candidates(query.text, 200):
        shared = len(asked & words(hit.content)) / max(len(asked), 1)
        scores[hit.ref] = scores.get(hit.ref, 0.0) + 0.5 * shared
        contents[hit.ref] = hit.content
    ranked = sorted(scores, key=lambda ref: (-scores[ref], ref))[: query.k]
    kept = within_budget(ranked, contents, query.token_budget)
    return [ScoredRef(ref=ref, score=scores[ref]) for ref in kept]


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def within_budget(ranked: list[int], contents: dict[int, str], budget: int) -> list[int]:
    """A token is four characters begun. The top hit stays even if it alone exceeds the budget."""
    kept: list[int] = []
    total = 0
    for ref in ranked:
        tokens = -(-len(contents[ref]) // 4)
        if kept and total + tokens > budget:
            continue
        kept.append(ref)
        total += tokens
    return kept
