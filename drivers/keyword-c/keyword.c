/* Vector search and coverage of the query's words, 0.6 to 0.4: the ranking that
 * ../keyword/README.md defines to the bit. */
#include "halofy.h"

#define POOL 500u
#define LEAST_NEIGHBOURS 15u

/* A run of a-z and 0-9 in a lower-cased text. */
typedef struct {
  const uint8_t *at;
  size_t len;
} word;

/* The distinct words of the query, in a table of open addressing. */
typedef struct {
  word *words;
  /* For which document each word was last seen: counts every word once a document. */
  uint32_t *seen;
  size_t capacity;
  size_t count;
  uint32_t document;
} words_table;

typedef struct {
  uint32_t ref;
  halofy_text content;
  double cosine;
  double score;
} row;

/* Lower-cases as far as it matters: two letters beyond ASCII have an ASCII letter in their
 * lower case, the Kelvin sign (k) and the dotted I (i and a combining dot). Everything else
 * that is no letter or digit of ASCII becomes a space. */
static size_t lower(halofy_text text, uint8_t *out) {
  const uint8_t *from = text.ptr;
  size_t written = 0;
  for (size_t at = 0; at < text.len; at++) {
    uint8_t byte = from[at];
    if (byte >= 'A' && byte <= 'Z') {
      out[written++] = byte + ('a' - 'A');
    } else if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9')) {
      out[written++] = byte;
    } else if (byte == 0xe2 && at + 2 < text.len && from[at + 1] == 0x84 && from[at + 2] == 0xaa) {
      out[written++] = 'k';
      at += 2;
    } else if (byte == 0xc4 && at + 1 < text.len && from[at + 1] == 0xb0) {
      out[written++] = 'i';
      out[written++] = ' ';
      at += 1;
    } else {
      out[written++] = ' ';
    }
  }
  return written;
}

/* The next word from `*at` on; false at the end. */
static bool next_word(const uint8_t *text, size_t len, size_t *at, word *found) {
  while (*at < len && text[*at] == ' ') ++*at;
  size_t start = *at;
  while (*at < len && text[*at] != ' ') ++*at;
  *found = (word){text + start, *at - start};
  return found->len > 0;
}

/* Where `wanted` stands in the table, or the free place for it. FNV-1a, linear probing. */
static size_t place_of(const words_table *table, word wanted) {
  uint32_t hash = 2166136261u;
  for (size_t at = 0; at < wanted.len; at++) hash = (hash ^ wanted.at[at]) * 16777619u;
  size_t place = hash & (table->capacity - 1);
  for (;; place = (place + 1) & (table->capacity - 1)) {
    word held = table->words[place];
    if (held.len == 0) return place;
    if (held.len == wanted.len && memcmp(held.at, wanted.at, held.len) == 0) return place;
  }
}

static void *need(size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size);
  if (!block) abort();
  return block;
}

static words_table words_of(halofy_text query) {
  words_table table = {0};
  uint8_t *text = need(query.len, 1);
  size_t len = lower(query, text);
  /* At most every other byte begins a word, so half of the places stay free. */
  table.capacity = 16;
  while (table.capacity < query.len) table.capacity *= 2;
  table.words = need(table.capacity, sizeof(word));
  table.seen = need(table.capacity, sizeof(uint32_t));
  word found;
  for (size_t at = 0; next_word(text, len, &at, &found);) {
    size_t place = place_of(&table, found);
    if (table.words[place].len == 0) {
      table.words[place] = found;
      table.count++;
    }
  }
  return table;
}

/* Which part of the words of the query stands in `content`. */
static double coverage(words_table *asked, halofy_text content) {
  if (asked->count == 0) return 0;
  uint8_t *text = malloc(content.len);
  if (!text) abort();
  size_t len = lower(content, text);
  size_t hits = 0;
  asked->document++;
  word found;
  for (size_t at = 0; next_word(text, len, &at, &found);) {
    size_t place = place_of(asked, found);
    if (asked->words[place].len > 0 && asked->seen[place] != asked->document) {
      asked->seen[place] = asked->document;
      hits++;
    }
  }
  free(text);
  return (double)hits / (double)asked->count;
}

/* Everything that either arm hands out. Handles count up from 0 in the order of admission,
 * so they are places in the array. */
static row *merge(halofy_candidates pool, halofy_scored_candidates near, size_t *count) {
  row *rows = need(pool.len + near.len, sizeof(row));
  size_t end = 0;
  for (size_t at = 0; at < pool.len; at++) {
    uint32_t ref = pool.ptr[at].ref;
    rows[ref] = (row){ref, pool.ptr[at].content, 0, 0};
    if (ref >= end) end = ref + 1;
  }
  for (size_t at = 0; at < near.len; at++) {
    uint32_t ref = near.ptr[at].ref;
    if (ref >= end) {
      rows[ref] = (row){ref, near.ptr[at].content, 0, 0};
      end = ref + 1;
    }
    if (near.ptr[at].score > rows[ref].cosine) rows[ref].cosine = near.ptr[at].score;
  }
  *count = end;
  return rows;
}

/* Score descending, then handle ascending. */
static int by_score(const void *a, const void *b) {
  const row *left = a, *right = b;
  if (left->score != right->score) return left->score > right->score ? -1 : 1;
  return left->ref < right->ref ? -1 : left->ref > right->ref;
}

static size_t score_all(row *rows, size_t count, words_table *asked) {
  size_t kept = 0;
  for (size_t at = 0; at < count; at++) {
    row scored = rows[at];
    scored.score = 0.6 * scored.cosine + 0.4 * coverage(asked, scored.content);
    if (scored.score > 0) rows[kept++] = scored;
  }
  return kept;
}

/* Passes over what does not fit; the top hit stays even alone. */
static halofy_ranking within_budget(const row *rows, size_t count, uint64_t budget) {
  halofy_ranking out = {need(count, sizeof(halofy_scored_ref)), 0};
  uint64_t total = 0;
  for (size_t at = 0; at < count; at++) {
    uint64_t tokens = halofy_estimate_tokens(rows[at].content);
    if (at > 0 && total + tokens > budget) continue;
    total += tokens;
    out.ptr[out.len++] = (halofy_scored_ref){rows[at].ref, rows[at].score};
  }
  return out;
}

void exports_halofy_driver_retriever_capabilities(halofy_capabilities *out) {
  *out = (halofy_capabilities){.graph = false, .streaming = false};
}

bool exports_halofy_driver_retriever_plan(halofy_query *query, halofy_ranking *out,
                                          halofy_plan_error *why) {
  *out = (halofy_ranking){0};
  if (query->k == 0) return true;
  halofy_view_error error;
  halofy_candidates pool;
  if (!halofy_lexical_candidates(&query->text, POOL, &pool, &error)) {
    return halofy_unavailable(&error, why);
  }
  halofy_texts texts = {&query->text, 1};
  halofy_vectors vectors;
  if (!halofy_embed(&texts, &vectors, &error)) return halofy_unavailable(&error, why);
  if (vectors.len == 0) {
    why->tag = HALOFY_DRIVER_TYPES_PLAN_ERROR_UNAVAILABLE;
    driver_string_dup(&why->val.unavailable, "the embedder gave no vector");
    return false;
  }
  uint32_t k = query->k > UINT32_MAX / 3 ? UINT32_MAX : query->k * 3;
  if (k < LEAST_NEIGHBOURS) k = LEAST_NEIGHBOURS;
  halofy_scored_candidates near;
  if (!halofy_vector_search(&vectors.ptr[0], k, &near, &error)) {
    return halofy_unavailable(&error, why);
  }
  words_table asked = words_of(query->text);
  size_t count;
  row *rows = merge(pool, near, &count);
  count = score_all(rows, count, &asked);
  qsort(rows, count, sizeof(row), by_score);
  *out = within_budget(rows, count < query->k ? count : query->k, query->token_budget);
  return true;
}
