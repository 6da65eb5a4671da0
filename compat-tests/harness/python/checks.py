"""What every Python client has to be seen to do, written once against a small interface.

A suite's suite.py has a class that fills in Client with what the client offers, and ends with checks.main(that class):

    suite.py HOST:PORT cases                     the cases, each with a line of JSON that tells its outcome
    suite.py HOST:PORT produce TOPIC CODEC       a record for each line of the standard input
    suite.py HOST:PORT consume TOPIC RECORDS     prints the values of the first records of partition 0
    suite.py HOST:PORT read TOPIC GROUP RECORDS  joins, reads so many records, commits, leaves; prints the values
    suite.py HOST:PORT member TOPIC GROUP        a member until it is killed: prints PARTITION OFFSET VALUE, then commits

A case is a method of Cases whose name begins with "case_". The class of a suite may add its own.
"""

import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
import uuid
from typing import NamedTuple

TIMEOUT = 30  # seconds until what does not answer counts as failed
SESSION_MS = 6000  # of a member of a group

# Error codes of the protocol.
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_CONFIG = 40
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


class Record(NamedTuple):
    """What is written and read. A timestamp is in milliseconds, None is the client's own."""

    value: bytes | None = None
    key: bytes | None = None
    headers: list = []
    timestamp: int | None = None
    partition: int = 0
    offset: int | None = None


class Failure(Exception):
    """A case that found something other than it wants."""


class ErrorCode(Exception):
    """An error that the broker answered with. Clients name them in many ways; the code is the protocol's."""

    def __init__(self, code):
        super().__init__(f"error code {code}")
        self.code = code


class Client:
    """What a client can do. Methods raise ErrorCode for an error of the broker's."""

    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    unsupported = ()  # what the client raises for a request that the broker does not offer
    deletes_groups = True

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def create_topic(self, name, partitions, config):
        raise NotImplementedError

    def delete_topic(self, name):
        raise NotImplementedError

    def topics(self):
        """Name → number of partitions."""
        raise NotImplementedError

    def produce(self, topic, records, codec="none", idempotent=False):
        """Sends records and returns their offsets, in their order, when all are acknowledged by all replicas."""
        raise NotImplementedError

    def consume(self, topic, partition=0, offset=0, fetch_bytes=None):
        """The records of a partition from an offset to its end, without a group. An offset that does not exist is
        replaced by the earliest. fetch_bytes limits what is asked of a partition."""
        raise NotImplementedError

    def bounds(self, topic, partition=0):
        """The first offset and the next one."""
        raise NotImplementedError

    def offset_for_time(self, topic, timestamp, partition=0):
        """The offset of the first record at or after a time; None where there is none."""
        raise NotImplementedError

    def join(self, topic, group):
        """A context in which the client is a member of a group: its value has poll(), which returns a list of records,
        perhaps none, and commit(records), which commits up to and including them."""
        raise NotImplementedError

    def groups(self):
        """The names of all groups."""
        raise NotImplementedError

    def describe_group(self, group):
        """(state, number of members)"""
        raise NotImplementedError

    def delete_group(self, group):
        raise NotImplementedError

    def committed(self, group, topic, partition=0):
        """The committed offset; None where there is none."""
        raise NotImplementedError

    def topic_config(self, topic, name):
        """(value, whether it is the default)"""
        raise NotImplementedError

    def alter_topic_config(self, topic, config):
        """Sets name → value; values of None go back to the default."""
        raise NotImplementedError


def expect(got, want, what):
    if got != want:
        raise Failure(f"{what}: {_short(got)}, want {_short(want)}")


def _short(value):
    text = repr(value)
    return text if len(text) <= 500 else text[:500] + "..."


def await_value(get, want, what):
    """Waits until get returns what is wanted."""
    deadline = time.monotonic() + TIMEOUT
    while (got := get()) != want:
        if time.monotonic() > deadline:
            raise Failure(f"{what}: {_short(got)} after {TIMEOUT} s, want {_short(want)}")
        time.sleep(0.05)


def error_code(call, *args, **kwargs):
    """The code that a call ends with, 0 if it succeeds."""
    try:
        call(*args, **kwargs)
    except ErrorCode as e:
        return e.code
    return 0


def read_records(member, count):
    """Polls a member of a group until it has so many records."""
    records, deadline = [], time.monotonic() + TIMEOUT
    while len(records) < count:
        if time.monotonic() > deadline:
            raise Failure(f"{len(records)} records after {TIMEOUT} s, want {count}")
        records += member.poll()
    return records[:count]


class Cases:
    """The cases that every client has in common. others are clients of the same broker, by name."""

    def __init__(self, client, others):
        self.client = client
        self.others = others

    def topic(self, partitions=1, **config):
        """Creates a topic; the underscores of settings are dots."""
        name = f"python-{uuid.uuid4().hex}"
        self.client.create_topic(name, partitions, {k.replace("_", "."): str(v) for k, v in config.items()})
        return name

    def cases(self):
        """Pairs of a name and a function."""
        for name, method in inspect.getmembers(self, inspect.ismethod):
            if name.startswith("case_"):
                yield name.removeprefix("case_"), method
        for codec in self.client.codecs:
            yield f"codec_{codec}", lambda codec=codec: self.check_codec(codec)
            for name, other in self.others.items():
                if codec in other.codecs:
                    yield f"cross_read_{codec}_with_{name}", lambda o=other, codec=codec: self.check_cross_read(o, codec)

    def check_codec(self, codec):
        topic = self.topic()
        sent = [Record(f"{codec} {i} ".encode() * (i % 50), key=f"k{i}".encode()) for i in range(2000)]
        sent.append(Record(b"several blocks of a codec's frame " * 6000, key=b"long"))
        expect(self.client.produce(topic, sent, codec), list(range(len(sent))), "offsets")
        got = self.client.consume(topic)
        expect([(r.key, r.value) for r in got], [(r.key, r.value) for r in sent], "records")

    def check_cross_read(self, other, codec):
        for writer, reader in [(self.client, other), (other, self.client)]:
            topic = self.topic()
            sent = [Record(f"value {i} ".encode() * i, f"key {i}".encode(), [("h", b"%d" % i)]) for i in range(100)]
            writer.produce(topic, sent, codec)
            got = [Record(r.value, r.key, r.headers) for r in reader.consume(topic)]
            expect(got, sent, f"what {type(reader).__name__} reads of {type(writer).__name__}")

    def case_create_list_and_delete_topics(self):
        name = self.topic(3)
        await_value(lambda: self.client.topics().get(name), 3, "partitions")
        expect(error_code(self.client.create_topic, name, 1, {}), TOPIC_ALREADY_EXISTS, "created twice")
        expect(error_code(self.client.create_topic, "bad name", 1, {}), INVALID_TOPIC, "a bad name")
        self.client.delete_topic(name)
        await_value(lambda: self.client.topics().get(name), None, "partitions of the deleted topic")
        expect(error_code(self.client.delete_topic, name), UNKNOWN_TOPIC_OR_PARTITION, "deleted twice")

    def case_null_and_empty_keys_and_values(self):
        topic = self.topic()
        sent = [Record(None, b"k"), Record(b"v", None), Record(b"", b""), Record(bytes(range(256)), bytes(range(255, -1, -1)))]
        self.client.produce(topic, sent)
        expect([(r.key, r.value) for r in self.client.consume(topic)], [(r.key, r.value) for r in sent], "records")

    def case_headers(self):
        topic = self.topic()
        sent = [[], [("a", b"1"), ("a", b"2"), ("empty", b"")], [("ü", "ü".encode())], [("long", b"x" * 5000)]]
        self.client.produce(topic, [Record(b"v", headers=h) for h in sent])
        expect([r.headers for r in self.client.consume(topic)], sent, "headers")

    def case_timestamps(self):
        topic = self.topic()
        self.client.produce(topic, [Record(b"x", timestamp=1767323045678)])
        expect(self.client.consume(topic)[0].timestamp, 1767323045678, "create time")
        topic = self.topic(message_timestamp_type="LogAppendTime")
        self.client.produce(topic, [Record(b"x", timestamp=1767323045678)])
        at = self.client.consume(topic)[0].timestamp
        if abs(at - time.time() * 1000) > 600_000:
            raise Failure(f"log append time is {at}")

    def case_message_at_and_above_the_limit(self):
        # A batch of one record without key and headers is 61 bytes, and the record: two for its length, two for the
        # value's, one each for attributes, timestamp delta, offset delta, the key's length and the number of headers.
        value = b"x" * 2000
        topic = self.topic(max_message_bytes=61 + 9 + len(value))
        expect(self.client.produce(topic, [Record(value)]), [0], "offset at the limit")
        expect(error_code(self.client.produce, topic, [Record(value + b"x")]), MESSAGE_TOO_LARGE, "a byte above the limit")
        expect([r.value for r in self.client.consume(topic)], [value], "records")

    def case_large_messages_beyond_what_a_fetch_asks_for(self):
        topic = self.topic(max_message_bytes=9_000_000)
        for i in range(3):
            self.client.produce(topic, [Record(bytes([i]) * 3_000_000)])
        got = self.client.consume(topic, fetch_bytes=100_000)
        expect([(r.value[0], len(r.value)) for r in got], [(i, 3_000_000) for i in range(3)], "records")

    def case_idempotent_producer(self):
        topic = self.topic(4)
        sent = [Record(b"%d" % i, partition=i % 4) for i in range(5000)]
        self.client.produce(topic, sent, idempotent=True)
        for partition in range(4):
            got = [int(r.value) for r in self.client.consume(topic, partition)]
            expect(got, list(range(partition, 5000, 4)), f"records of partition {partition}")

    def case_offsets_and_times(self):
        topic = self.topic()
        base = int(time.time() * 1000) - 3_600_000
        for i in range(10):
            self.client.produce(topic, [Record(b"%d" % i, timestamp=base + i * 1000)])
        expect(self.client.bounds(topic), (0, 10), "bounds")
        for at, want in [(base - 1, 0), (base, 0), (base + 1, 1), (base + 9000, 9), (base + 9001, None)]:
            expect(self.client.offset_for_time(topic, at), want, f"offset for base+{at - base} ms")
        expect([r.value for r in self.client.consume(topic, offset=7)], [b"7", b"8", b"9"], "records from 7")
        expect(self.client.consume(topic, offset=10), [], "records from the end")
        expect(len(self.client.consume(topic, offset=1000)), 10, "records from an offset that does not exist")

    def case_group_commits_and_a_later_member_reads_on(self):
        topic, group = self.topic(), f"group-{uuid.uuid4().hex}"
        self.client.produce(topic, [Record(b"%d" % i) for i in range(100)])
        with self.client.join(topic, group) as member:
            records = read_records(member, 60)
            expect([int(r.value) for r in records], list(range(60)), "records")
            member.commit(records)
        expect(self.client.committed(group, topic), 60, "committed offset")
        with self.client.join(topic, group) as member:
            expect([int(r.value) for r in read_records(member, 40)], list(range(60, 100)), "records of the later member")
        expect(self.client.committed(group, topic), 60, "committed offset after a member that commits nothing")

    def case_groups_are_listed_described_and_deleted(self):
        topic, group = self.topic(), f"group-{uuid.uuid4().hex}"
        self.client.produce(topic, [Record(b"x")])
        with self.client.join(topic, group) as member:
            member.commit(read_records(member, 1))
            expect(group in self.client.groups(), True, "listed")
            expect(self.client.describe_group(group), ("Stable", 1), "described")
            if self.client.deletes_groups:
                expect(error_code(self.client.delete_group, group), NON_EMPTY_GROUP, "deleted while it has a member")
        await_value(lambda: self.client.describe_group(group), ("Empty", 0), "described after the member has left")
        if self.client.deletes_groups:
            self.client.delete_group(group)
            expect(group in self.client.groups(), False, "listed after it was deleted")
            expect(error_code(self.client.delete_group, group), GROUP_ID_NOT_FOUND, "deleted twice")

    def case_configs_are_described_and_altered(self):
        topic = self.topic(retention_ms=4711)
        expect(self.client.topic_config(topic, "retention.ms"), ("4711", False), "as created")
        expect(self.client.topic_config(topic, "cleanup.policy"), ("delete", True), "a default")
        self.client.alter_topic_config(topic, {"retention.ms": "4712", "max.message.bytes": "1000"})
        await_value(lambda: self.client.topic_config(topic, "retention.ms"), ("4712", False), "retention.ms as altered")
        await_value(lambda: error_code(self.client.produce, topic, [Record(b"x" * 2000)]), MESSAGE_TOO_LARGE,
                    "a message above the altered limit")
        expect(error_code(self.client.alter_topic_config, topic, {"retention.ms": "soon"}), INVALID_CONFIG, "a bad value")
        self.client.alter_topic_config(topic, {"max.message.bytes": None})
        await_value(lambda: self.client.topic_config(topic, "max.message.bytes")[1], True, "max.message.bytes is its default")
        expect(self.client.produce(topic, [Record(b"x" * 2000)]), [0], "offset after the limit was altered back")


def _run(case, unsupported):
    try:
        case()
        return {}
    except unsupported as e:
        return {"skip": f"the broker does not offer it: {e}"}
    except Failure as e:
        return {"error": str(e)}
    except Exception:  # a case may fail in any way; the next one is none the worse for it
        return {"error": traceback.format_exc(limit=-6)}


def run_cases(cases):
    failed = False
    for name, case in cases.cases():
        outcome = _run(case, cases.client.unsupported)
        failed = failed or "error" in outcome
        print(json.dumps({"case": name, **outcome}), flush=True)
    return 1 if failed else 0


def _produce(client, topic, codec):
    client.produce(topic, [Record(line.rstrip("\n").encode()) for line in sys.stdin], codec)


def _consume(client, topic, count):
    for r in client.consume(topic)[:int(count)]:
        print(r.value.decode())


def _read(client, topic, group, count):
    with client.join(topic, group) as member:
        records = read_records(member, int(count))
        member.commit(records)
    for r in records:
        print(r.value.decode())


def _member(client, topic, group):
    with client.join(topic, group) as member:
        while True:
            records = member.poll()
            for r in records:
                print(r.partition, r.offset, r.value.decode(), flush=True)
            if records:
                member.commit(records)


def load(suite):
    """The class of another suite's client, by its folder."""
    file = os.path.join(os.path.dirname(__file__), "..", "..", suite, "suite.py")
    spec = importlib.util.spec_from_file_location(suite.replace("-", "_"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CLIENT


def main(client_class, cases_class=Cases, others=()):
    """Runs what the command line asks for. others are the folders of suites whose clients read what this one wrote."""
    bootstrap, verb, *args = sys.argv[1:]
    client = client_class(bootstrap)
    if verb == "cases":
        sys.exit(run_cases(cases_class(client, {name: load(name)(bootstrap) for name in others})))
    {"produce": _produce, "consume": _consume, "read": _read, "member": _member}[verb](client, *args)

