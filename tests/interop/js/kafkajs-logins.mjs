// Logins of KafkaJS.

import kafkajs from 'kafkajs'
import { LIMIT_MS, read, TOPIC, tryCases } from './logins.mjs'

const { Kafka, logLevel } = kafkajs

const client = (it) => new Kafka({
  clientId: 'kafkajs', brokers: [it.address], logLevel: logLevel.NOTHING,
  connectionTimeout: LIMIT_MS, requestTimeout: LIMIT_MS, retry: { retries: it.gets_in ? 5 : 0 },
  ssl: it.ca ? { ca: read(it.ca), cert: read(it.certificate), key: read(it.key) } : undefined,
  sasl: it.mechanism
    ? {
        mechanism: it.mechanism.toLowerCase(), username: it.user, password: it.password,
        oauthBearerProvider: async () => ({ value: it.password })
      }
    : undefined
})

await tryCases(async (it) => {
  const producer = client(it).producer()
  await producer.connect()
  try {
    await producer.send({ topic: TOPIC, messages: [{ value: 'value', partition: 0 }] })
  } finally {
    await producer.disconnect()
  }
  const consumer = client(it).consumer({ groupId: `kafkajs ${it.name}`, maxWaitTimeInMs: 50, minBytes: 1 })
  await consumer.connect()
  try {
    await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
    await new Promise((resolve) => consumer.run({ autoCommit: false, eachMessage: async () => resolve() }))
  } finally {
    await consumer.disconnect()
  }
})
