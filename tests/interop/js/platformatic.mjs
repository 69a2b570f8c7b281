// The everyday work by @platformatic/kafka.

import {
  Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, ListOffsetTimestamps, Producer,
  stringDeserializers, stringSerializers
} from '@platformatic/kafka'
import { CODECS, COUNT, RETENTION_MS, LIMIT_MS, numbers, run, TIME_MS, until, errorText } from './work.mjs'

const client = (address) => ({
  clientId: 'platformatic', bootstrapBrokers: [address], strict: false,
  connectTimeout: LIMIT_MS, requestTimeout: LIMIT_MS // the defaults are five seconds and thirty
})

async function closing (client, work) {
  try {
    return await work(client)
  } finally {
    await (client instanceof Consumer ? client.close(true) : client.close())
  }
}

const asAdmin = (address, work) => closing(new Admin(client(address)), work)

const create = (address, topic, partitions = 1) =>
  asAdmin(address, (admin) => admin.createTopics({ topics: [topic], partitions, replicas: 1 }))

function produce (address, topic, values, { times = [], compression = 'none', idempotent = false } = {}) {
  const messages = values.map((value, n) => ({
    topic, value, key: `k${n}`, partition: 0, headers: { n: `${n}` }, timestamp: BigInt(times[n] ?? TIME_MS + n)
  }))
  const producer = new Producer({ ...client(address), serializers: stringSerializers, idempotent })
  return closing(producer, () => producer.send({ messages, compression, acks: -1 }))
}

const member = (address, groupId) => new Consumer({
  ...client(address), groupId, deserializers: stringDeserializers, autocommit: false, maxWaitTime: 50,
  heartbeatInterval: 100
})

/** Reads `count` records as a group member, which then leaves; returns the records. */
function readRecords (address, topic, count, { groupId = 'alone', seek = null, commit = false } = {}) {
  return closing(member(address, groupId), async (consumer) => {
    const from = seek === null
      ? { mode: 'committed', fallbackMode: 'earliest' }
      : { mode: 'manual', offsets: [{ topic, partition: 0, offset: BigInt(seek) }] }
    const stream = await consumer.consume({ topics: [topic], ...from })
    const records = []
    for await (const message of stream) {
      records.push(message)
      if (records.length === count) break
    }
    if (commit) await records.at(-1).commit()
    return records
  })
}

const cluster = (address) => asAdmin(address, async (admin) => {
  const found = await admin.metadata({ topics: [] })
  return { brokers: found.brokers.size, has_controller: found.brokers.has(found.controllerId) }
})

const topics = (address) => asAdmin(address, async (admin) => {
  const partitions = async () =>
    (await admin.metadata({ topics: ['made'], forceUpdate: true })).topics.get('made').partitions.length
  await admin.createTopics({ topics: ['made'], partitions: 3, replicas: 1 })
  const created = await partitions()
  const again = await admin.createTopics({ topics: ['made'], partitions: 1, replicas: 1 })
    .then(() => 'created again', (error) => errorText(error).includes('already exists') ? 'exists' : errorText(error))
  await admin.createPartitions({ topics: [{ name: 'made', count: 5, assignments: null }] })
  const grown = await partitions()
  await admin.deleteTopics({ topics: ['made'] })
  const removed = !(await admin.listTopics()).includes('made')
  return { created, again, grown, removed }
})

const configs = (address) => asAdmin(address, async (admin) => {
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: 'configured' }
  const value = async () => {
    const resourceKeys = { ...resource, configurationKeys: ['retention.ms'] }
    const [found] = await admin.describeConfigs({ resources: [resourceKeys], includeSynonyms: false, includeDocumentation: false })
    return found.configs[0].value
  }
  const change = (configOperation, value) => admin.incrementalAlterConfigs({
    resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation, value }] }], validateOnly: false
  })
  await admin.createTopics({ topics: ['configured'], partitions: 1, replicas: 1 })
  const before = await value()
  await change(IncrementalAlterConfigOperationTypes.SET, RETENTION_MS)
  const set = await value()
  await change(IncrementalAlterConfigOperationTypes.DELETE, null)
  return { before, set, after: await value() }
})

async function codecs (address) {
  const found = {}
  for (const codec of CODECS) {
    const topic = `codec-${codec}`
    const values = numbers(COUNT).map((n) => `the same again and again ${n}`)
    await create(address, topic)
    await produce(address, topic, values, { compression: codec })
    const messages = await readRecords(address, topic, COUNT, { groupId: topic })
    found[codec] = messages.filter((message, n) =>
      message.value === values[n] && message.key === `k${n}` &&
      message.headers.get('n') === `${n}` && message.timestamp === BigInt(TIME_MS + n)).length
  }
  return found
}

async function idempotent (address) {
  await create(address, 'numbered')
  const response = await produce(address, 'numbered', numbers(COUNT).map(String), { idempotent: true })
  const messages = await readRecords(address, 'numbered', COUNT, { groupId: 'numbered' })
  const inOrder = messages.every((message, n) => Number(message.offset) === n && Number(message.value) === n)
  return { count: messages.length, is_in_order: inOrder && response.offsets[0].offset === 0n }
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
  const offsetAt = async (timestamp) => {
    const [topic] = await admin.listOffsets({ topics: [{ name: 'timed', partitions: [{ partitionIndex: 0, timestamp }] }] })
    return Number(topic.partitions[0].offset)
  }
  return {
    earliest: await offsetAt(ListOffsetTimestamps.EARLIEST),
    latest: await offsetAt(ListOffsetTimestamps.LATEST),
    at_1500: await offsetAt(1500n),
    at_9000: await offsetAt(9000n)
  }
})

const deletion = (address) => asAdmin(address, async (admin) => {
  await create(address, 'deleted')
  await produce(address, 'deleted', numbers(COUNT).map(String))
  const [response] = await admin.deleteRecords({ topics: [{ name: 'deleted', partitions: [{ partition: 0, offset: 5n }] }] })
  const [first] = await readRecords(address, 'deleted', 1, { groupId: 'deleted' })
  return { begins_at: Number(response.partitions[0].lowWatermark), first: Number(first.value) }
})

async function rebalance (address) {
  await create(address, 'shared', 4)
  const join = async () => {
    const consumer = member(address, 'sharers')
    const stream = await consumer.consume({ topics: ['shared'], mode: 'latest' })
    stream.on('data', () => {})
    return consumer
  }
  const untilSizes = (consumers, wanted) => until(
    () => consumers.map(({ assignments }) => assignments?.[0]?.partitions.length ?? 0),
    (found) => String(found) === String(wanted))
  const first = await join()
  const alone = await untilSizes([first], [4])
  const second = await join()
  const together = await untilSizes([first, second], [2, 2])
  await second.close(true)
  const again = await untilSizes([first], [4])
  await first.close(true)
  return { alone, together, alone_again: again }
}

async function readAndCommit (address, topic, groupId) {
  await create(address, topic)
  await produce(address, topic, numbers(COUNT).map(String))
  await readRecords(address, topic, 20, { groupId, commit: true })
}

async function committedOf (admin, groupId) {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  return Number(group.topics[0].partitions[0].committedOffset)
}

async function resume (address) {
  await readAndCommit(address, 'resumed', 'resumers')
  const [next] = await readRecords(address, 'resumed', 1, { groupId: 'resumers' })
  const committed = await asAdmin(address, (admin) => committedOf(admin, 'resumers'))
  return { committed, resumed_at: Number(next.offset) }
}

const groups = (address) => asAdmin(address, async (admin) => {
  await readAndCommit(address, 'grouped', 'administered')
  const has = async () => (await admin.listGroups()).has('administered')
  const listed = await has()
  const state = (await admin.describeGroups({ groups: ['administered'] })).get('administered').state
  const committed = await committedOf(admin, 'administered')
  await admin.alterConsumerGroupOffsets({
    groupId: 'administered', topics: [{ name: 'grouped', partitionOffsets: [{ partition: 0, offset: 5n }] }]
  })
  const moved = await committedOf(admin, 'administered')
  await admin.deleteGroups({ groups: ['administered'] })
  return { listed, state: state[0] + state.slice(1).toLowerCase(), committed, reset_to: moved, removed: !(await has()) }
})

run({ cluster, topics, configs, codecs, idempotent, assignment, times, deletion, rebalance, resume, groups })
