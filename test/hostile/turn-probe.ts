import { createServer } from 'node:http';

// Preloaded into a service with `--import`. Records how much CPU time the main thread uses between two turns of its event
// loop: unlike the delay of a timer, that does not depend on the load of the machine.

/** Line on standard error that announces the port of the probe. */
export const PROBE_ANNOUNCEMENT = 'turn probe: port ';

/** End of the module's URL where it is preloaded. */
export const PRELOADED = '?preloaded';

/** CPU time of turns, in milliseconds. */
export interface Turns {
  readonly count: number;
  readonly longestMs: number;
}

/** Text that takes several times as long as allowed when it is parsed at once. */
const BLOCKING_TEXT = `[${'[],'.repeat(1_400_000)}[]]`;

let count = 0;
let longestMs = 0;
let before = cpuMs();

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Runs once per turn. Without a reference, it does not keep the loop from waiting. */
function onTurn(): void {
  const now = cpuMs();
  count++;
  longestMs = Math.max(longestMs, now - before);
  before = now;
  setImmediate(onTurn).unref();
}

/** Returns the turns since the last call. */
function takeTurns(): Turns {
  const turns = { count, longestMs };
  count = 0;
  longestMs = 0;
  return turns;
}

function startProbe(): void {
  const server = createServer((request, response) => {
    // Verifies the probe itself: a service that parses a large text at once.
    if (request.url === '/block') JSON.parse(BLOCKING_TEXT);
    // The turn of this request included.
    setImmediate(() => setImmediate(() => response.end(JSON.stringify(takeTurns()))));
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    if (typeof address === 'object' && address !== null) console.error(`${PROBE_ANNOUNCEMENT}${address.port}`);
  });
  server.unref();
  setImmediate(onTurn).unref();
}

// Elsewhere this module is imported for its types only.
if (import.meta.url.endsWith(PRELOADED)) startProbe();
