from __future__ import annotations

from pathlib import Path

import pytest

from streams.note_files import FileNotes, forget_notes
from streams.ports import SendFailed
from streams.starts import Note

WHERE = ("glassbox.judge.grounding", 3)


async def test_a_note_outlives_its_writer(tmp_path: Path) -> None:
    folder = tmp_path / "starts"
    assert await FileNotes(folder).read(WHERE) == Note()
    for note in (Note(64), Note(64, {3: 2})):
        await FileNotes(folder).write(WHERE, note)
        assert await FileNotes(folder).read(WHERE) == note
    assert [path.name for path in folder.iterdir()] == ["glassbox.judge.grounding-3"]


async def test_a_new_broker_has_no_notes(tmp_path: Path) -> None:
    forget_notes(tmp_path / "starts")
    await FileNotes(tmp_path / "starts").write(WHERE, Note(64))
    forget_notes(tmp_path / "starts")
    assert await FileNotes(tmp_path / "starts").read(WHERE) == Note()


async def test_a_note_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("a file")
    with pytest.raises(SendFailed, match="cannot be noted"):
        await FileNotes(tmp_path / "starts").write(WHERE, Note(64))
