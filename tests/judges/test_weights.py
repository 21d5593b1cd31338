"""Names of models: what they stand for, and what a method calls them."""

import os

import pytest

from judges.port import JudgeError
from judges.weights import Weights


def test_a_name_may_carry_a_revision(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert Weights.named("owner/model") == Weights("owner/model")
    assert Weights.named("owner/model@1a2b") == Weights("owner/model", "1a2b")
    assert Weights.named("owner/model@").identity() == "owner/model@unknown"
    assert Weights.named("owner/model@main").identity() == "owner/model@main"
    assert Weights.named("owner/model@main").identity("1a2b") == "owner/model@1a2b"


@pytest.mark.parametrize("given", ["./gone", "/gone", "~/gone-for-good", "", "@1a2b"])
def test_a_name_of_nothing_is_a_sentence(given, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JudgeError) as raised:
        Weights.named(given)
    assert raised.value.cause == "model_missing"


def test_a_folder_is_known_by_its_contents(tmp_path):
    one, other = tmp_path / "here" / "model", tmp_path / "there" / "model"
    for folder in (one, other):
        (folder / "part").mkdir(parents=True)
        (folder / "weights.bin").write_bytes(b"12")
        (folder / "part" / "config.json").write_text("{}")
    first = Weights.named(str(one)).identity()
    assert first.startswith("model@sha256-")
    (other / "README.md").write_text("notes")
    (other / ".cache").mkdir()
    (other / ".cache" / "lock").write_text("x")
    os.utime(other / "weights.bin", (1, 1))
    assert Weights.named(str(other)).identity() == first
    (other / "weights.bin").write_bytes(b"13")
    assert Weights.named(str(other)).identity() != first
    (other / "weights.bin").write_bytes(b"12")
    (other / "part" / "config.json").rename(other / "config.json")
    assert Weights.named(str(other)).identity() != first
