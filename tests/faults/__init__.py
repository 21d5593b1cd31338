import pytest

pytest.register_assert_rewrite("tests.faults.gates")  # before it is imported: what a gate compares is shown

KILLED_BY_TASK = 9
"""Exit code of a worker whose task ends its process."""
