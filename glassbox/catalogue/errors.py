"""What can be wrong with the catalogue."""

from __future__ import annotations


class CatalogueError(Exception):
    """The catalogue cannot be used as it is; the message says what to do next."""


class CatalogueUnavailable(CatalogueError):
    """The database does not answer: wait and try again."""


class CatalogueRefused(CatalogueError):
    """What was to be written fits in no column: trying again is of no use."""
