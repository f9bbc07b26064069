"""mem0 as a ranking engine: one plan, one memory of its own, nothing kept.

The HTTP side is in serve.py. This file must not read the network: the embedder is a
static table that its wheel carries, the stores are in memory, and no language model is
ever asked (`infer=False`).
"""

import os
import tempfile
from pathlib import Path

# Read when mem0 is imported: no telemetry, no notices, and nothing in the user's folders.
os.environ["MEM0_TELEMETRY"] = "False"
_scratch = tempfile.TemporaryDirectory(prefix="halofy-mem0-")
os.environ["MEM0_DIR"] = _scratch.name

import wordllama  # noqa: E402
from mem0 import Memory  # noqa: E402
from mem0.embeddings.base import EmbeddingBase  # noqa: E402
from mem0.llms.base import LLMBase  # noqa: E402
from mem0.utils.factory import EmbedderFactory, LlmFactory  # noqa: E402
from qdrant_client import QdrantClient  # noqa: E402

DIMENSION = 256
MODE = f"mem0 infer=false embedder=wordllama/{DIMENSION} store=memory"

# The wheel keeps its tokenizer in a folder that only the cache is searched for.
_table = wordllama.WordLlama.load(
    dim=DIMENSION, cache_dir=Path(wordllama.__file__).parent, disable_download=True
)


class LocalEmbedding(EmbeddingBase):
    """mem0's embedder interface over the static table."""

    def embed(self, text, memory_action=None):
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts, memory_action=None):
        # mem0 embeds one text at a time: padding to a batch would only cost.
        vectors = _table.embed(list(texts))
        lengths = (vectors**2).sum(axis=1, keepdims=True) ** 0.5
        # A text without a known token has no direction; as zeros it matches nothing.
        lengths[lengths == 0] = 1
        return (vectors / lengths).tolist()


class NoModel(LLMBase):
    """Stands where mem0 wants a language model, and is never asked."""

    def generate_response(self, *arguments, **options):
        raise RuntimeError("infer=False asks no language model")


# mem0 names its providers in a closed list. These two names are those that it keeps for
# models handed in from outside; their own classes need packages that are not installed.
EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.LocalEmbedding"
LlmFactory.register_provider("langchain", f"{__name__}.NoModel")


def plan(query, candidates, k):
    """Ranks `candidates`, a list of `{"ref", "content"}`, for `query`.

    Returns at most `k` of `{"ref", "score"}`, best first. The memory is made for this
    call and dropped with it, so that no plan sees what another one was sent.
    """
    if not candidates or k < 1 or not query.strip():
        return []
    with _memory() as memory:
        messages = [{"role": "user", "content": it["content"]} for it in candidates]
        added = memory.add(messages, run_id="plan", infer=False)["results"]
        refs = {stored["id"]: it["ref"] for stored, it in zip(added, candidates, strict=True)}
        found = memory.search(query, top_k=k, filters={"run_id": "plan"}, threshold=0.0)
        return [{"ref": refs[hit["id"]], "score": hit["score"]} for hit in found["results"]]


def _memory():
    return Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"embedding_dims": DIMENSION}},
            "llm": {"provider": "langchain", "config": {}},
            "history_db_path": ":memory:",
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "client": QdrantClient(":memory:"),
                    "embedding_model_dims": DIMENSION,
                    "collection_name": "plan",
                },
            },
        }
    )
