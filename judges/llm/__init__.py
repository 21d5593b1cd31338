"""Access to models: one client for chat with strict schemas and for embeddings, of any OpenAI-compatible endpoint."""

from judges.llm.answers import Vectors
from judges.llm.client import ClientStats, EndpointClient
from judges.llm.endpoint import Endpoint
from judges.llm.errors import EndpointError
from judges.llm.schema import Output
from judges.llm.session import Call, Session

__all__ = ["Call", "ClientStats", "Endpoint", "EndpointClient", "EndpointError", "Output", "Session", "Vectors"]
