"""Vector search and coverage of the query's words, 0.6 to 0.4: the ranking that
../keyword/README.md defines to the bit."""

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

COSINE_WEIGHT = 0.6
COVERAGE_WEIGHT = 0.4
POOL = 500
LEAST_NEIGHBOURS = 15
MOST_NEIGHBOURS = 0xFFFF_FFFF

WORD = re.compile("[a-z0-9]+")


class Retriever(exports.Retriever):
    def capabilities(self) -> Capabilities:
        return Capabilities(graph=False, streaming=False)

    def plan(self, query: Query) -> list[ScoredRef]:
        if query.k == 0:
            return []
        try:
            rows = rows_of(query)
        except Err as error:
            # Each case of a view error holds a text.
            raise Err(PlanError_Unavailable(error.value.value)) from None
        asked = terms(query.text)
        scored = []
        for ref, (content, cosine) in rows.items():
            score = COSINE_WEIGHT * cosine + COVERAGE_WEIGHT * coverage(asked, content)
            if score > 0:
                scored.append((-score, ref, content))
        scored.sort()
        return within_budget(scored[: query.k], query.token_budget)


def rows_of(query: Query) -> dict[int, tuple[str, float]]:
    """Content and best cosine of everything that either arm hands out, by handle."""
    pool = scoped_view.lexical_candidates(query.text, POOL)
    rows = {hit.ref: (hit.content, 0.0) for hit in pool}
    vectors = scoped_view.embed([query.text])
    if not vectors:
        raise Err(PlanError_Unavailable("the embedder gave no vector"))
    limit = min(max(query.k * 3, LEAST_NEIGHBOURS), MOST_NEIGHBOURS)
    for hit in scoped_view.vector_search(vectors[0], limit):
        content, best = rows.get(hit.ref, (hit.content, 0.0))
        rows[hit.ref] = (content, max(best, hit.score))
    return rows


def terms(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def coverage(asked: set[str], content: str) -> float:
    """Which part of the words of the query stands in `content`."""
    return len(asked & terms(content)) / len(asked) if asked else 0.0


def within_budget(hits: list[tuple[float, int, str]], budget: int) -> list[ScoredRef]:
    """Passes over what does not fit; the top hit stays even alone."""
    kept = []
    total = 0
    for negative, ref, content in hits:
        tokens = -(-len(content) // 4)
        if kept and total + tokens > budget:
            continue
        kept.append(ScoredRef(ref=ref, score=-negative))
        total += tokens
    return kept
