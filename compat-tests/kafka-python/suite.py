"""kafka-python against one broker; checks.py tells the arguments."""

import contextlib
import os
import sys
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "python"))
import checks
from checks import TIMEOUT, ErrorCode, Record


@contextlib.contextmanager
def codes():
    """Turns the client's errors into codes of the protocol."""
    try:
        yield
    except BrokerResponseError as e:
        if isinstance(e, IncompatibleBrokerVersion):
            raise
        raise ErrorCode(e.errno) from e


def record(message):
    return Record(message.value, message.key, list(message.headers), message.timestamp, message.partition, message.offset)


class Member:
    def __init__(self, consumer):
        self.consumer = consumer

    def poll(self):
        # A poll whose time is up between the client's SyncGroup and its answer loses the assignment: the client takes
        # itself for a member and reads nothing. Time that is long beside a rebalance keeps the case out of that.
        return [record(m) for messages in self.consumer.poll(timeout_ms=10_000).values() for m in messages]

    def commit(self, records):
        topic, = self.consumer.subscription()
        self.consumer.commit({TopicPartition(topic, r.partition): OffsetAndMetadata(r.offset + 1, "", -1) for r in records})


class KafkaPython(checks.Client):
    unsupported = IncompatibleBrokerVersion

    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def consumer(self, *topics, **config):
        return contextlib.closing(KafkaConsumer(*topics, bootstrap_servers=self.bootstrap, **{
            "group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest", **config}))

    def create_topic(self, name, partitions, config):
        with codes():
            self.admin.create_topics([NewTopic(name, partitions, -1, topic_configs=config)])

    def delete_topic(self, name):
        with codes():
            self.admin.delete_topics([name])

    def topics(self):
        return {t["name"]: len(t["partitions"]) for t in self.admin.describe_topics()}

    def produce(self, topic, records, codec="none", idempotent=False):
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5, max_request_size=9_000_000,
                                 compression_type=None if codec == "none" else codec, enable_idempotence=idempotent)
        with contextlib.closing(producer), codes():
            futures = [producer.send(topic, r.value, r.key, r.headers, r.partition, r.timestamp) for r in records]
            return [f.get(TIMEOUT).offset for f in futures]

    def consume(self, topic, partition=0, offset=0, fetch_bytes=None):
        config = {"max_partition_fetch_bytes": fetch_bytes} if fetch_bytes else {}
        tp, records, deadline = TopicPartition(topic, partition), [], time.monotonic() + TIMEOUT
        with self.consumer(**config) as consumer:
            consumer.assign([tp])
            end = consumer.end_offsets([tp])[tp]
            consumer.seek(tp, offset)
            while consumer.position(tp) != end:
                if time.monotonic() > deadline:
                    raise checks.Failure(f"no end of the partition after {TIMEOUT} s, {len(records)} records")
                records += [record(m) for messages in consumer.poll(timeout_ms=200).values() for m in messages]
        return records

    def bounds(self, topic, partition=0):
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer:
            return consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]

    def offset_for_time(self, topic, timestamp, partition=0):
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer:
            found = consumer.offsets_for_times({tp: timestamp})[tp]
        return None if found is None else found.offset

    @contextlib.contextmanager
    def join(self, topic, group):
        # The topic is named when the consumer is made: a subscription that is made while the client's first look at the
        # cluster is under way is forgotten until the next one, five minutes later (see kafka-python-suite).
        with self.consumer(topic, group_id=group, session_timeout_ms=checks.SESSION_MS, heartbeat_interval_ms=500) as consumer:
            yield Member(consumer)

    def groups(self):
        return [g["group_id"] for g in self.admin.list_groups()]

    def describe_group(self, group):
        described = self.admin.describe_groups([group])[group]
        return described["group_state"], len(described["members"])

    def delete_group(self, group):
        result = self.admin.delete_groups([group])[group]
        if result != "OK":
            raise ErrorCode(getattr(kafka.errors, result).errno)

    def committed(self, group, topic, partition=0):
        found = self.admin.list_group_offsets(group)[group].get(TopicPartition(topic, partition))
        return None if found is None or found.offset < 0 else found.offset

    def topic_config(self, topic, name):
        described = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        config = described["topic"][topic][name]
        return config["value"], config["config_source"] == "DEFAULT_CONFIG"

    def alter_topic_config(self, topic, config):
        # reset_configs and alter_configs with incremental=False are what the client offers to older brokers.
        for name, value in config.items():
            self.alter([(name, ("DELETE", None) if value is None else value)], topic)

    def alter(self, config, topic, **how):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(config))
        result = self.admin.alter_configs([resource], **how)["topic"][topic]
        if result != "OK":
            raise ErrorCode(int(result.removeprefix("[Error ").partition("]")[0]))


class Cases(checks.Cases):
    def case_configs_are_altered_as_a_whole_by_an_older_request(self):
        topic = self.topic(retention_ms=4711)
        self.client.alter([("max.message.bytes", "1000")], topic, incremental=False)
        checks.await_value(lambda: self.client.topic_config(topic, "max.message.bytes"), ("1000", False), "as altered")
        checks.expect(self.client.topic_config(topic, "retention.ms"), ("4711", False), "what the client sent again")


CLIENT = KafkaPython

if __name__ == "__main__":
    checks.main(KafkaPython, Cases, others=["confluent-kafka"])
