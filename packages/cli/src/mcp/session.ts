import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  type jsonSchemaValidator,
  LOG_LEVEL_META_KEY,
  type LoggingLevel,
  type RequestOptions,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';
import manifest from '../../package.json' with { type: 'json' };
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { handleElicitations } from './elicitation.ts';
import { explainMcpError } from './explain-mcp-error.ts';
import { createIdleTimeout } from './idle-timeout.ts';
import { resolveTarget, type TargetOptions } from './target.ts';

/**
 * Prints log messages of at least `level` to stderr. Resolves with the `_meta` that requests need for it: in the modern
 * era the level is sent with each request, in the legacy era it is set for the session.
 */
async function printLogs(
  client: Client,
  { stderr }: Terminal,
  level: LoggingLevel,
  signal: AbortSignal,
  onMessage: () => void,
): Promise<Record<string, unknown>> {
  client.setNotificationHandler('notifications/message', ({ params }) => {
    onMessage();
    const text = typeof params.data === 'string' ? params.data : JSON.stringify(params.data);
    const from = params.logger === undefined ? params.level : `${params.level} ${params.logger}`;
    stderr.write(`${sanitizeLine(`[${from}] ${text}`)}\n`);
  });
  if (client.getProtocolEra() === 'modern') return { [LOG_LEVEL_META_KEY]: level };
  if (client.getServerCapabilities()?.logging !== undefined) {
    // A server that does not support it may send logs anyway.
    await client.setLoggingLevel(level, { signal }).catch(() => undefined);
  }
  return {};
}

/**
 * Accepts every result. The client would validate results with schemas of the server, whose patterns may block the
 * process forever, Ctrl-C included.
 */
function permissiveValidator(): jsonSchemaValidator {
  const validator = new AjvJsonSchemaValidator();
  return { getValidator: () => validator.getValidator({}) };
}

/** A connection to an MCP server of either era. */
export interface Session {
  readonly client: Client;
  /** Options of each request: progress is printed to stderr, and the idle timeout applies. */
  readonly request: RequestOptions;
  /** `_meta` of requests, for log messages. */
  readonly meta: Record<string, unknown>;
}

/** Disables the client's own timeout: ours restarts with each message and pauses during prompts. */
const NO_LIMIT_MS = 2_147_483_647;
/** Maximum time to wait for the end of the session. */
const CLOSE_TIMEOUT_MS = 1000;
/** Prefix of progress messages that the client itself creates for input rounds. */
const INPUT_ROUND_PREFIX = 'Fulfilling input required by ';
/** Maximum size of a message in bytes. */
const MAX_MESSAGE_BYTES = 64 * 2 ** 20;
/** Maximum number of pages of a list, for servers whose lists never end. */
const MAX_PAGES = 10_000;

/**
 * Connects to the server of the options in its era, calls `use` with the session and closes it. Rejects with `Failure`
 * when the server is unreachable or rejects a request.
 */
export async function withSession<T>(
  context: Context,
  options: TargetOptions,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const { terminal } = context;
  const { url, headers, timeoutMs } = resolveTarget(context, options);
  const idleTimeout = createIdleTimeout(
    timeoutMs,
    () => new Failure(`no response from ${url} for ${timeoutMs / 1000} s (--timeout)`),
  );
  const oversized = new AbortController();
  const signal = AbortSignal.any([idleTimeout.signal, oversized.signal, terminal.interrupted]);
  // Ctrl-C aborts calls through the signal; the request that ends the session is still sent.
  const uninterrupted = { ...terminal, interrupted: new AbortController().signal };
  const limits = { maxBytes: MAX_MESSAGE_BYTES, onTooLarge: (failure: Failure) => oversized.abort(failure) };
  const send = await createFetch(context.options(), uninterrupted, limits);
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => {
      const response = await send(new Request(input, init));
      if (init?.method === 'POST') idleTimeout.restart();
      return response;
    },
    requestInit: { headers },
  });
  const client = new Client(
    { name: 'sluice', version: manifest.version },
    {
      capabilities: { elicitation: { form: {}, url: {} } },
      versionNegotiation: { mode: 'auto' },
      listMaxPages: MAX_PAGES,
      jsonSchemaValidator: permissiveValidator(),
    },
  );
  handleElicitations(client, terminal, url, idleTimeout);
  try {
    await Promise.race([client.connect(transport, { signal, timeout: NO_LIMIT_MS }), rejectOnAbort(signal)]);
    const meta = await printLogs(client, terminal, options.logLevel, signal, idleTimeout.restart);
    const request: RequestOptions = {
      signal,
      timeout: NO_LIMIT_MS,
      onprogress: ({ progress, total, message }) => {
        idleTimeout.restart();
        if (message?.startsWith(INPUT_ROUND_PREFIX)) return;
        const share = total === undefined ? `${progress}` : `${progress}/${total}`;
        terminal.stderr.write(`${sanitizeLine(message === undefined ? share : `${share} ${message}`)}\n`);
      },
    };
    return await use({ client, request, meta });
  } catch (error) {
    for (const { aborted: ended, reason } of [idleTimeout.signal, oversized.signal]) if (ended) throw reason;
    throw explainMcpError(error, url, context.options().verbose);
  } finally {
    idleTimeout.stop();
    await closeSession(client, transport);
  }
}

/** Connecting does not respect the signal everywhere. */
function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

async function closeSession(client: Client, transport: StreamableHTTPClientTransport): Promise<void> {
  const done = new AbortController();
  const ended = transport.sessionId === undefined ? undefined : transport.terminateSession();
  await Promise.race([ended, delay(CLOSE_TIMEOUT_MS, undefined, done)]).catch(() => undefined);
  done.abort();
  await client.close().catch(() => undefined);
}
