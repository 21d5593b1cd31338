"""How a process says how it is, whatever it does: one address for each, and traces where they are asked for."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

from glassbox.settings import SettingsError

if TYPE_CHECKING:
    from glassbox.settings import Settings
    from streams.health import Check

log = logging.getLogger("glassbox.worker")


async def serve(settings: Settings, role: str, live: Check, ready: Check, resources: AsyncExitStack) -> None:
    """/live, /ready and /metrics, and tracing, until `resources` are closed. Raises `SettingsError` where the port is
    taken, `TracingError`."""
    from streams import metrics, tracing
    from streams.health import serve_health

    release = version("glassbox")
    metrics.BUILD.labels(role=role, version=release).set(1)
    resources.callback(tracing.start(role, release))
    try:
        runner, port = await serve_health(settings.metrics_host, settings.metrics_port, live, ready)
    except OSError as error:
        where = f"{settings.metrics_host}:{settings.metrics_port}"
        raise SettingsError(
            f"{where} cannot serve metrics ({error.strerror}); set GLASSBOX_METRICS_PORT to a free port, "
            "or to 0 to have one chosen"
        ) from None
    resources.push_async_callback(runner.cleanup)
    log.info("%s serves /metrics, /live and /ready on %s:%d", role, settings.metrics_host, port)
