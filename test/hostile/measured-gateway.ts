import { readFile, writeFile } from 'node:fs/promises';
import { type Gateway, type GatewayOptions, startGateway } from '../fixtures/gateway.ts';
import { PRELOADED, PROBE_ANNOUNCEMENT, type Turns } from './turn-probe.ts';

/** A gateway that measures the turns of its event loop. */
export interface MeasuredGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  /** Returns the turns since the last call, and resets them. */
  readonly turns: () => Promise<Turns>;
  /** Lets the gateway parse a large text at once, and returns its turns: they must be too long. */
  readonly blockedTurns: () => Promise<Turns>;
  /** Returns the maximum resident set size since the last call in bytes, and resets it; 0 where the system has none. */
  readonly peakRss: () => Promise<number>;
}

const PROBE = new URL(`./turn-probe.ts${PRELOADED}`, import.meta.url).href;

/** The Node.js arguments of `npm start` that concern memory, and those of the probe. */
const MEASURED_ARGS: readonly string[] = [
  '--max-semi-space-size=64',
  '--no-allocation-site-pretenuring',
  '--import',
  PROBE,
];

/** Starts it. */
export async function startMeasuredGateway(options: GatewayOptions = {}): Promise<MeasuredGateway> {
  const gateway = await startGateway({ ...options, nodeArgs: [...MEASURED_ARGS, ...(options.nodeArgs ?? [])] });
  const request = async (path: string): Promise<Turns> => {
    const line = gateway.logs.findLast(({ msg }) => msg.startsWith(PROBE_ANNOUNCEMENT));
    const port = line?.msg.slice(PROBE_ANNOUNCEMENT.length);
    const { count, longestMs } = Object(await (await fetch(`http://127.0.0.1:${port}${path}`)).json());
    return { count: Number(count), longestMs: Number(longestMs) };
  };
  return {
    gateway,
    turns: () => request('/'),
    blockedTurns: () => request('/block'),
    async peakRss() {
      try {
        const status = await readFile(`/proc/${gateway.pid()}/status`, 'utf8');
        await writeFile(`/proc/${gateway.pid()}/clear_refs`, '5');
        return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
      } catch {
        return 0;
      }
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  };
}
