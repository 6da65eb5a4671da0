"""confluent-kafka (librdkafka) against one broker; checks.py tells the arguments."""

import contextlib
import os
import sys
import time

from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, Consumer, ConsumerGroupTopicPartitions,
                             KafkaError, KafkaException, Producer, TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   OffsetSpec, ResourceType)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "python"))
import checks
from checks import TIMEOUT, ErrorCode, Record, await_value, error_code, expect


class Unsupported(Exception):
    """A request that the broker does not offer."""


def raise_error(error):
    """Turns the client's error into a code of the protocol; those of the client itself are below 0."""
    if error.code() == KafkaError._UNSUPPORTED_FEATURE:
        raise Unsupported(error.str())
    if error.code() < 0:
        raise KafkaException(error)
    raise ErrorCode(error.code())


@contextlib.contextmanager
def codes():
    try:
        yield
    except KafkaException as e:
        raise_error(e.args[0])


def record(message):
    return Record(message.value(), message.key(), message.headers() or [], message.timestamp()[1], message.partition(),
                  message.offset())


class Member:
    def __init__(self, consumer):
        self.consumer = consumer

    def poll(self):
        message = self.consumer.poll(0.2)
        if message is None:
            return []
        if message.error() is not None:
            raise_error(message.error())
        return [record(message)]

    def commit(self, records):
        topic = self.consumer.assignment()[0].topic
        with codes():
            self.consumer.commit(offsets=[TopicPartition(topic, r.partition, r.offset + 1) for r in records], asynchronous=False)


class ConfluentKafka(checks.Client):
    unsupported = Unsupported

    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    @contextlib.contextmanager
    def consumer(self, **config):
        c = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False,
                      "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50, **config})
        try:
            yield c
        finally:
            c.close()

    def result(self, futures, key):
        with codes():
            return futures[key].result(TIMEOUT)

    def create_topic(self, name, partitions, config):
        self.result(self.admin.create_topics([NewTopic(name, partitions, config=config)]), name)

    def delete_topic(self, name):
        self.result(self.admin.delete_topics([name]), name)

    def topics(self):
        return {name: len(topic.partitions) for name, topic in self.admin.list_topics(timeout=TIMEOUT).topics.items()}

    def produce(self, topic, records, codec="none", idempotent=False, **config):
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "message.max.bytes": 9_000_000,
                             "compression.type": codec, "enable.idempotence": idempotent, **config})
        offsets, errors = [None] * len(records), []

        def delivered(i, err, message):
            if err is not None:
                errors.append(err)
            else:
                offsets[i] = message.offset()

        for i, r in enumerate(records):
            optional = {} if r.timestamp is None else {"timestamp": r.timestamp}
            while True:
                try:
                    producer.produce(topic, r.value, r.key, r.partition, headers=r.headers,
                                     on_delivery=lambda err, message, i=i: delivered(i, err, message), **optional)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(TIMEOUT)
        if errors:
            raise_error(errors[0])
        expect(left, 0, "records that were never acknowledged")
        return offsets

    def consume(self, topic, partition=0, offset=OFFSET_BEGINNING, fetch_bytes=None, **config):
        if fetch_bytes:
            config["fetch.message.max.bytes"] = fetch_bytes
        records, deadline = [], time.monotonic() + TIMEOUT
        with self.consumer(**{"enable.partition.eof": True, **config}) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is None:
                    records.append(record(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return records
                else:
                    raise_error(message.error())
        raise checks.Failure(f"no end of the partition after {TIMEOUT} s, {len(records)} records")

    def bounds(self, topic, partition=0):
        with self.consumer() as consumer:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT)

    def offset_for_time(self, topic, timestamp, partition=0):
        with self.consumer() as consumer:
            found = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=TIMEOUT)[0].offset
        return None if found == OFFSET_END else found

    @contextlib.contextmanager
    def join(self, topic, group):
        config = {"group.id": group, "session.timeout.ms": checks.SESSION_MS, "heartbeat.interval.ms": 500}
        with self.consumer(**config) as consumer:
            consumer.subscribe([topic])
            yield Member(consumer)

    def groups(self):
        listed = self.admin.list_consumer_groups(request_timeout=TIMEOUT).result()
        if listed.errors:
            raise listed.errors[0]
        return [g.group_id for g in listed.valid]

    def describe_group(self, group):
        described = self.result(self.admin.describe_consumer_groups([group], request_timeout=TIMEOUT), group)
        return described.state.name.title(), len(described.members)

    def delete_group(self, group):
        self.result(self.admin.delete_consumer_groups([group], request_timeout=TIMEOUT), group)

    def committed(self, group, topic, partition=0):
        of = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        found = self.result(self.admin.list_consumer_group_offsets([of]), group).topic_partitions[0].offset
        return None if found < 0 else found

    def topic_config(self, topic, name):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entry = self.result(self.admin.describe_configs([resource]), resource)[name]
        return entry.value, entry.is_default

    def alter_topic_config(self, topic, config):
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET)
            for name, value in config.items()])
        self.result(self.admin.incremental_alter_configs([resource]), resource)


class Cases(checks.Cases):
    def case_null_header_values(self):
        topic, headers = self.topic(), [("none", None), ("empty", b"")]
        self.client.produce(topic, [Record(b"v", headers=headers)])
        expect(self.client.consume(topic)[0].headers, headers, "headers")

    def case_kind_of_timestamp(self):
        topic = self.topic(message_timestamp_type="LogAppendTime")
        self.client.produce(topic, [Record(b"x")])
        with self.client.consumer() as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            expect(consumer.poll(TIMEOUT).timestamp()[0], TIMESTAMP_LOG_APPEND_TIME, "kind of timestamp")

    def case_acks(self):
        for acks in ["all", "1", "0"]:
            topic = self.topic()
            self.client.produce(topic, [Record(b"x")] * 100, acks=acks)
            # With acks=0 nobody says when they have arrived.
            await_value(lambda topic=topic: len(self.client.consume(topic)), 100, f"records with acks={acks}")

    def case_offsets_by_list_offsets(self):
        topic = self.topic()
        self.client.produce(topic, [Record(b"x", timestamp=1767323045678 + i % 7) for i in range(10)])
        for spec, want in [(OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.max_timestamp(), 6)]:
            partition = TopicPartition(topic, 0)
            found = self.client.result(self.client.admin.list_offsets({partition: spec}), partition).offset
            expect(found, want, type(spec).__name__)

    def case_read_committed_without_transactions(self):
        topic = self.topic()
        self.client.produce(topic, [Record(b"x")] * 3)
        expect(len(self.client.consume(topic, **{"isolation.level": "read_committed"})), 3, "records")

    def case_partitions_are_added(self):
        topic = self.topic(3)
        admin = self.client.admin
        self.client.result(admin.create_partitions([NewPartitions(topic, 5)]), topic)
        fewer = admin.create_partitions([NewPartitions(topic, 2)])
        expect(error_code(self.client.result, fewer, topic), KafkaError.INVALID_PARTITIONS, "fewer partitions")
        await_value(lambda: self.client.topics().get(topic), 5, "partitions")

    def case_bad_configs(self):
        for config in [{"cleanup.policy": "bogus"}, {"no.such": "x"}]:
            expect(error_code(self.client.create_topic, "ok", 1, config), checks.INVALID_CONFIG, config)

    def case_describe_cluster(self):
        cluster = self.client.admin.describe_cluster(request_timeout=TIMEOUT).result()
        if not cluster.cluster_id or not cluster.nodes or cluster.controller is None:
            raise checks.Failure(f"id {cluster.cluster_id!r}, nodes {cluster.nodes}, controller {cluster.controller}")

    def case_auto_created_topic(self):
        topic = f"auto-{time.time_ns()}"
        self.client.produce(topic, [Record(b"x")])
        expect(len(self.client.consume(topic)), 1, "records")

    def case_unknown_partition(self):
        try:
            self.client.produce(self.topic(), [Record(b"x", partition=7)])
        except KafkaException as e:
            expect(e.args[0].name(), "_UNKNOWN_PARTITION", "partition 7")
        else:
            raise checks.Failure("a record for partition 7 was written")

    def case_configs_are_altered_as_a_whole_by_an_older_request(self):
        topic = self.topic(retention_ms=4711)
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "1000"})
        self.client.result(self.client.admin.alter_configs([resource]), resource)
        await_value(lambda: self.client.topic_config(topic, "max.message.bytes"), ("1000", False), "as altered")
        expect(self.client.topic_config(topic, "retention.ms")[1], True, "what was not named is its default")

    def case_committed_offsets_are_altered(self):
        topic, group = self.topic(), f"group-{time.time_ns()}"
        self.client.produce(topic, [Record(b"x")] * 10)
        with self.client.join(topic, group) as member:
            member.commit(checks.read_records(member, 10))
        await_value(lambda: self.client.describe_group(group), ("Empty", 0), "the group")
        to = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
        self.client.result(self.client.admin.alter_consumer_group_offsets([to]), group)
        expect(self.client.committed(group, topic), 3, "committed offset")
        with self.client.join(topic, group) as member:
            expect(checks.read_records(member, 1)[0].offset, 3, "offset of the next record")


CLIENT = ConfluentKafka

if __name__ == "__main__":
    checks.main(ConfluentKafka, Cases)
