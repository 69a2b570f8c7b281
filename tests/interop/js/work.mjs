// Runs the pieces of work one after the other; prints a line of JSON with the facts of each.

export const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
export const COUNT = 40
export const RETENTION_MS = '3600000'
export const TIME_MS = 1_700_000_000_000
/** The time limit of a piece of work, and of all that a client waits for. */
export const LIMIT_MS = Number(process.argv[3]) * 1000

export const numbers = (count) => Array.from({ length: count }, (_, n) => n)

/** Calls `get` until `isDone` is true of its result or the time is up; returns the last result. */
export async function until (get, isDone) {
  const deadline = Date.now() + LIMIT_MS
  for (;;) {
    const result = await get()
    if (isDone(result) || Date.now() > deadline) return result
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** An error and its causes in one line. */
export function errorText (error) {
  const causes = error.errors ?? (error.cause ? [error.cause] : [])
  return [`${error.name}: ${error.message}`, ...causes.map(errorText)].join(' <- ')
}

/** What `work` gives; after `ms` it fails. */
export async function within (ms, work) {
  let timer
  const limit = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error('not finished within the time limit')), ms)
  })
  return await Promise.race([work, limit]).finally(() => clearTimeout(timer))
}

export async function run (pieces) {
  const address = process.argv[2]
  for (const [name, work] of Object.entries(pieces)) {
    const facts = await within(LIMIT_MS, work(address)).catch((error) => ({ error: errorText(error) }))
    process.stdout.write(`${JSON.stringify([name, facts])}\n`)
  }
  process.exit(0) // a client may have left something running
}
