"""A release of kafka-python that older programs still use, against one broker: older.py HOST:PORT

Each case prints a line of JSON. What runs with every release of six years is plain: bytes, no codec, one partition.
"""

import json
import sys
import time
import traceback

try:
    import kafka
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
except ImportError as e:  # they carry libraries that Python 3.12 cannot import
    print(json.dumps({"case": "import", "skip": "it does not run on Python %d.%d: %s" % (sys.version_info[:2] + (e,))}))
    sys.exit()

BOOTSTRAP = sys.argv[1]
NAME = "older-%s-%d" % (kafka.__version__, time.time_ns())


def case_every_probe_finds_the_broker():
    # The client asks for versions on a fresh connection and takes a broker that is slow for none (NoBrokersAvailable).
    for _ in range(30):
        KafkaProducer(bootstrap_servers=BOOTSTRAP).close()


def case_records_with_headers():
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type="gzip")
    sent = [producer.send(NAME, partition=0, key=b"k%d" % i, value=b"v%d" % i, headers=[("h", b"%d" % i)]) for i in range(100)]
    offsets = [f.get(30).offset for f in sent]
    assert offsets == list(range(100)), offsets
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, consumer_timeout_ms=30000)
    consumer.assign([TopicPartition(NAME, 0)])
    consumer.seek(TopicPartition(NAME, 0), 0)
    got = [next(consumer) for _ in range(100)]
    consumer.close()
    assert [(m.key, m.value, m.headers) for m in got] == [(b"k%d" % i, b"v%d" % i, [("h", b"%d" % i)]) for i in range(100)], got


def case_group_commits_and_a_later_member_reads_on():
    for first, count in [(0, 60), (60, 40)]:
        consumer = KafkaConsumer(NAME, bootstrap_servers=BOOTSTRAP, group_id=NAME, auto_offset_reset="earliest",
                                 enable_auto_commit=False, max_poll_records=20, consumer_timeout_ms=30000)
        got = []
        while len(got) < count:
            polled = [m.offset for messages in consumer.poll(10000).values() for m in messages]
            assert polled, "nothing after %d records" % len(got)
            got += polled
        consumer.commit()
        consumer.close()
        assert got == list(range(first, first + count)), got


def main():
    failed = False
    for case in [case_every_probe_finds_the_broker, case_records_with_headers, case_group_commits_and_a_later_member_reads_on]:
        outcome = {}
        try:
            case()
        except Exception:
            outcome = {"error": traceback.format_exc(limit=-4)}
            failed = True
        print(json.dumps(dict(outcome, case=case.__name__[len("case_"):])), flush=True)
    sys.exit(1 if failed else 0)


main()
