// kafkajs against a broker. Without a verb every case runs and prints a line of JSON; the verbs are what the Go side asks
// one at a time.
//
//   suite.js BOOTSTRAP
//   suite.js BOOTSTRAP produce TOPIC CODEC        the values, a line each on standard input
//   suite.js BOOTSTRAP consume TOPIC COUNT        prints the values
//   suite.js BOOTSTRAP read TOPIC GROUP COUNT     as a member of a group: reads, commits, leaves and prints the values
//   suite.js BOOTSTRAP member TOPIC GROUP         as a member of a group: prints `PARTITION OFFSET VALUE` until it is killed

'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const fs = require('node:fs')
const { Kafka, CompressionCodecs, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const [bootstrap, verb, ...args] = process.argv.slice(2)
const timeout = 30_000

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// kafkajs brings gzip and leaves the others to packages.
function registerCodecs(zstd) {
  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  })
  const simple = new zstd.Simple()
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(simple.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(simple.decompress(buffer)),
  })
}

const kafka = new Kafka({
  clientId: 'kafkajs-suite',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 8 },
})

const newName = (what) => `kafkajs-${what}-${randomUUID()}`
const created = [] // topics, to be deleted at the end: the broker may be the user's

async function withAdmin(use) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

async function createTopic(partitions = 1, config = {}) {
  const topic = newName('topic')
  created.push(topic)
  const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
  await withAdmin((admin) => admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: partitions, configEntries }] }))
  return topic
}

async function produce(topic, messages, { codec = 'none', ...options } = {}) {
  const producer = kafka.producer(options)
  await producer.connect()
  try {
    return await producer.send({ topic, messages, compression: codecs[codec] })
  } finally {
    await producer.disconnect()
  }
}

const consumerOptions = (groupId) => ({
  groupId,
  sessionTimeout: 6000,
  heartbeatInterval: 300,
  rebalanceTimeout: 10_000,
  maxWaitTimeInMs: 100, // disconnecting waits for a fetch that is under way
})

// consume reads so many records from the beginning, or from what the group has committed, commits them and leaves.
async function consume(topic, count, group = newName('group')) {
  const consumer = kafka.consumer(consumerOptions(group))
  const messages = []
  await consumer.connect()
  let timer
  try {
    await consumer.subscribe({ topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`${messages.length} of ${count} records after ${timeout} ms`)), timeout)
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ partition, message }) => {
            if (messages.length === count) return
            messages.push({ partition, ...message })
            if (messages.length < count) return
            const next = new Map(messages.map((m) => [m.partition, `${BigInt(m.offset) + 1n}`]))
            await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset })))
            resolve()
          },
        })
        .catch(reject)
    })
  } finally {
    clearTimeout(timer)
    await consumer.disconnect()
  }
  return messages
}

const text = (buffer) => (buffer === null ? null : buffer.toString())

// errorType runs what has to fail, and returns the name that kafkajs gives the broker's error.
async function errorType(call) {
  try {
    await call()
  } catch (e) {
    const inner = e.errors?.[0] ?? e.cause ?? e
    return inner.type ?? e.type ?? `${inner}`
  }
  return 'no error'
}

async function eventually(what, ok) {
  for (const deadline = Date.now() + timeout; Date.now() < deadline; ) {
    if (await ok()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`not within ${timeout} ms: ${what}`)
}

const cases = {
  async create_topic() {
    await withAdmin(async (admin) => {
      const topic = newName('topic')
      assert.equal(await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 3 }] }), true)
      assert.equal(await admin.createTopics({ topics: [{ topic }] }), false, 'created twice')
      assert.ok((await admin.listTopics()).includes(topic), 'listed')
      await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
      await eventually('five partitions', async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 5)
      const fewer = () => admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] })
      assert.equal(await errorType(fewer), 'INVALID_PARTITIONS', 'fewer partitions')
      await admin.deleteTopics({ topics: [topic] })
      await eventually('deleted', async () => !(await admin.listTopics()).includes(topic))
      assert.equal(await errorType(() => admin.createTopics({ topics: [{ topic: 'bad name' }] })), 'INVALID_TOPIC_EXCEPTION')
    })
  },

  async auto_created_topic() {
    const topic = newName('topic')
    created.push(topic)
    await produce(topic, [{ value: 'hello' }], { allowAutoTopicCreation: true })
    assert.equal(text((await consume(topic, 1))[0].value), 'hello')
  },

  async headers() {
    const topic = await createTopic()
    await produce(topic, [{ value: 'x', headers: { a: 'one', many: ['1', '2'], empty: '', bytes: Buffer.from([0, 255]) } }])
    const [{ headers }] = await consume(topic, 1)
    assert.equal(text(headers.a), 'one')
    assert.deepEqual(headers.many.map(text), ['1', '2'])
    assert.equal(text(headers.empty), '')
    assert.deepEqual([...headers.bytes], [0, 255])
  },

  async null_keys_and_values() {
    const topic = await createTopic()
    const sent = [
      { key: 'k', value: null },
      { key: null, value: 'v' },
      { key: '', value: '' },
    ]
    await produce(topic, sent)
    const got = (await consume(topic, 3)).map((m) => ({ key: text(m.key), value: text(m.value) }))
    assert.deepEqual(got, sent)
  },

  async timestamps() {
    const topic = await createTopic()
    await produce(topic, [{ value: 'x', timestamp: '1767323045678' }])
    assert.equal((await consume(topic, 1))[0].timestamp, '1767323045678')
  },

  // A batch of one record has 72 bytes around a value of this size.
  async message_at_and_above_the_limit() {
    const [limit, around] = [10_000, 72]
    const topic = await createTopic(1, { 'max.message.bytes': `${limit}` })
    const send = (size) => produce(topic, [{ key: null, value: 'x'.repeat(size) }], { retry: { retries: 0 } })
    await send(limit - around)
    assert.equal(await errorType(() => send(limit - around + 1)), 'MESSAGE_TOO_LARGE')
    const [{ value }] = await consume(topic, 1)
    assert.equal(value.length, limit - around)
  },

  async acks() {
    for (const acks of [-1, 1, 0]) {
      const topic = await createTopic()
      const producer = kafka.producer()
      await producer.connect()
      await producer.send({ topic, acks, messages: [{ value: 'x' }, { value: 'y' }] })
      assert.equal((await consume(topic, 2)).length, 2, `acks=${acks}`) // while it is connected: without acks nobody waits
      await producer.disconnect()
    }
  },

  async idempotent_producer() {
    const topic = await createTopic(3)
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const sent = []
    for (let round = 0; round < 20; round++) {
      const messages = Array.from({ length: 50 }, (_, i) => ({ key: `k${i}`, value: `${round}-${i}` }))
      sent.push(...messages.map((m) => m.value))
      await producer.send({ topic, messages })
    }
    await producer.disconnect()
    const got = (await consume(topic, sent.length)).map((m) => text(m.value))
    assert.deepEqual(got.sort(), sent.sort())
  },

  async offsets() {
    await withAdmin(async (admin) => {
      const topic = await createTopic()
      const base = Date.now() - 3_600_000
      for (let i = 0; i < 5; i++) await produce(topic, [{ value: `${i}`, timestamp: `${base + i * 1000}` }])
      assert.deepEqual(await admin.fetchTopicOffsets(topic), [{ partition: 0, offset: '5', high: '5', low: '0' }])
      assert.deepEqual(await admin.fetchTopicOffsetsByTimestamp(topic, base + 1500), [{ partition: 0, offset: '2' }])
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '3' }] })
      assert.equal((await admin.fetchTopicOffsets(topic))[0].low, '3')
    })
  },

  async configs() {
    await withAdmin(async (admin) => {
      const topic = await createTopic(1, { 'retention.ms': '4711' })
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
      const value = async (name) => {
        const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ ...resource, configNames: [name] }] })
        return resources[0].configEntries[0].configValue
      }
      assert.equal(await value('retention.ms'), '4711')
      assert.equal(await value('cleanup.policy'), 'delete')
      await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '4712' }] }] })
      await eventually('altered', async () => (await value('retention.ms')) === '4712')
      const bad = { ...resource, configEntries: [{ name: 'retention.ms', value: 'soon' }] }
      assert.equal(await errorType(() => admin.alterConfigs({ validateOnly: false, resources: [bad] })), 'INVALID_CONFIG')
    })
  },

  async describe_cluster() {
    const { brokers, controller, clusterId } = await withAdmin((admin) => admin.describeCluster())
    assert.ok(brokers.length > 0 && clusterId && brokers.some((b) => b.nodeId === controller), JSON.stringify({ brokers, controller, clusterId }))
  },

  async groups_list_describe_and_delete() {
    await withAdmin(async (admin) => {
      const [topic, group] = [await createTopic(), newName('group')]
      await produce(topic, [{ value: 'x' }])
      const consumer = kafka.consumer(consumerOptions(group))
      await consumer.connect()
      await consumer.subscribe({ topic, fromBeginning: true })
      await consumer.run({ eachMessage: async () => {} })
      await eventually('stable', async () => (await admin.describeGroups([group])).groups[0].state === 'Stable')
      const [{ members, protocol, protocolType }] = (await admin.describeGroups([group])).groups
      assert.deepEqual([members.length, protocol, protocolType], [1, 'RoundRobinAssigner', 'consumer'])
      assert.ok(members[0].memberId.startsWith('kafkajs-suite-'), members[0].memberId)
      assert.ok((await admin.listGroups()).groups.some((g) => g.groupId === group), 'listed')
      const refused = await admin.deleteGroups([group]).catch((e) => e)
      assert.equal(refused.groups?.[0].error.type, 'NON_EMPTY_GROUP')
      await consumer.disconnect()
      await eventually('empty', async () => (await admin.describeGroups([group])).groups[0].state === 'Empty')
      await admin.deleteGroups([group])
      assert.ok(!(await admin.listGroups()).groups.some((g) => g.groupId === group), 'listed after it was deleted')
    })
  },

  async group_offsets_committed() {
    await withAdmin(async (admin) => {
      const [topic, groupId] = [await createTopic(2), newName('group')]
      await produce(topic, Array.from({ length: 10 }, (_, i) => ({ partition: 0, value: `${i}` })))
      await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '4' }] })
      const offset = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions.map((p) => p.offset)
      assert.deepEqual((await offset()).sort(), ['-1', '4'])
      const got = await consume(topic, 3, groupId)
      assert.deepEqual(got.map((m) => text(m.value)), ['4', '5', '6'])
      assert.deepEqual((await offset()).sort(), ['-1', '7'])
      await admin.resetOffsets({ groupId, topic, earliest: true })
      assert.equal(text((await consume(topic, 1, groupId))[0].value), '0')
    })
  },
}

for (const codec of Object.keys(codecs)) {
  cases[`codec_${codec}`] = async () => {
    const topic = await createTopic()
    const sent = Array.from({ length: 1000 }, (_, i) => ({ key: `k${i % 10}`, value: `${codec} ${i} `.repeat(i % 50) }))
    await produce(topic, sent, { codec })
    const got = (await consume(topic, sent.length)).map((m) => ({ key: text(m.key), value: text(m.value) }))
    assert.deepEqual(got, sent)
  }
}

const verbs = {
  async produce(topic, codec) {
    const values = fs.readFileSync(0, 'utf8').trim().split('\n')
    await produce(topic, values.map((value) => ({ value })), { codec })
  },

  async consume(topic, count) {
    for (const { value } of await consume(topic, Number(count))) console.log(text(value))
  },

  async read(topic, group, count) {
    for (const { value } of await consume(topic, Number(count), group)) console.log(text(value))
  },

  async member(topic, group) {
    const consumer = kafka.consumer(consumerOptions(group))
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ partition, message }) => {
        fs.writeSync(1, `${partition} ${message.offset} ${text(message.value)}\n`)
      },
    })
    await new Promise(() => {}) // until it is killed
  },
}

async function runCases() {
  for (const [name, run] of Object.entries(cases)) {
    let error = ''
    try {
      await run()
    } catch (e) {
      error = `${e.stack ?? e}`
      process.exitCode = 1
    }
    console.log(JSON.stringify({ case: name, error }))
  }
  await withAdmin((admin) => admin.deleteTopics({ topics: created }))
}

ZstdCodec.run(async (zstd) => {
  registerCodecs(zstd)
  try {
    await (verb === undefined ? runCases() : verbs[verb](...args))
  } catch (e) {
    console.error(e)
    process.exitCode = 1
  }
})
