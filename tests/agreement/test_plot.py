"""Reliability plots as text and as SVG."""

from xml.etree import ElementTree

import pytest

from glassbox.agreement.figures import ONE, reliability
from glassbox.agreement.plot import svg_plot, text_plot
from glassbox.contract.agreement import Reliability

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def found() -> Reliability:
    made = reliability([ONE] * 150 + [50000] * 100, [True] * 140 + [False] * 10 + [False] * 100)
    assert made is not None
    return made


def test_text_has_a_line_a_bin_with_its_figures(found: Reliability) -> None:
    head, low, high = text_plot(found)
    assert head.startswith("score ")
    assert "0.0 to 0.1     100  0.05 0.00 (0.00 to 0.04)" in low
    assert "0.9 to 1.0     150  1.00 0.93 (0.88 to 0.96)" in high
    assert low.index("●") < low.index("|")
    assert high.index("●") < high.index("|")
    assert len(high) == len(head)


def test_svg_is_xml_with_a_panel_each_and_nothing_of_a_title_is_markup(found: Reliability) -> None:
    root = ElementTree.fromstring(svg_plot([("faithfulness", found), ("a<b>&c", found)]))  # noqa: S314
    assert len(root.findall(f"{SVG}g")) == 2
    assert len(root.findall(f".//{SVG}circle")) == 4
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "a<b>&c" in texts
    assert "250 labelled scores, expected calibration error 0.060" in texts
