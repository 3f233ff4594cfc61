import { isJsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/scan';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { UpstreamTransport } from '../transport/transport.ts';
import { quoted, UpstreamError } from '../transport/upstream-error.ts';
import type { ExchangeAnswer } from './exchange.ts';

/** Who asks, and how: shared by everything that speaks to an upstream outside calls. */
export interface ClientOptions {
  readonly transport: UpstreamTransport;
  /** What is declared to the upstream. */
  readonly capabilities: ClientCapabilities;
  /** Name and version of who asks: a client's own for its sessions, ours for everything else. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Legacy version to ask for (default: the latest). */
  readonly protocolVersion?: string;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers?: readonly string[];
  /** Milliseconds for each request (default 30000, decisions 4.3). */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Gives an id that no other request in the session has (default: counted here, where all its requests are made). */
  readonly nextId?: () => number;
}

/** What a request got: the exact text of the result beside its parsed form, or the upstream's own error. */
export type Reply =
  | { readonly kind: 'result'; readonly text: string; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly data: unknown };

/** An upstream that has told who it is, and can be asked in one era. */
export interface UpstreamClient {
  readonly era: Era;
  /** The version spoken with it. */
  readonly protocolVersion: string;
  /** Exact JSON of its InitializeResult or DiscoverResult. */
  readonly identity: string;
  /** Parsed `capabilities` of the same. */
  readonly serverCapabilities: Readonly<Record<string, unknown>>;
  /** Sends one request; `params` without `_meta`. Rejects with an {@link UpstreamError} when there is no reply. */
  request(method: string, params?: Readonly<Record<string, unknown>>): Promise<Reply>;
  /** Ends what the upstream holds for us; never rejects. */
  close(): Promise<void>;
}

export const DEFAULT_TIMEOUT_MS = 30_000;

/** Reads the answer to a request. Rejects a result that is no object (`invalid`). */
export function toReply(answer: ExchangeAnswer, method: string, address: string): Reply {
  const { response, outcome, status } = answer;
  if (outcome?.kind === 'error') return outcome;
  const text = response === undefined ? undefined : memberText(response, 'result');
  if (outcome === undefined || text === undefined || !isJsonObject(outcome.result)) {
    throw new UpstreamError('invalid', address, `answered ${method} with a result that is no object`, { status });
  }
  return { kind: 'result', text, result: outcome.result };
}

/** The result of `method`, which nothing but a result answers: an error becomes an {@link UpstreamError} `rpc`. */
export function resultOf(reply: Reply, method: string, address: string): Extract<Reply, { kind: 'result' }> {
  if (reply.kind === 'result') return reply;
  throw errorOf(reply, method, address);
}

/** An upstream's own error, as the failure that it is where only a result will do. */
export function errorOf(
  { code, data, message }: Extract<Reply, { kind: 'error' }>,
  method: string,
  address: string,
): UpstreamError {
  return new UpstreamError('rpc', address, `answered ${method} with error ${code}: ${quoted(message)}`, { code, data });
}
