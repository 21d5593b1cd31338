from hypothesis import given, settings
from hypothesis import strategies as st

from glassbox.contract.verdict import FAILED
from judges.llm.errors import EndpointError
from judges.llm.retry import CAP_S, FIRST_S, group, retry_delay

CAUSES = st.sampled_from(sorted(FAILED))


@settings(deadline=None)
@given(
    CAUSES,
    st.integers(1, 50),
    st.floats(0, 1000),
    st.floats(0.01, 100),
    st.floats(0, 1),
    st.none() | st.floats(0, 500),
)
def test_a_retry_always_leaves_room_for_a_whole_call(cause, failures, remaining, limit, jitter, asked):
    error = EndpointError(cause, retry_after_s=asked)
    delay = retry_delay(error, failures, remaining_s=remaining, call_limit_s=limit, jitter=jitter)
    if delay is not None:
        assert 0 <= delay
        assert delay + limit <= remaining


def test_backoff_doubles_up_to_its_cap_and_jitter_takes_at_most_half():
    def delay(failures, jitter=0.0):
        return retry_delay(EndpointError("rate_limited"), failures, remaining_s=1e6, call_limit_s=1, jitter=jitter)

    assert [delay(n) for n in (1, 2, 3)] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert delay(8) == CAP_S
    assert delay(1, jitter=1.0) == FIRST_S / 2


def test_a_wait_that_the_endpoint_asked_for_is_never_cut_short():
    error = EndpointError("rate_limited", retry_after_s=30)
    assert retry_delay(error, 1, remaining_s=100, call_limit_s=60, jitter=1) == 30
    assert retry_delay(error, 1, remaining_s=89, call_limit_s=60, jitter=1) is None


def test_an_unusable_answer_is_asked_again_once_and_at_once():
    for cause in ("malformed_output", "count_mismatch", "no_question", "bad_embedding", "truncated"):
        assert retry_delay(EndpointError(cause), 1, remaining_s=60, call_limit_s=60, jitter=0) == 0
        assert retry_delay(EndpointError(cause), 2, remaining_s=60, call_limit_s=60, jitter=0) is None
    assert group("malformed_output") == group("count_mismatch") != group("timeout")


def test_what_asking_again_cannot_mend_is_not_asked_again():
    for error in (EndpointError("refused"), EndpointError("model_missing"), EndpointError("unavailable", final=True)):
        assert retry_delay(error, 1, remaining_s=1e6, call_limit_s=1, jitter=0) is None
