import pytest

pytest.register_assert_rewrite("tests.faults.gates")  # before it is imported: what a gate compares is shown
