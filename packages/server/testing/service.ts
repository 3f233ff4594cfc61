import { startService } from '../src/app/app.ts';
import { loadConfig } from '../src/app/config/config.ts';
import { createLogger } from '../src/telemetry/log.ts';

/** A management answer; `data` is that of the envelope. */
export interface Managed {
  readonly status: number;
  readonly data: unknown;
}

/** The service, composed as in production, inside the test's own process. */
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
  manage(method: string, path: string, body?: unknown): Promise<Managed>;
  /** Registers something; throws unless the answer is 201. */
  register(collection: 'forwards' | 'tools' | 'resources' | 'prompts' | 'namespaces', body: object): Promise<void>;
  /** Stops it; requests in flight get `graceMs` to finish. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Starts the service on the loopback interface, on ports that the system chooses and, unless `env` says otherwise,
 * without persistence and without periodic checks. `argv` is its command line.
 */
export async function startTestService(
  env: Readonly<Record<string, string>> = {},
  argv: readonly string[] = [],
): Promise<TestService> {
  const variables = {
    SERVICE_PERSIST_BACKEND: 'none',
    SERVICE_FORWARD_HEALTHCHECK_INTERVAL: '0',
    SERVICE_MGMT_LISTEN: '127.0.0.1:0',
    SERVICE_MCP_LISTEN: '127.0.0.1:0',
    SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
    ...env,
  };
  const invocation = await loadConfig(argv, variables, import.meta.dirname);
  if (invocation.kind !== 'run') throw new Error('the command line only asks for a text');
  const { config } = invocation;
  const log: string[] = [];
  const service = await startService(
    config,
    createLogger(config.logFilter, (line) => log.push(line)),
  );
  const management = `http://${service.addresses.management}`;
  const mcp = `http://${service.addresses.mcp}`;

  const manage = async (method: string, path: string, body?: unknown): Promise<Managed> => {
    const answer = await fetch(`${management}/api/v1${path}`, {
      method,
      headers: { connection: 'close' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const envelope: unknown = await answer.json();
    const has = typeof envelope === 'object' && envelope !== null && 'data' in envelope;
    return { status: answer.status, data: has ? envelope.data : undefined };
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
