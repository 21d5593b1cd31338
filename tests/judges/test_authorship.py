import pytest

from glassbox.contract.request import Model
from judges.authorship import judge_is_author


@pytest.mark.parametrize(
    ("author", "judges", "same"),
    [
        (None, ("gpt-4o",), False),
        (Model(provider="openai", name="gpt-4o"), ("gpt-4o",), True),
        (Model(provider="openai", name="gpt-4o"), ("judge", "gpt-4o-2024-08-06"), True),
        (Model(provider="openai", name="openai/GPT-4o-2024-05-13"), ("gpt-4o-2024-08-06",), True),
        (Model(provider="openrouter", name="gpt-4o"), ("openai/gpt-4o",), True),
        (Model(provider="openai", name="gpt-4o-mini"), ("gpt-4o",), False),
        (Model(provider="ollama", name="llama3:latest"), ("llama3",), True),
        (Model(provider="ollama", name="llama3:8b"), ("llama3:70b",), False),
        (Model(provider="mistral", name="mistral-large-2411"), ("mistral-large",), True),
        (Model(provider="openai", name="gpt-4o"), (None,), False),
    ],
)
def test_the_author_is_known_by_its_name(author, judges, same):
    assert judge_is_author(author, *judges) is same
