from __future__ import annotations

import pytest

from streams.topics import DAY_MS, MESSAGE_MAX, REQUEST_MAX, REQUESTS, TOPICS, kept_longer, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),  # the values of Kafka's own tests (org.apache.kafka.common.utils.UtilsTest)
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_partitions_are_those_of_kafka_clients(key: bytes, hashed: int) -> None:
    assert partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_a_request_of_the_largest_size_fits_where_it_may_have_to_go() -> None:
    assert REQUESTS.max_message_bytes == REQUEST_MAX
    assert all(topic.max_message_bytes == MESSAGE_MAX > REQUEST_MAX for topic in TOPICS if topic is not REQUESTS)
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)


def test_a_topic_is_kept_longer_where_that_is_asked_for_and_never_shorter() -> None:
    kept = {topic.name: topic for topic in kept_longer(TOPICS, {"glassbox.results": 8})}
    assert kept["glassbox.results"].config(1)["retention.ms"] == str(8 * DAY_MS)
    assert kept.keys() == {topic.name for topic in TOPICS}
    for name, days, told in (
        ("glassbox.results", 6, "must be kept 7 days or more"),
        ("glassbox.receipts", 9999, "must be kept for ever"),
        ("glassbox.result", 8, "is no topic of the pipeline; its topics: glassbox.requests"),
    ):
        with pytest.raises(ValueError, match=told):
            kept_longer(TOPICS, {name: days})
