"""aiokafka against one broker; checks.py tells the arguments."""

import asyncio
import contextlib
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, IncompatibleBrokerVersion

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "python"))
import checks
from checks import TIMEOUT, ErrorCode, Record


def raise_code(code):
    if code != 0:
        raise ErrorCode(code)


def record(message):
    return Record(message.value, message.key, list(message.headers), message.timestamp, message.partition, message.offset)


class Member:
    def __init__(self, consumer, run):
        self.consumer, self.run = consumer, run

    def poll(self):
        return [record(m) for messages in self.run(self.consumer.getmany(timeout_ms=200)).values() for m in messages]

    def commit(self, records):
        topic, = self.consumer.subscription()
        self.run(self.consumer.commit({TopicPartition(topic, r.partition): r.offset + 1 for r in records}))


class AIOKafka(checks.Client):
    unsupported = (IncompatibleBrokerVersion, NotImplementedError)
    deletes_groups = False

    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.loop = asyncio.new_event_loop()
        self.admin = AIOKafkaAdminClient(loop=self.loop, bootstrap_servers=bootstrap)
        self.run(self.admin.start())

    def run(self, coroutine):
        """The client's tasks proceed only in here: a member keeps its session by polling."""
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 2 * TIMEOUT))

    @contextlib.contextmanager
    def started(self, make, *args, **config):
        async def start():
            client = make(*args, bootstrap_servers=self.bootstrap, **config)
            await client.start()
            return client

        client = self.run(start())
        try:
            yield client
        finally:
            self.run(client.stop())

    def consumer(self, *topics, **config):
        return self.started(AIOKafkaConsumer, *topics, **{
            "group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest", **config})

    def create_topic(self, name, partitions, config):
        response = self.run(self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)]))
        raise_code(response.topic_errors[0][1])

    def delete_topic(self, name):
        raise_code(self.run(self.admin.delete_topics([name])).topic_error_codes[0][1])

    def topics(self):
        return {t["topic"]: len(t["partitions"]) for t in self.run(self.admin.describe_topics())}

    def produce(self, topic, records, codec="none", idempotent=False):
        async def send(producer):
            futures = [await producer.send(topic, r.value, r.key, r.partition, r.timestamp, r.headers) for r in records]
            return [(await f).offset for f in futures]

        with self.started(AIOKafkaProducer, acks="all", linger_ms=5, max_request_size=9_000_000, enable_idempotence=idempotent,
                          compression_type=None if codec == "none" else codec) as producer:
            try:
                return self.run(send(producer))
            except BrokerResponseError as e:
                raise ErrorCode(e.errno) from e

    def consume(self, topic, partition=0, offset=0, fetch_bytes=None):
        config = {"max_partition_fetch_bytes": fetch_bytes} if fetch_bytes else {}
        tp = TopicPartition(topic, partition)

        async def read(consumer):
            records = []
            consumer.assign([tp])
            end = (await consumer.end_offsets([tp]))[tp]
            consumer.seek(tp, offset)
            while await consumer.position(tp) != end:
                records += [record(m) for messages in (await consumer.getmany(timeout_ms=200)).values() for m in messages]
            return records

        with self.consumer(**config) as consumer:
            return self.run(read(consumer))

    def bounds(self, topic, partition=0):
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer:
            return self.run(consumer.beginning_offsets([tp]))[tp], self.run(consumer.end_offsets([tp]))[tp]

    def offset_for_time(self, topic, timestamp, partition=0):
        tp = TopicPartition(topic, partition)
        with self.consumer() as consumer:
            found = self.run(consumer.offsets_for_times({tp: timestamp}))[tp]
        return None if found is None else found.offset

    @contextlib.contextmanager
    def join(self, topic, group):
        with self.consumer(topic, group_id=group, session_timeout_ms=checks.SESSION_MS, heartbeat_interval_ms=500) as consumer:
            yield Member(consumer, self.run)

    def groups(self):
        return [name for name, _ in self.run(self.admin.list_consumer_groups())]

    def describe_group(self, group):
        described, = self.run(self.admin.describe_consumer_groups([group]))
        code, _, state, _, _, members, *_ = described.groups[0]
        raise_code(code)
        return state, len(members)

    def committed(self, group, topic, partition=0):
        found = self.run(self.admin.list_consumer_group_offsets(group)).get(TopicPartition(topic, partition))
        return None if found is None or found.offset < 0 else found.offset

    def describe(self, topic):
        response, = self.run(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        code, _, _, _, entries = response.resources[0]
        raise_code(code)
        return entries

    def topic_config(self, topic, name):
        for found, value, _, source, *_ in self.describe(topic):
            if found == name:
                return value, source == 5  # DEFAULT_CONFIG
        raise checks.Failure(f"{name} is not described")

    def alter_topic_config(self, topic, config):
        # The client knows the older request only, which replaces all that is set.
        kept = {name: value for name, value, _, source, *_ in self.describe(topic) if source == 1}  # DYNAMIC_TOPIC_CONFIG
        wanted = {name: value for name, value in {**kept, **config}.items() if value is not None}
        response = self.run(self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=wanted)]))[0]
        raise_code(response.resources[0][0])


CLIENT = AIOKafka

if __name__ == "__main__":
    checks.main(AIOKafka, others=["kafka-python"])
