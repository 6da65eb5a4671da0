"""confluent-kafka (librdkafka) against one broker: suite.py HOST:PORT

Every function whose name begins with "case_" is a case. Each prints one line of JSON: its name, and what went wrong.
"""

import json
import sys
import time
import traceback
import uuid

from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError,
                             KafkaException, Producer, TopicPartition)
from confluent_kafka.admin import (AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType)

BOOTSTRAP = sys.argv[1]
TIMEOUT = 30
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def expect(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what or 'value'}: {got!r}, want {want!r}")


ADMIN = AdminClient({"bootstrap.servers": BOOTSTRAP})  # must outlive its futures


def create(partitions=1, **config):
    name = f"confluent-{uuid.uuid4().hex}"
    topic = NewTopic(name, partitions, config={k.replace("_", "."): v for k, v in config.items()})
    ADMIN.create_topics([topic])[name].result(TIMEOUT)
    return name


def produce(topic, records, **config):
    """Sends keyword arguments of Producer.produce and returns where they went."""
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5, **config})
    placed, errors = [], []

    def delivered(err, message):
        if err is not None:
            errors.append(err)
        else:
            placed.append((message.partition(), message.offset()))

    for record in records:
        while True:
            try:
                producer.produce(topic, on_delivery=delivered, **record)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(TIMEOUT)
    if errors:
        raise KafkaException(errors[0])
    expect(left, 0, "records that were never acknowledged")
    return placed


def consumer(**config):
    return Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False,
                     "enable.partition.eof": True, **config})


def consume(topic, partition=0, offset=OFFSET_BEGINNING, **config):
    """Reads a partition to its end, without a group."""
    c = consumer(**config)
    c.assign([TopicPartition(topic, partition, offset)])
    messages, deadline = [], time.monotonic() + TIMEOUT
    try:
        while time.monotonic() < deadline:
            message = c.poll(1)
            if message is None:
                continue
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return messages
            else:
                raise KafkaException(message.error())
        raise AssertionError(f"no end of the partition within {TIMEOUT} s, {len(messages)} records")
    finally:
        c.close()


def kafka_error(call, *args, **kwargs):
    """The name of the error that a call ends with."""
    try:
        call(*args, **kwargs)
    except KafkaException as e:
        return e.args[0].name()
    return None


def case_every_codec():
    for codec in CODECS:
        topic = create()
        sent = [{"key": f"k{i}".encode(), "value": f"{codec} {i} ".encode() * (i % 50)} for i in range(2000)]
        placed = produce(topic, sent, **{"compression.type": codec})
        expect(placed, [(0, i) for i in range(2000)], codec)
        got = [{"key": m.key(), "value": m.value()} for m in consume(topic)]
        expect(len(got), 2000, codec)
        expect(got, sent, codec)


def case_nulls_and_headers():
    topic = create()
    sent = [
        {"key": None, "value": None},
        {"key": b"", "value": b""},
        {"key": b"k", "value": None, "headers": [("a", b"1"), ("a", b"2"), ("none", None), ("empty", b"")]},
        {"key": bytes(range(256)), "value": bytes(range(255, -1, -1)), "headers": [("ü", "ü".encode())]},
    ]
    produce(topic, sent)
    got = consume(topic)
    for g, want in zip(got, sent, strict=True):
        expect(g.key(), want["key"], "key")
        expect(g.value(), want["value"], "value")
        expect(g.headers() or [], want.get("headers", []), "headers")


def case_timestamps():
    topic = create()
    produce(topic, [{"value": b"x", "timestamp": 1767323045678}])
    expect(consume(topic)[0].timestamp(), (1, 1767323045678), "create time")
    topic = create(message_timestamp_type="LogAppendTime")
    produce(topic, [{"value": b"x", "timestamp": 1767323045678}])
    kind, at = consume(topic)[0].timestamp()
    expect(kind, TIMESTAMP_LOG_APPEND_TIME, "kind of timestamp")
    if abs(at - time.time() * 1000) > 600_000:
        raise AssertionError(f"log append time is {at}")


def case_idempotent_producer():
    topic = create(partitions=4)
    sent = [{"value": str(i).encode()} for i in range(20000)]
    produce(topic, sent, **{"enable.idempotence": True, "batch.num.messages": 100})
    got = [int(m.value()) for p in range(4) for m in consume(topic, p)]
    expect(len(got), 20000, "records")
    expect(sorted(got), list(range(20000)), "records")


def case_acks():
    for acks in ["all", "1", "0"]:
        topic = create()
        produce(topic, [{"value": b"x"}] * 100, acks=acks)
        deadline = time.monotonic() + TIMEOUT
        while len(consume(topic)) < 100:  # with acks=0 nobody says when they have arrived
            if time.monotonic() > deadline:
                raise AssertionError(f"acks={acks}: {len(consume(topic))} records")


def case_offsets():
    topic = create()
    base = int(time.time() * 1000) - 3_600_000
    for i in range(10):
        produce(topic, [{"value": str(i).encode(), "timestamp": base + i * 1000}])
    c = consumer()
    expect(c.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT), (0, 10), "watermarks")
    for at, want in [(base - 1, 0), (base, 0), (base + 1, 1), (base + 9000, 9), (base + 9001, OFFSET_END)]:
        found = c.offsets_for_times([TopicPartition(topic, 0, at)], timeout=TIMEOUT)[0]
        expect(found.offset, want, f"offset for base+{at - base} ms")
    c.close()
    expect([m.value() for m in consume(topic, offset=7)], [b"7", b"8", b"9"], "from 7")
    expect(consume(topic, offset=OFFSET_END), [], "from the end")
    for spec, want in [(OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.max_timestamp(), 9)]:
        partition = TopicPartition(topic, 0)
        result = ADMIN.list_offsets({partition: spec})[partition].result(TIMEOUT)
        expect(result.offset, want, f"list_offsets {type(spec).__name__}")


def case_offset_out_of_range():
    topic = create()
    produce(topic, [{"value": b"x"}] * 3)
    # 1000 does not exist: the client is told so and starts where auto.offset.reset says.
    expect(len(consume(topic, offset=1000, **{"auto.offset.reset": "earliest"})), 3, "records after the reset")


def case_read_committed_without_transactions():
    topic = create()
    produce(topic, [{"value": b"x"}] * 3)
    expect(len(consume(topic, **{"isolation.level": "read_committed"})), 3, "records")


def case_topics():
    a, name = ADMIN, f"confluent-{uuid.uuid4().hex}"
    a.create_topics([NewTopic(name, 3)])[name].result(TIMEOUT)
    expect(kafka_error(a.create_topics([NewTopic(name, 1)])[name].result, TIMEOUT), "TOPIC_ALREADY_EXISTS", "created twice")
    listed = a.list_topics(timeout=TIMEOUT).topics
    expect(len(listed[name].partitions), 3, "partitions")
    a.create_partitions([NewPartitions(name, 5)])[name].result(TIMEOUT)
    expect(kafka_error(a.create_partitions([NewPartitions(name, 2)])[name].result, TIMEOUT), "INVALID_PARTITIONS", "fewer partitions")
    deadline = time.monotonic() + TIMEOUT
    while len(a.list_topics(name, timeout=TIMEOUT).topics[name].partitions) != 5:
        if time.monotonic() > deadline:
            raise AssertionError("the new partitions do not show")
    a.delete_topics([name])[name].result(TIMEOUT)
    while name in a.list_topics(timeout=TIMEOUT).topics:
        if time.monotonic() > deadline:
            raise AssertionError("the deleted topic still shows")
    expect(kafka_error(a.delete_topics([name])[name].result, TIMEOUT), "UNKNOWN_TOPIC_OR_PART", "deleted twice")


def case_topic_configs():
    resource = ConfigResource(ResourceType.TOPIC, create(retention_ms="4711"))
    config = ADMIN.describe_configs([resource])[resource].result(TIMEOUT)
    expect(config["retention.ms"].value, "4711", "retention.ms")
    expect(config["retention.ms"].is_default, False, "retention.ms is_default")
    expect(config["cleanup.policy"].value, "delete", "cleanup.policy")


def case_bad_topics():
    a = ADMIN
    for name, config, want in [("bad name", {}, "TOPIC_EXCEPTION"), ("ok", {"cleanup.policy": "bogus"}, "INVALID_CONFIG"),
                               ("ok", {"no.such": "x"}, "INVALID_CONFIG")]:
        future = a.create_topics([NewTopic(name, 1, config=config)])[name]
        expect(kafka_error(future.result, TIMEOUT), want, f"{name} {config}")


def case_describe_cluster():
    cluster = ADMIN.describe_cluster(request_timeout=TIMEOUT).result()
    if not cluster.cluster_id or not cluster.nodes or cluster.controller is None:
        raise AssertionError(f"id {cluster.cluster_id!r}, nodes {cluster.nodes}, controller {cluster.controller}")


def case_message_too_large():
    topic = create(max_message_bytes="1000")
    expect(kafka_error(produce, topic, [{"value": b"x" * 2000}]), "MSG_SIZE_TOO_LARGE", "2000 bytes")
    produce(topic, [{"value": b"x" * 900}])
    expect(len(consume(topic)), 1, "records")


def case_large_messages():
    topic = create(max_message_bytes="9000000")
    produce(topic, [{"value": bytes([i]) * 3_000_000} for i in range(5)], **{"message.max.bytes": 9_000_000})
    got = consume(topic, **{"fetch.message.max.bytes": 100_000})
    expect([(m.value()[0], len(m.value())) for m in got], [(i, 3_000_000) for i in range(5)], "records")


def case_auto_created_topic():
    topic = f"confluent-{uuid.uuid4().hex}"
    produce(topic, [{"value": b"x"}])
    expect(len(consume(topic)), 1, "records")


def case_unknown_partition():
    topic = create()
    expect(kafka_error(produce, topic, [{"value": b"x", "partition": 7}]), "_UNKNOWN_PARTITION", "partition 7")


def run(case):
    """Runs a case and returns its outcome."""
    try:
        case()
        return {}
    except Exception as e:  # a case may fail in any way; the next one is none the worse for it
        if isinstance(e, KafkaException) and e.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
            return {"skip": e.args[0].str()}  # a request that the broker does not offer
        return {"error": traceback.format_exc(limit=3)}


def main():
    failed = False
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            outcome = run(case)
            failed = failed or "error" in outcome
            print(json.dumps({"case": name.removeprefix("case_"), **outcome}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
