// my-engine: ranks what the view offers by nearness, and lifts what shares words with the
// query. Replace `rank` with your own ranking.

import view from "halofy:driver/scoped-view@1.0.0";

export const retriever = {
  // Set `graph` only if you call `entityFacts`: conformance checks that it is honest.
  capabilities() {
    return { graph: false, streaming: false };
  },

  plan(query) {
    try {
      return rank(query);
    } catch (error) {
      // The view throws `{ tag, val }`; the kernel then serves its baseline.
      const val = error?.val ?? error?.payload?.val ?? String(error);
      throw { tag: "unavailable", val: String(val) };
    }
  },
};

// Best first. Refs come from the view, the order is total, the budget is kept.
function rank(query) {
  const { text } = query;
  // The bindings hand a u32 above 2^31 over as a negative number.
  const [k, tokenBudget] = [query.k >>> 0, query.tokenBudget >>> 0];
  const rows = new Map();
  const [vector] = view.embed([text]);
  for (const { ref, content, score } of view.vectorSearch(vector, Math.min(Math.max(4 * k, 20), 1000))) {
    rows.set(ref, { ref, content, score: 0.5 * Math.max(score, 0) });
  }
  const asked = words(text);
  for (const { ref, content } of view.lexicalCandidates(text, 200)) {
    const held = words(content);
    const shared = [...asked].filter((word) => held.has(word)).length / Math.max(asked.size, 1);
    const row = rows.get(ref) ?? { ref, content, score: 0 };
    row.score += 0.5 * shared;
    rows.set(ref, row);
  }
  const ranked = [...rows.values()].sort((a, b) => b.score - a.score || a.ref - b.ref);
  return withinBudget(ranked.slice(0, k), tokenBudget);
}

function words(text) {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
}

// A token is four characters begun. The top hit stays even if it alone exceeds the budget.
function withinBudget(ranked, budget) {
  const kept = [];
  let total = 0;
  for (const { ref, content, score } of ranked) {
    const tokens = Math.ceil([...content].length / 4);
    if (kept.length > 0 && total + tokens > budget) continue;
    kept.push({ ref, score });
    total += tokens;
  }
  return kept;
}
