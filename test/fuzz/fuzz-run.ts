import {
  answering,
  type CapabilityService,
  startCapabilityService,
} from '../../packages/server/testing/capability-service.ts';
import { type DualEra, startDualEra } from '../fixtures/dual-era.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { type FuzzResult, fuzz } from './fuzzer.ts';
import { callTools } from './tool-calls.ts';

/** Rules of bodies that the document has in words only. */
const UNSAID = [
  // That members agree with each other.
  /does not match address/,
  // Ports up to 65535, and IPv6 addresses in brackets: a pattern could say it, but nobody could read that.
  /must be host:port without http:\/\/, with a port from 1 to 65535/,
  // The same of URLs.
  /must be an http or https URL/,
  // Upstreams of the inference listener, of several forms; and that its settings have no other members.
  /invalid inference configuration: (?:upstream (?:\\"|or capacity)|.* is not a known field)/s,
];

/** Upstreams that refuse: nothing listens on these ports. */
const REFUSING = ['http://127.0.0.1:1/mcp', 'http://127.0.0.1:7', 'http://[::1]:9/', 'https://127.0.0.1:9/a/b?c=d'];

/** Most services that are registered are not there; nobody waits for them for long. */
const IMPATIENT = { SERVICE_BRIDGE_GRPC_MAX_RETRIES: '0', SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '500' };

/** A gateway to be fuzzed, and an MCP server and a capability service that it may be given the addresses of. */
export class FuzzRun {
  readonly gateway: Gateway;
  readonly #upstream: DualEra;
  readonly #service: CapabilityService;

  private constructor(gateway: Gateway, upstream: DualEra, service: CapabilityService) {
    this.gateway = gateway;
    this.#upstream = upstream;
    this.#service = service;
  }

  /** Starts all three, and has tools called; `nodeArgs` are arguments of Node.js for the gateway. */
  static async start(nodeArgs: readonly string[] = []): Promise<FuzzRun> {
    const [gateway, upstream, service] = await Promise.all([
      startGateway({ nodeArgs, env: IMPATIENT }),
      startDualEra(),
      startService(),
    ]);
    const run = new FuzzRun(gateway, upstream, service);
    try {
      await callTools(gateway, service.address);
    } catch (error) {
      await run.close();
      throw error;
    }
    return run;
  }

  /** So many requests over so many connections. What they made is deleted at the end. */
  fuzz(
    seed: number,
    requests: number,
    connections: number,
    progress: (sent: number) => void = () => {},
  ): Promise<FuzzResult> {
    const origin = `http://${this.gateway.management()}`;
    // Several times, so that there is always something to refresh: behind many a path that is added to it is nothing.
    const uris = [...REFUSING, ...Array.from({ length: 8 }, () => this.#upstream.url)];
    const texts = new Map([['address', [this.#service.address]]]);
    return fuzz({ origin, seed, requests, connections, uris, texts, unsaid: UNSAID, progress });
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
    this.#service.close();
  }
}

/** A capability service that keeps configuration and secrets nowhere, and whose tools do nothing. */
function startService(): Promise<CapabilityService> {
  const properties = { region: { type: 'string', description: 'Where', required: true }, size: {} };
  return startCapabilityService((server, { provisioner, toolInvoker }) => {
    server.addService(provisioner, {
      Provision: answering(() => ({ configurationUri: 'config://1', secretUri: 'vault://1', properties })),
    });
    server.addService(toolInvoker, { InvokeTool: answering(() => ({ content: ['done'] })) });
  });
}
