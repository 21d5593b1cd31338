"""The explorer's files, for people: static, the same for everybody, so anybody may have them. What they show comes from
the routes of `glassbox.gateway.app`, with the reader's own credentials."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

HEADERS = {
    # no script, style, picture or connection but from here, and no text that becomes a script: even a mistake in
    # these pages could not make what a model wrote run
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again each time: an ETag answers in one line
}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def add_pages(app: Starlette) -> None:
    """Serve the explorer: its page at `/`, all else under `/explorer/`."""
    for path, file in _walk(files("glassbox.gateway") / "explorer", "/explorer"):
        address = "/" if path == "/explorer/index.html" else path
        app.add_route(address, _page(file.read_bytes(), _TYPES[path.rpartition(".")[2]]), include_in_schema=False)


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        inner = f"{path}/{each.name}"
        if each.is_dir():
            yield from _walk(each, inner)
        else:
            yield inner, each


def _page(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """What answers for one file, read when the gateway starts."""
    headers = {**HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return answer
