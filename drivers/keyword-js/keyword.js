// Vector search and coverage of the query's words, 0.6 to 0.4: the ranking that
// ../keyword/README.md defines to the bit.

import view from "halofy:driver/scoped-view@1.0.0";

const COSINE_WEIGHT = 0.6;
const COVERAGE_WEIGHT = 0.4;
const POOL = 500;
const LEAST_NEIGHBOURS = 15;
const MOST_NEIGHBOURS = 0xffffffff;

export const retriever = {
  capabilities() {
    return { graph: false, streaming: false };
  },

  plan(query) {
    try {
      return rank(query);
    } catch (error) {
      throw unavailable(error);
    }
  },
};

// The view throws `{ tag, val }`; whatever else is thrown is a mistake in here.
function unavailable(error) {
  const ofView = ["unavailable", "invalid-argument", "limit-exceeded"];
  const thrown = error?.payload ?? error;
  if (ofView.includes(thrown?.tag)) return { tag: "unavailable", val: thrown.val };
  return { tag: "other", val: String(error) };
}

function rank(query) {
  const { text } = query;
  // The bindings hand a u32 above 2^31 over as a negative number.
  const [k, tokenBudget] = [query.k >>> 0, query.tokenBudget >>> 0];
  if (k === 0) return [];
  const asked = terms(text);
  const scored = [];
  for (const { ref, content, cosine } of rows(text, k).values()) {
    const score = COSINE_WEIGHT * cosine + COVERAGE_WEIGHT * coverage(asked, content);
    if (score > 0) scored.push({ ref, score, content });
  }
  scored.sort((a, b) => b.score - a.score || a.ref - b.ref);
  return withinBudget(scored.slice(0, k), tokenBudget);
}

// Everything that either arm hands out, by handle.
function rows(text, k) {
  const found = new Map();
  for (const { ref, content } of view.lexicalCandidates(text, POOL)) {
    found.set(ref, { ref, content, cosine: 0 });
  }
  const [embedding] = view.embed([text]);
  if (embedding === undefined) throw { tag: "unavailable", val: "the embedder gave no vector" };
  const limit = Math.min(Math.max(k * 3, LEAST_NEIGHBOURS), MOST_NEIGHBOURS);
  for (const { ref, content, score } of view.vectorSearch(embedding, limit)) {
    if (!found.has(ref)) found.set(ref, { ref, content, cosine: 0 });
    const row = found.get(ref);
    if (score > row.cosine) row.cosine = score;
  }
  return found;
}

function terms(text) {
  return new Set(text.toLowerCase().match(/[a-z0-9]+/g) ?? []);
}

// Which part of the words of the query stands in `content`.
function coverage(asked, content) {
  if (asked.size === 0) return 0;
  let hits = 0;
  for (const term of terms(content)) if (asked.has(term)) hits += 1;
  return hits / asked.size;
}

// Passes over what does not fit; the top hit stays even alone.
function withinBudget(hits, budget) {
  const kept = [];
  let total = 0;
  for (const { ref, score, content } of hits) {
    const tokens = estimateTokens(content);
    if (kept.length > 0 && total + tokens > budget) continue;
    kept.push({ ref, score });
    total += tokens;
  }
  return kept;
}

// ceil(characters / 4), where a pair of surrogates is one character.
function estimateTokens(text) {
  let characters = text.length;
  for (let at = 0; at < text.length; at += 1) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xdc00) characters -= 1;
  }
  return Math.ceil(characters / 4);
}
