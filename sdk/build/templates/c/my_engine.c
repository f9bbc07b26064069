/* my-engine: ranks what the view offers by nearness, and lifts what the lexical arm found
 * early. Replace `rank_rows` with your own ranking. Nothing has to be freed: an instance lives
 * for one call. */
#include "halofy.h"

typedef struct {
  uint32_t ref;
  bool known;
  halofy_text content;
  double score;
} row;

/* Handles count up from 0 in the order in which the view gave them out, so they are places. */
static size_t rank_rows(row *rows, halofy_scored_candidates near, halofy_candidates pool) {
  size_t places = near.len + pool.len;
  for (size_t at = 0; at < near.len; at++) {
    double score = near.ptr[at].score > 0 ? near.ptr[at].score : 0;
    rows[near.ptr[at].ref] = (row){near.ptr[at].ref, true, near.ptr[at].content, 0.5 * score};
  }
  for (size_t at = 0; at < pool.len; at++) {
    row *found = &rows[pool.ptr[at].ref];
    double score = found->known ? found->score : 0;
    score += 0.5 / (1.0 + (double)at);
    *found = (row){pool.ptr[at].ref, true, pool.ptr[at].content, score};
  }
  size_t count = 0;
  for (size_t at = 0; at < places; at++) {
    if (rows[at].known) rows[count++] = rows[at];
  }
  return count;
}

/* The order is total: equal scores by handle. */
static int best_first(const void *a, const void *b) {
  const row *left = a, *right = b;
  if (left->score != right->score) return left->score > right->score ? -1 : 1;
  return left->ref < right->ref ? -1 : left->ref > right->ref;
}

/* A token is four characters begun. The top hit stays even if it alone exceeds the budget. */
static void answer(const row *rows, size_t count, uint64_t budget, halofy_ranking *out) {
  uint64_t total = 0;
  out->len = 0;
  for (size_t at = 0; at < count; at++) {
    uint64_t tokens = halofy_estimate_tokens(rows[at].content);
    if (at > 0 && total + tokens > budget) continue;
    total += tokens;
    out->ptr[out->len++] = (halofy_scored_ref){rows[at].ref, rows[at].score};
  }
}

/* Set `graph` only if you call `halofy_entity_facts_of`: conformance checks that it is honest. */
void exports_halofy_driver_retriever_capabilities(halofy_capabilities *out) {
  *out = (halofy_capabilities){.graph = false, .streaming = false};
}

bool exports_halofy_driver_retriever_plan(halofy_query *query, halofy_ranking *out,
                                          halofy_plan_error *why) {
  halofy_view_error error;
  halofy_texts texts = {&query->text, 1};
  halofy_vectors vectors;
  if (!halofy_embed(&texts, &vectors, &error)) return halofy_unavailable(&error, why);

  uint32_t k = query->k > 250 ? 1000 : query->k * 4;
  halofy_scored_candidates near;
  if (!halofy_vector_search(&vectors.ptr[0], k < 20 ? 20 : k, &near, &error)) {
    return halofy_unavailable(&error, why);
  }
  halofy_candidates pool;
  if (!halofy_lexical_candidates(&query->text, 200, &pool, &error)) {
    return halofy_unavailable(&error, why);
  }

  row *rows = calloc(near.len + pool.len + 1, sizeof(row));
  if (!rows) abort();
  size_t count = rank_rows(rows, near, pool);
  qsort(rows, count, sizeof(row), best_first);
  if (count > query->k) count = query->k;
  out->ptr = calloc(count + 1, sizeof(halofy_scored_ref));
  if (!out->ptr) abort();
  answer(rows, count, query->token_budget, out);
  return true;
}
