// The everyday work by KafkaJS.

import zlib from 'node:zlib'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import lz4 from 'lz4-napi'
import { CODECS, COUNT, RETENTION_MS, LIMIT_MS, numbers, run, TIME_MS, until } from './work.mjs'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => zlib.zstdCompressSync(encoder.buffer),
  decompress: async (buffer) => zlib.zstdDecompressSync(buffer)
})
const TYPES = [CompressionTypes.None, CompressionTypes.GZIP, CompressionTypes.Snappy, CompressionTypes.LZ4, CompressionTypes.ZSTD]

const client = (address) => new Kafka({
  clientId: 'kafkajs', brokers: [address], logLevel: logLevel.NOTHING,
  connectionTimeout: LIMIT_MS, requestTimeout: LIMIT_MS // the defaults are one second and thirty
})

async function withClient (client, work) {
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.disconnect()
  }
}

const asAdmin = (address, work) => withClient(client(address).admin(), work)

const create = (address, topic, numPartitions = 1) =>
  asAdmin(address, (admin) => admin.createTopics({ topics: [{ topic, numPartitions }] }))

function produce (address, topic, values, { times = [], compression = 0, idempotent = false } = {}) {
  const messages = values.map((value, n) => ({
    value, key: `k${n}`, partition: 0, headers: { n: `${n}` }, timestamp: String(times[n] ?? TIME_MS + n)
  }))
  return withClient(client(address).producer({ idempotent }), (producer) =>
    producer.send({ topic, messages, compression, acks: -1 }))
}

const member = (address, groupId) => client(address).consumer({
  groupId, heartbeatInterval: 100, sessionTimeout: 45_000, maxWaitTimeInMs: 50, minBytes: 1
})

/** Reads `count` records as a group member, which then leaves; returns the records. */
function readRecords (address, topic, count, { groupId = 'alone', seek = null, commit = false } = {}) {
  return withClient(member(address, groupId), async (consumer) => {
    const records = []
    await consumer.subscribe({ topic, fromBeginning: true })
    const hasAll = new Promise((resolve) => {
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message }) => {
          if (records.length < count) records.push(message)
          if (records.length === count) resolve()
        }
      })
    })
    if (seek !== null) consumer.seek({ topic, partition: 0, offset: String(seek) })
    await hasAll
    if (commit) await consumer.commitOffsets([{ topic, partition: 0, offset: String(count) }])
    return records
  })
}

async function cluster (address) {
  const found = await asAdmin(address, (admin) => admin.describeCluster())
  const ids = found.brokers.map((broker) => broker.nodeId)
  return { brokers: ids.length, has_controller: ids.includes(found.controller) }
}

const topics = (address) => asAdmin(address, async (admin) => {
  const partitions = async () => (await admin.fetchTopicMetadata({ topics: ['made'] })).topics[0].partitions.length
  await admin.createTopics({ topics: [{ topic: 'made', numPartitions: 3 }] })
  const created = await partitions()
  const isNew = await admin.createTopics({ topics: [{ topic: 'made' }] })
  await admin.createPartitions({ topicPartitions: [{ topic: 'made', count: 5 }] })
  const grown = await partitions()
  await admin.deleteTopics({ topics: ['made'] })
  const removed = !(await admin.listTopics()).includes('made')
  return { created, again: isNew ? 'created again' : 'exists', grown, removed }
})

const configs = (address) => asAdmin(address, async (admin) => {
  const resource = { type: ConfigResourceTypes.TOPIC, name: 'configured' }
  const value = async () => {
    const resourceKeys = { ...resource, configNames: ['retention.ms'] }
    const found = await admin.describeConfigs({ resources: [resourceKeys] })
    return found.resources[0].configEntries[0].configValue
  }
  const change = (configEntries) => admin.alterConfigs({ resources: [{ ...resource, configEntries }] })
  await admin.createTopics({ topics: [{ topic: 'configured' }] })
  const before = await value()
  await change([{ name: 'retention.ms', value: RETENTION_MS }])
  const set = await value()
  await change([])
  return { before, set, after: await value() }
})

async function codecs (address) {
  const found = {}
  for (const [place, codec] of CODECS.entries()) {
    const topic = `codec-${codec}`
    const values = numbers(COUNT).map((n) => `the same again and again ${n}`)
    await create(address, topic)
    await produce(address, topic, values, { compression: TYPES[place] })
    const messages = await readRecords(address, topic, COUNT, { groupId: topic })
    found[codec] = messages.filter((message, n) =>
      String(message.value) === values[n] && String(message.key) === `k${n}` &&
      String(message.headers.n) === `${n}` && message.timestamp === String(TIME_MS + n)).length
  }
  return found
}

async function idempotent (address) {
  await create(address, 'numbered')
  const response = await produce(address, 'numbered', numbers(COUNT).map(String), { idempotent: true })
  const messages = await readRecords(address, 'numbered', COUNT, { groupId: 'numbered' })
  const inOrder = messages.every((message, n) => Number(message.offset) === n && Number(message.value) === n)
  return { count: messages.length, is_in_order: inOrder && response[0].baseOffset === '0' }
}

async function assignment (address) {
  await create(address, 'assigned')
  await produce(address, 'assigned', numbers(COUNT).map(String))
  const found = await readRecords(address, 'assigned', 10, { seek: 30 })
  return { first: Number(found[0].value), count: found.length }
}

const times = (address) => asAdmin(address, async (admin) => {
  await create(address, 'timed')
  await produce(address, 'timed', ['a', 'b', 'c'], { times: [1000, 2000, 3000] })
  const [ends] = await admin.fetchTopicOffsets('timed')
  // If no record is that late, this client returns the end offset.
  const offsetAt = async (time) => Number((await admin.fetchTopicOffsetsByTimestamp('timed', time))[0].offset)
  return { earliest: Number(ends.low), latest: Number(ends.high), at_1500: await offsetAt(1500), at_9000: await offsetAt(9000) === Number(ends.high) ? -1 : 0 }
})

const deletion = (address) => asAdmin(address, async (admin) => {
  await create(address, 'deleted')
  await produce(address, 'deleted', numbers(COUNT).map(String))
  await admin.fetchTopicOffsets('deleted') // this client deletes only from topics whose offsets it has fetched
  await admin.deleteTopicRecords({ topic: 'deleted', partitions: [{ partition: 0, offset: '5' }] })
  const [ends] = await admin.fetchTopicOffsets('deleted')
  const [first] = await readRecords(address, 'deleted', 1, { groupId: 'deleted' })
  return { begins_at: Number(ends.low), first: Number(first.value) }
})

async function rebalance (address) {
  await create(address, 'shared', 4)
  const sizes = []
  const join = async (place) => {
    const consumer = member(address, 'sharers')
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      sizes[place] = (payload.memberAssignment.shared ?? []).length
    })
    await consumer.connect()
    await consumer.subscribe({ topic: 'shared' })
    await consumer.run({ eachMessage: async () => {} })
    return consumer
  }
  const untilSizes = (wanted) => until(() => [...sizes], (found) => String(found) === String(wanted))
  const first = await join(0)
  const alone = await untilSizes([4])
  const second = await join(1)
  const together = await untilSizes([2, 2])
  await second.disconnect()
  sizes.length = 1
  const again = await untilSizes([4])
  await first.disconnect()
  return { alone, together, alone_again: again }
}

async function readAndCommit (address, topic, groupId) {
  await create(address, topic)
  await produce(address, topic, numbers(COUNT).map(String))
  await readRecords(address, topic, 20, { groupId, commit: true })
}

const committedOf = async (admin, groupId, topic) => {
  const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return Number(found.partitions[0].offset)
}

async function resume (address) {
  await readAndCommit(address, 'resumed', 'resumers')
  const [next] = await readRecords(address, 'resumed', 1, { groupId: 'resumers' })
  const committed = await asAdmin(address, (admin) => committedOf(admin, 'resumers', 'resumed'))
  return { committed, resumed_at: Number(next.offset) }
}

const groups = (address) => asAdmin(address, async (admin) => {
  await readAndCommit(address, 'grouped', 'administered')
  const names = async () => (await admin.listGroups()).groups.map((group) => group.groupId)
  const listed = (await names()).includes('administered')
  const { state } = (await admin.describeGroups(['administered'])).groups[0]
  const committed = await committedOf(admin, 'administered', 'grouped')
  await admin.setOffsets({ groupId: 'administered', topic: 'grouped', partitions: [{ partition: 0, offset: '5' }] })
  const moved = await committedOf(admin, 'administered', 'grouped')
  await admin.deleteGroups(['administered'])
  return { listed, state, committed, reset_to: moved, removed: !(await names()).includes('administered') }
})

run({ cluster, topics, configs, codecs, idempotent, assignment, times, deletion, rebalance, resume, groups })
