import { type DualEra, startDualEra } from '../fixtures/dual-era.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { type FuzzResult, fuzz } from './fuzzer.ts';

/** Rules of bodies that the document has in words only. */
const UNSAID = [
  // That members agree with each other.
  /contradicts address/,
  // Ports up to 65535, and IPv6 addresses in brackets: a pattern could say it, but nobody could read that.
  /must be host:port, with a port from 1 to 65535/,
  // The same of URLs.
  /must be an http or https URL/,
  // Upstreams of the inference listener, of several forms; and that its settings have no other members.
  /invalid inference configuration: (?:upstream (?:\\"|or capacity)|.* is not known)/s,
];

/** Upstreams that refuse: nothing listens on these ports. */
const REFUSING = ['http://127.0.0.1:1/mcp', 'http://127.0.0.1:7', 'http://[::1]:9/', 'https://127.0.0.1:9/a/b?c=d'];

/** A gateway to be fuzzed, and an MCP server that it may be given the address of. */
export class FuzzRun {
  readonly gateway: Gateway;
  readonly #upstream: DualEra;

  private constructor(gateway: Gateway, upstream: DualEra) {
    this.gateway = gateway;
    this.#upstream = upstream;
  }

  /** Starts both; `nodeArgs` are arguments of Node.js for the gateway. */
  static async start(nodeArgs: readonly string[] = []): Promise<FuzzRun> {
    const [gateway, upstream] = await Promise.all([startGateway({ nodeArgs }), startDualEra()]);
    return new FuzzRun(gateway, upstream);
  }

  /** So many requests over so many connections. What they made is deleted at the end. */
  fuzz(
    seed: number,
    requests: number,
    connections: number,
    progress: (sent: number) => void = () => {},
  ): Promise<FuzzResult> {
    const origin = `http://${this.gateway.management()}`;
    // Twice, so that there is mostly something to refresh.
    const uris = [...REFUSING, this.#upstream.url, this.#upstream.url];
    return fuzz({ origin, seed, requests, connections, uris, unsaid: UNSAID, progress });
  }

  /** Stops the gateway; a line for every failure that it has logged, and for an end that was none. */
  async end(): Promise<readonly string[]> {
    const code = await this.gateway.stop();
    const lines = this.gateway.logs.filter(({ level }) => level !== 'info' && level !== 'warn');
    const failures = lines.filter(({ msg }) => !/^(Debugger|For help, see:)/.test(msg));
    return [
      ...failures.map((line) => `in the log: ${JSON.stringify(line).slice(0, 1_000)}`),
      ...(code === 0 ? [] : [`the gateway ended with code ${code}`]),
    ];
  }

  async close(): Promise<void> {
    await this.gateway.close();
    await this.#upstream.close();
  }
}
