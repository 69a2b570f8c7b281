// Tries each way to get in of the file that the first argument names; prints a line of JSON for each.

import fs from 'node:fs'
import { errorText, LIMIT_MS, within } from './work.mjs'

export { LIMIT_MS }
export const TOPIC = 'logins'
/** KafkaJS neither connects nor fails if it does not trust the broker. */
const REFUSED_WITHIN_MS = 5000

/** The text of a file, if there is one. */
export const read = (path) => path ? fs.readFileSync(path, 'utf8') : undefined

// A client may emit an error of a connection that nobody listens to; the attempt fails all the same.
process.on('uncaughtException', () => {})

export async function tryCases (attempt) {
  for (const it of JSON.parse(read(process.argv[2]))) {
    const limitMs = it.gets_in ? LIMIT_MS : REFUSED_WITHIN_MS
    const outcome = await within(limitMs, attempt(it)).then(() => 'in', errorText)
    process.stdout.write(`${JSON.stringify([it.name, outcome])}\n`)
  }
  process.exit(0) // a client may have left something running
}
