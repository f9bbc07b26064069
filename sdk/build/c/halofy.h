/* What a cartridge in C includes: the bindings of the contract ("driver.h", generated),
 * short names for what every engine uses, and the small library that there is.
 *
 * Implement
 *   void exports_halofy_driver_retriever_capabilities(halofy_capabilities *out);
 *   bool exports_halofy_driver_retriever_plan(halofy_query *query,
 *                                             halofy_ranking *out, halofy_plan_error *why);
 * where `plan` answers true and fills `out`, or answers false and fills `why`. */
#ifndef HALOFY_H
#define HALOFY_H

#include <stdlib.h>
#include <string.h>

#include "driver.h"

typedef driver_string_t halofy_text;
typedef driver_list_f32_t halofy_vector;
typedef driver_list_list_f32_t halofy_vectors;
typedef driver_list_string_t halofy_texts;

typedef halofy_driver_types_candidate_t halofy_candidate;
typedef halofy_driver_types_scored_candidate_t halofy_scored_candidate;
typedef halofy_driver_types_entity_fact_t halofy_entity_fact;
typedef halofy_driver_types_view_error_t halofy_view_error;
typedef halofy_driver_scoped_view_list_candidate_t halofy_candidates;
typedef halofy_driver_scoped_view_list_scored_candidate_t halofy_scored_candidates;
typedef halofy_driver_scoped_view_list_entity_fact_t halofy_entity_facts;

typedef halofy_driver_types_capabilities_t halofy_capabilities;
typedef halofy_driver_types_query_t halofy_query;
typedef halofy_driver_types_scored_ref_t halofy_scored_ref;
typedef halofy_driver_types_plan_error_t halofy_plan_error;
typedef exports_halofy_driver_retriever_list_scored_ref_t halofy_ranking;

/* The view. Each answers true and fills `out`, or false and fills `why`. */
#define halofy_candidates_of halofy_driver_scoped_view_candidates
#define halofy_lexical_candidates halofy_driver_scoped_view_lexical_candidates
#define halofy_vector_search halofy_driver_scoped_view_vector_search
#define halofy_embed halofy_driver_scoped_view_embed
#define halofy_concepts halofy_driver_scoped_view_concepts
#define halofy_entity_facts_of halofy_driver_scoped_view_entity_facts
#define halofy_namespace halofy_driver_scoped_view_namespace

/* For `return`: the engine cannot serve, because the view did not answer. */
static inline bool halofy_unavailable(const halofy_view_error *error, halofy_plan_error *why) {
  why->tag = HALOFY_DRIVER_TYPES_PLAN_ERROR_UNAVAILABLE;
  /* Each case of a view error holds one text, at the same place. */
  why->val.unavailable = error->val.unavailable;
  return false;
}

/* ceil(characters / 4), as the kernel counts tokens. */
static inline uint64_t halofy_estimate_tokens(halofy_text text) {
  uint64_t characters = 0;
  for (size_t at = 0; at < text.len; at++) {
    characters += (text.ptr[at] & 0xc0) != 0x80;
  }
  return (characters + 3) / 4;
}

#endif
