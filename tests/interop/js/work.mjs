// The frame of a driver: each piece of work in turn, a line of JSON with its facts.

export const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
export const COUNT = 40
export const RETENTION_MS = '3600000'
export const TIME_MS = 1_700_000_000_000
/** How long a piece of work may take, and whatever a client waits for. */
export const LIMIT_MS = Number(process.argv[3]) * 1000

export const numbers = (count) => Array.from({ length: count }, (_, n) => n)

/** The value of `ask()` once `fine` takes it, or the last one when the time is up. */
export async function until (ask, fine) {
  const deadline = Date.now() + LIMIT_MS
  for (;;) {
    const found = await ask()
    if (fine(found) || Date.now() > deadline) return found
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** An error and what caused it, in one line. */
export function words (error) {
  const causes = error.errors ?? (error.cause ? [error.cause] : [])
  return [`${error.name}: ${error.message}`, ...causes.map(words)].join(' <- ')
}

export async function run (pieces) {
  const address = process.argv[2]
  for (const [name, work] of Object.entries(pieces)) {
    let late
    const limit = new Promise((resolve, reject) => {
      late = setTimeout(() => reject(new Error('no end')), LIMIT_MS)
    })
    const facts = await Promise.race([work(address), limit]).catch((error) => ({ error: words(error) }))
    clearTimeout(late)
    process.stdout.write(`${JSON.stringify([name, facts])}\n`)
  }
  process.exit(0) // whatever a client has left running
}
