import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { deserialize, serialize } from 'node:v8';
import { startService } from '../src/app/app.ts';
import { loadConfig } from '../src/app/config/config.ts';
import { OPEN_RESPONSE_TIMES, type OpenResponseTimes } from '../src/mcp/open-responses.ts';
import { type Action, type ComponentCompiler, componentChecksum } from '../src/policy/sandbox/action.ts';
import { ActionCompiler } from '../src/policy/sandbox/compiler.ts';
import { cachedBuild } from '../src/policy/sandbox/fixtures/cached-build.ts';
import { readSandboxScripts } from '../src/policy/sandbox/sandbox-process.ts';
import type { Files } from '../src/registry/store/files.ts';
import { createLogger } from '../src/telemetry/log.ts';
import { ForwardKinds } from '../src/upstreams/kinds.ts';
import type { UpstreamKind } from '../src/upstreams/upstream-kind.ts';

/** A management response; `data` is that of the envelope. */
export interface ManagementResponse {
  readonly status: number;
  readonly data: unknown;
}

/** The service, composed as in production, inside the test's process. */
export interface TestService {
  /** Base address of the MCP listener, `http://host:port`. */
  readonly mcp: string;
  /** Bound addresses of all listeners, `host:port`, by name. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Base address of the management listener. */
  readonly management: string;
  /** Address of a namespace's MCP endpoint (`default`). */
  url(namespace?: string): string;
  /** Lines of the log so far. */
  readonly log: readonly string[];
  /** Sends a management request with a JSON body. */
  manage(method: string, path: string, body?: unknown): Promise<ManagementResponse>;
  /** Registers a resource; throws unless the response is 201. */
  register(collection: 'forwards' | 'tools' | 'resources' | 'prompts' | 'namespaces', body: object): Promise<void>;
  /** Stops it; waits for in-flight requests for at most `graceMs`. */
  stop(graceMs?: number): Promise<void>;
}

/** Times that a slow response on a busy machine does not reach: it does not become an event stream. */
const PATIENT: OpenResponseTimes = { resumableMs: 60_000, headMs: 60_000, commentMs: 15_000, stepMs: 250 };

/** Starts a service whose slow responses become event streams, in the times of a deployed one. */
export function startStreamingService(env: Readonly<Record<string, string>> = {}): Promise<TestService> {
  return startTestService(env, [], undefined, OPEN_RESPONSE_TIMES);
}

const WIT_FILE = fileURLToPath(import.meta.resolve('@sluice/actions/wit'));

/** Compiles each action once for all test processes and runs: a compilation takes half a second of a core. */
class SharedCompiler implements ComponentCompiler {
  readonly #actions = new Map<string, Promise<Action>>();
  /** Everything that a compilation depends on, besides the component and installed packages. */
  #inputs: readonly string[] | undefined;

  async compile(component: Uint8Array, checksum?: string): Promise<Action> {
    const key = checksum ?? (await componentChecksum(component));
    const known = this.#actions.get(key);
    if (known) return known;
    const action = this.#compile(component, key);
    this.#actions.set(key, action);
    action.catch(() => this.#actions.delete(key));
    return action;
  }

  async #compile(component: Uint8Array, checksum: string): Promise<Action> {
    this.#inputs ??= await compilerInputs();
    const compile = async () => serialize(await new ActionCompiler().compile(component, checksum));
    return deserialize(await cachedBuild(['action', checksum, ...this.#inputs], compile));
  }

  /** Does nothing: other services use the same compiler. */
  async close(): Promise<void> {}
}

async function compilerInputs(): Promise<string[]> {
  const { loader, sources } = readSandboxScripts(['compiling', 'validate', 'host']);
  return [loader, sources.toString(), await readFile(WIT_FILE, 'utf8')];
}

const sharedCompiler = new SharedCompiler();

/**
 * Starts the service on the loopback interface, on free ports and, unless set in `env`, without persistence and
 * periodic checks. `argv` is its command line, `files` the file system of its registry folder; `openResponseTimes` are the times
 * of event streams without messages, `kinds` the kinds of upstreams.
 */
export async function startTestService(
  env: Readonly<Record<string, string>> = {},
  argv: readonly string[] = [],
  files?: Files,
  openResponseTimes: OpenResponseTimes = PATIENT,
  kinds?: readonly UpstreamKind[],
): Promise<TestService> {
  const variables = {
    SERVICE_PERSIST_BACKEND: 'none',
    SERVICE_FORWARD_HEALTHCHECK_INTERVAL: '0',
    SERVICE_MGMT_LISTEN: '127.0.0.1:0',
    SERVICE_MCP_LISTEN: '127.0.0.1:0',
    SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
    ...env,
  };
  const invocation = await loadConfig(argv, variables, import.meta.dirname, new ForwardKinds(kinds));
  if (invocation.kind !== 'run') throw new Error('the command line only requests a text');
  const { config } = invocation;
  const log: string[] = [];
  const service = await startService(
    config,
    createLogger(config.logFilter, (line) => log.push(line)),
    { compiler: sharedCompiler, ...(files && { files }), openResponseTimes },
  );
  const management = `http://${service.addresses.management}`;
  const mcp = `http://${service.addresses.mcp}`;

  const manage = async (method: string, path: string, body?: unknown): Promise<ManagementResponse> => {
    const response = await fetch(`${management}/api/v1${path}`, {
      method,
      headers: { connection: 'close' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const envelope: unknown = await response.json();
    const has = typeof envelope === 'object' && envelope !== null && 'data' in envelope;
    return { status: response.status, data: has ? envelope.data : undefined };
  };
  return {
    mcp,
    management,
    addresses: service.addresses,
    url: (namespace = 'default') => `${mcp}/${namespace}/mcp`,
    log,
    manage,
    async register(collection, body) {
      const { status } = await manage('POST', `/${collection}`, body);
      if (status !== 201) throw new Error(`POST /${collection} answered ${status}`);
    },
    stop: (graceMs) => service.stop(graceMs),
  };
}
