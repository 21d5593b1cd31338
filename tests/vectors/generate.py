"""Writes the golden vectors that bind Python, the Go chaincode and the browser to the same bytes and figures.

    python -m tests.vectors.generate           writes tests/vectors/*.json
    python -m tests.vectors.generate --check   exits 1 where a file differs from what would be written

Expected composites come from `reference.py`, a second writing of the specification; bytes from the rfc8785 package
and from the RFC itself. `README.md` describes the files.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.vectors.canonical import canonical_vectors
from tests.vectors.composite import composite_vectors
from tests.vectors.policy import policy_vectors
from tests.vectors.record import record_vectors
from tests.vectors.reference import JSON

FOLDER = Path(__file__).parent


def files() -> Iterator[tuple[str, str]]:
    made = (
        ("canonical", canonical_vectors()),
        ("composite", composite_vectors()),
        ("policy", policy_vectors()),
        ("record", record_vectors()),
    )
    for name, vectors in made:
        yield f"{name}.json", written(vectors)


def written(vectors: JSON) -> str:
    """Sections, and in them one vector a line, so that a change shows as that line."""
    sections = []
    for name, content in vectors.items():
        if isinstance(content, dict):
            lines = [f"{json.dumps(key)}: {json.dumps(item)}" for key, item in content.items()]
            sections.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
        else:
            sections.append(f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, content)) + "\n]")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def load(name: str) -> Any:
    """The vectors of a file, such as `record.json`."""
    return json.loads((FOLDER / name).read_text())


def main(arguments: list[str]) -> int:
    different = []
    for name, text in files():
        path = FOLDER / name
        if arguments == ["--check"]:
            different += [] if path.is_file() and path.read_text() == text else [name]
        else:
            path.write_text(text)
    for name in different:
        sys.stderr.write(f"tests/vectors/{name} differs from what python -m tests.vectors.generate writes\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
