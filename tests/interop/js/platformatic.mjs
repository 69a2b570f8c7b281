// The everyday work by @platformatic/kafka.

import {
  Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, ListOffsetTimestamps, Producer,
  stringDeserializers, stringSerializers
} from '@platformatic/kafka'
import { CODECS, COUNT, RETENTION_MS, LIMIT_MS, numbers, run, TIME_MS, until, words } from './work.mjs'

const client = (address) => ({
  clientId: 'platformatic', bootstrapBrokers: [address], strict: false,
  connectTimeout: LIMIT_MS, requestTimeout: LIMIT_MS // else five seconds for a connection, and thirty
})

async function closing (it, work) {
  try {
    return await work(it)
  } finally {
    await (it instanceof Consumer ? it.close(true) : it.close())
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

/** Read until there are so many; then what was read, and the consumer has left. */
function taken (address, topic, count, { groupId = 'alone', seek = null, commit = false } = {}) {
  return closing(member(address, groupId), async (consumer) => {
    const from = seek === null
      ? { mode: 'committed', fallbackMode: 'earliest' }
      : { mode: 'manual', offsets: [{ topic, partition: 0, offset: BigInt(seek) }] }
    const stream = await consumer.consume({ topics: [topic], ...from })
    const found = []
    for await (const message of stream) {
      found.push(message)
      if (found.length === count) break
    }
    if (commit) await found.at(-1).commit()
    return found
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
    .then(() => 'made anew', (error) => words(error).includes('already exists') ? 'exists' : words(error))
  await admin.createPartitions({ topics: [{ name: 'made', count: 5, assignments: null }] })
  const grown = await partitions()
  await admin.deleteTopics({ topics: ['made'] })
  const removed = !(await admin.listTopics()).includes('made')
  return { created, again, grown, removed }
})

const configs = (address) => asAdmin(address, async (admin) => {
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: 'configured' }
  const shown = async () => {
    const asked = { ...resource, configurationKeys: ['retention.ms'] }
    const [found] = await admin.describeConfigs({ resources: [asked], includeSynonyms: false, includeDocumentation: false })
    return found.configs[0].value
  }
  const change = (configOperation, value) => admin.incrementalAlterConfigs({
    resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation, value }] }], validateOnly: false
  })
  await admin.createTopics({ topics: ['configured'], partitions: 1, replicas: 1 })
  const before = await shown()
  await change(IncrementalAlterConfigOperationTypes.SET, RETENTION_MS)
  const set = await shown()
  await change(IncrementalAlterConfigOperationTypes.DELETE, null)
  return { before, set, after: await shown() }
})

async function codecs (address) {
  const found = {}
  for (const codec of CODECS) {
    const topic = `codec-${codec}`
    const values = numbers(COUNT).map((n) => `the same again and again ${n}`)
    await create(address, topic)
    await produce(address, topic, values, { compression: codec })
    const messages = await taken(address, topic, COUNT, { groupId: topic })
    found[codec] = messages.filter((message, n) =>
      message.value === values[n] && message.key === `k${n}` &&
      message.headers.get('n') === `${n}` && message.timestamp === BigInt(TIME_MS + n)).length
  }
  return found
}

async function idempotent (address) {
  await create(address, 'numbered')
  const told = await produce(address, 'numbered', numbers(COUNT).map(String), { idempotent: true })
  const messages = await taken(address, 'numbered', COUNT, { groupId: 'numbered' })
  const inOrder = messages.every((message, n) => Number(message.offset) === n && Number(message.value) === n)
  return { count: messages.length, is_in_order: inOrder && told.offsets[0].offset === 0n }
}

async function assignment (address) {
  await create(address, 'assigned')
  await produce(address, 'assigned', numbers(COUNT).map(String))
  const found = await taken(address, 'assigned', 10, { seek: 30 })
  return { first: Number(found[0].value), count: found.length }
}

const times = (address) => asAdmin(address, async (admin) => {
  await create(address, 'timed')
  await produce(address, 'timed', ['a', 'b', 'c'], { times: [1000, 2000, 3000] })
  const at = async (timestamp) => {
    const [topic] = await admin.listOffsets({ topics: [{ name: 'timed', partitions: [{ partitionIndex: 0, timestamp }] }] })
    return Number(topic.partitions[0].offset)
  }
  return {
    earliest: await at(ListOffsetTimestamps.EARLIEST),
    latest: await at(ListOffsetTimestamps.LATEST),
    at_1500: await at(1500n),
    at_9000: await at(9000n)
  }
})

const deletion = (address) => asAdmin(address, async (admin) => {
  await create(address, 'deleted')
  await produce(address, 'deleted', numbers(COUNT).map(String))
  const [told] = await admin.deleteRecords({ topics: [{ name: 'deleted', partitions: [{ partition: 0, offset: 5n }] }] })
  const [first] = await taken(address, 'deleted', 1, { groupId: 'deleted' })
  return { begins_at: Number(told.partitions[0].lowWatermark), first: Number(first.value) }
})

async function rebalance (address) {
  await create(address, 'shared', 4)
  const join = async () => {
    const consumer = member(address, 'sharers')
    const stream = await consumer.consume({ topics: ['shared'], mode: 'latest' })
    stream.on('data', () => {})
    return consumer
  }
  const like = (consumers, wanted) => until(
    () => consumers.map(({ assignments }) => assignments?.[0]?.partitions.length ?? 0),
    (found) => String(found) === String(wanted))
  const first = await join()
  const alone = await like([first], [4])
  const second = await join()
  const together = await like([first, second], [2, 2])
  await second.close(true)
  const again = await like([first], [4])
  await first.close(true)
  return { alone, together, alone_again: again }
}

async function readAndCommit (address, topic, groupId) {
  await create(address, topic)
  await produce(address, topic, numbers(COUNT).map(String))
  await taken(address, topic, 20, { groupId, commit: true })
}

async function committedOf (admin, groupId) {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  return Number(group.topics[0].partitions[0].committedOffset)
}

async function resume (address) {
  await readAndCommit(address, 'resumed', 'resumers')
  const [next] = await taken(address, 'resumed', 1, { groupId: 'resumers' })
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
