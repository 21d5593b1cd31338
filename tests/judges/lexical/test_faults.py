import pytest

from judges.lexical.faults import Faults


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"error_rate": 1.5}, "error_rate is 1.5"),
        ({"hang_rate": -0.1}, "hang_rate"),
        ({"latency_s": -1}, "latency_s is -1"),
        ({"malformed": "odd"}, "choose one of none, fewer"),
    ],
)
def test_settings_out_of_range_are_refused(setting, said):
    with pytest.raises(ValueError, match=said):
        Faults(**setting)


def test_without_settings_nothing_goes_wrong():
    assert {Faults().draw(n, "PassageVerdicts") for n in range(100)} == {None}


def test_rates_are_met_in_the_long_run():
    faults = Faults(error_rate=0.2, refuse_rate=0.1, seed=7)
    drawn = [faults.draw(n, "PassageVerdicts") for n in range(4_000)]
    assert abs(drawn.count("error") / 4_000 - 0.2) < 0.03
    assert abs(drawn.count("refuse") / 4_000 - 0.08) < 0.02  # those that no error hit first


def test_the_heavier_fault_comes_first():
    assert Faults(hang_rate=1, error_rate=1, malformed="empty").draw(0, "PassageVerdicts") == "hang"
