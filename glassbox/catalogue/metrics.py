"""Prometheus metrics of the catalogue."""

from prometheus_client import Counter

UNREADABLE = Counter("glassbox_catalogue_unreadable", "Messages that the catalogue passed over", ["topic"])
