// Logins of @platformatic/kafka.

import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { LIMIT_MS, read, TOPIC, tryCases } from './logins.mjs'

const options = (it) => ({
  clientId: 'platformatic', bootstrapBrokers: [it.address], strict: false, retries: it.gets_in ? 5 : 0,
  connectTimeout: LIMIT_MS, requestTimeout: LIMIT_MS,
  tls: it.ca ? { ca: read(it.ca), cert: read(it.certificate), key: read(it.key) } : undefined,
  sasl: it.mechanism
    ? { mechanism: it.mechanism, username: it.user, password: it.password, token: it.password }
    : undefined
})

await tryCases(async (it) => {
  const producer = new Producer({ ...options(it), serializers: stringSerializers })
  try {
    await producer.send({ messages: [{ topic: TOPIC, value: 'value', partition: 0 }], acks: -1 })
  } finally {
    await producer.close()
  }
  const consumer = new Consumer({
    ...options(it), groupId: `platformatic-${it.name.replaceAll(/\W/g, '-')}`, deserializers: stringDeserializers, autocommit: false, maxWaitTime: 50
  })
  try {
    const stream = await consumer.consume({ topics: [TOPIC], mode: 'earliest' })
    for await (const message of stream) {
      if (message) break
    }
  } finally {
    await consumer.close(true)
  }
})
