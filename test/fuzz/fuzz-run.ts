import {
  type CapabilityService,
  startCapabilityService,
  unaryHandler,
} from '../../packages/server/testing/capability-service.ts';
import { type DualEra, startDualEra } from '../fixtures/dual-era.ts';
import { type Gateway, startGateway } from '../fixtures/gateway.ts';
import { type FuzzResult, fuzz } from './fuzzer.ts';
import { callTools } from './tool-calls.ts';

/** Messages for rules that the document describes only in text. */
const UNDOCUMENTED_RULES = [
  // Consistency between members.
  /does not match address/,
  /address or name is required|cannot be combined with (?:name|headers or proxy)/,
  // Ports up to 65535, and IPv6 addresses in brackets: a pattern for it would be unreadable.
  /must be host:port without http:\/\/, with a port from 1 to 65535/,
  // The same for URLs.
  /must be an http or https URL/,
  /must be \\?"none\\?" or the http or https URL of a proxy/,
  // Headers with references that are invalid or cannot be used, names that are refused or differ in case only.
  /headers\.\S* (?:must contain|must be printable|contains|refers to|is set by the service itself|is a duplicate)/,
  /another origin: send headers with it/,
  // Upstreams of the inference listener, which have several forms, and unknown fields of its settings.
  /invalid inference configuration: (?:upstream (?:\\"|or capacity)|.* is not a known field)/s,
];

/** Unreachable upstreams: nothing listens on these ports. */
const UNREACHABLE = ['http://127.0.0.1:1/mcp', 'http://127.0.0.1:7', 'http://[::1]:9/', 'https://127.0.0.1:9/a/b?c=d'];

/** Short timeouts, since most registered services do not exist. */
const SHORT_TIMEOUTS = { SERVICE_BRIDGE_GRPC_MAX_RETRIES: '0', SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '500' };

/** A gateway to be fuzzed, with an MCP server and a capability service that requests can register. */
export class FuzzRun {
  readonly gateway: Gateway;
  readonly #upstream: DualEra;
  readonly #service: CapabilityService;

  private constructor(gateway: Gateway, upstream: DualEra, service: CapabilityService) {
    this.gateway = gateway;
    this.#upstream = upstream;
    this.#service = service;
  }

  /** Starts all three and calls tools; `nodeArgs` are Node.js arguments for the gateway. */
  static async start(nodeArgs: readonly string[] = []): Promise<FuzzRun> {
    const [gateway, upstream, service] = await Promise.all([
      startGateway({ nodeArgs, env: SHORT_TIMEOUTS }),
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

  /** Sends `requests` requests over `connections` connections. Deletes the created entries at the end. */
  fuzz(
    seed: number,
    requests: number,
    connections: number,
    progress: (sent: number) => void = () => {},
  ): Promise<FuzzResult> {
    const origin = `http://${this.gateway.management()}`;
    // Repeated, so that there are always forwards to refresh: with an added path, most uris are invalid.
    const uris = [...UNREACHABLE, ...Array.from({ length: 8 }, () => this.#upstream.url)];
    const texts = new Map([['address', [this.#service.address]]]);
    return fuzz({ origin, seed, requests, connections, uris, texts, undocumentedRules: UNDOCUMENTED_RULES, progress });
  }

  /** Stops the gateway; returns a line per logged error, and one for an exit code other than 0. */
  async end(): Promise<readonly string[]> {
    const code = await this.gateway.stop();
    const lines = this.gateway.logs.filter(({ level }) => level !== 'info' && level !== 'warn');
    const failures = lines.filter(({ msg }) => !/^(Debugger|For help, see:)/.test(msg));
    return [
      ...failures.map((line) => `error in the log: ${JSON.stringify(line).slice(0, 1_000)}`),
      ...(code === 0 ? [] : [`the gateway exited with code ${code}`]),
    ];
  }

  async close(): Promise<void> {
    await this.gateway.close();
    await this.#upstream.close();
    this.#service.close();
  }
}

/** A capability service that stores no configuration and secrets, and whose tools do nothing. */
function startService(): Promise<CapabilityService> {
  const properties = { region: { type: 'string', description: 'Where', required: true }, size: {} };
  return startCapabilityService((server, { provisioner, toolInvoker }) => {
    server.addService(provisioner, {
      Provision: unaryHandler(() => ({ configurationUri: 'config://1', secretUri: 'vault://1', properties })),
    });
    server.addService(toolInvoker, { InvokeTool: unaryHandler(() => ({ content: ['done'] })) });
  });
}
