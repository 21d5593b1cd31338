"""Systems as people write them, for the tests of entry points."""

import sys
import time

print("a module that prints when it is imported")  # noqa: T201


def text(question: str) -> str:
    print("thinking about", question)  # noqa: T201
    sys.stdout.flush()
    return f"You asked: {question}"


async def later(question: str) -> dict[str, object]:
    return {"answer": f"Later {question} [doc].", "retrieved": [{"document": "doc", "score": 0.5}]}


class Made:
    def __init__(self) -> None:
        self.calls = 0

    def answer(self, question: str) -> str:
        self.calls += 1
        return f"call {self.calls}"


made = Made()


def broken(question: str) -> str:
    raise ValueError(f"sk-secret in {question}")


def hangs(question: str) -> str:
    if question == "hang":
        while True:
            time.sleep(600)
    return "here"


def ends(question: str) -> str:
    sys.exit(0)


def nothing(question: str) -> None:
    return None


def no_json(question: str) -> dict[str, object]:
    return {"answer": {1}}


constant = 3
