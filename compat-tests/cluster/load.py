"""Writes numbered records to every partition of a topic until stdin ends, and prints what the cluster acknowledges.

load.py BOOTSTRAP TOPIC PARTITIONS NAME PADDING: a line "PARTITION OFFSET NUMBER" for each acknowledgement, any other line
is an error. librdkafka is at its defaults, but idempotent.
"""

import select
import sys
import time

from confluent_kafka import Producer

bootstrap, topic, partitions, name, padding = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], "." * int(sys.argv[5])
INTERVAL = 0.001  # seconds between two records of a partition
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "queue.buffering.max.messages": 100000})


def delivered(number):
    def report(err, msg):
        if err is not None:
            print(f"record {number} of partition {msg.partition()}: {err}")
        else:
            print(msg.partition(), msg.offset(), number)

    return report


number = 0
due = time.monotonic()
while not select.select([sys.stdin], [], [], 0)[0]:
    for partition in range(partitions):
        while True:
            try:
                producer.produce(topic, f"{name} {number} {padding}", partition=partition, on_delivery=delivered(number))
                break
            except BufferError:  # the cluster is away; its acknowledgements make room
                producer.poll(0.05)
    number += 1
    producer.poll(0)
    due = max(due + INTERVAL, time.monotonic() - 1)
    time.sleep(max(0, due - time.monotonic()))
if producer.flush(60) > 0:
    print("records are left that were not acknowledged within a minute")
sys.stdout.flush()
