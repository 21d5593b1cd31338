"""The offline model: deterministic lexical rules behind an OpenAI-compatible endpoint.

A stand-in for a language model, named as one in every method: it compares words and cannot tell meaning.
"""

CHAT_MODEL = "glassbox-lexical-3"
EMBEDDING_MODEL = "glassbox-lexical-embedding-1"
UNKNOWN_SCHEMA = "unknown_schema"
"""The error code of the offline model for an output that it was not made for."""
