import { isJsonObject } from '../json/lossless.ts';
import { type Era, MODERN_ERROR_CODES } from '../mcp/protocol.ts';
import { type LegacyClient, openLegacy } from './legacy-client.ts';
import { type ModernClient, openModern } from './modern-client.ts';
import type { ClientOptions } from './upstream-client.ts';
import { UpstreamError } from './upstream-error.ts';

/** Which eras an upstream address speaks: a set, since servers may speak both (mcp 4). At least one is there. */
export interface EraVerdict {
  readonly legacy?: { readonly protocolVersion: string; readonly initializeResult: string };
  readonly modern?: {
    /** What it says it supports, legacy versions too if it names them; empty when it did not say. */
    readonly versions: readonly string[];
    /** Exact JSON; absent when only an error code proved the era. */
    readonly discoverResult?: string;
  };
  /** Eras that could be neither proved nor ruled out; worth another probe sooner than usual. */
  readonly undecided: readonly { readonly era: Era; readonly error: UpstreamError }[];
}

/** A verdict with the clients that reached it, so that discovery can go on with them. */
export interface Probe {
  readonly verdict: EraVerdict;
  /** To be used or closed: it holds a session of the upstream. */
  readonly legacy: LegacyClient | undefined;
  readonly modern: ModernClient | undefined;
}

/** When one era is proved, how long the other may still take: servers may stay silent on what they do not know. */
const GRACE_MS = 3_000;

/**
 * Asks an address for both eras at once and independently. Modern is proved by a DiscoverResult or by one of the errors
 * that only modern servers send, never by -32601; legacy by an InitializeResult. 401, 403, 429, 5xx and failures of the
 * network decide nothing.
 *
 * Rejects with an {@link UpstreamError} when neither era is proved: the one that kept it from being decided, else
 * `invalid`. `graceMs` is for tests.
 */
export async function probeEras(options: ClientOptions, graceMs: number = GRACE_MS): Promise<Probe> {
  const { address } = options.transport;
  const late = { legacy: new AbortController(), modern: new AbortController() };
  const within = (era: Era): ClientOptions => {
    const { signal } = late[era];
    return { ...options, signal: options.signal === undefined ? signal : AbortSignal.any([options.signal, signal]) };
  };
  let grace: NodeJS.Timeout | undefined;
  const hurry = (other: Era) => {
    grace ??= setTimeout(() => {
      const what = `did not answer in the ${other} era within ${graceMs / 1000} s of answering in the other`;
      late[other].abort(new UpstreamError('timeout', address, what));
    }, graceMs);
  };
  const [legacy, modern] = await Promise.all([
    attempt(openLegacy(within('legacy')), () => hurry('modern')),
    attempt(openModern(within('modern')), () => hurry('legacy')),
  ]).finally(() => clearTimeout(grace));

  const undecided: { era: Era; error: UpstreamError }[] = [];
  if (legacy.error !== undefined && !decides(legacy.error)) undecided.push({ era: 'legacy', error: legacy.error });
  if (modern.error !== undefined && !decides(modern.error)) undecided.push({ era: 'modern', error: modern.error });
  const provedModern =
    modern.client === undefined
      ? (provedByError(modern.error) ?? provedByError(legacy.error))
      : { versions: modern.client.supportedVersions, discoverResult: modern.client.identity };
  if (legacy.client === undefined && provedModern === undefined) {
    throw undecided[0]?.error ?? neither(address, legacy.error, modern.error);
  }
  return {
    verdict: {
      ...(legacy.client && {
        legacy: { protocolVersion: legacy.client.protocolVersion, initializeResult: legacy.client.identity },
      }),
      ...(provedModern && { modern: provedModern }),
      undecided,
    },
    legacy: legacy.client,
    modern: modern.client,
  };
}

interface Attempt<Client> {
  readonly client?: Client;
  readonly error?: UpstreamError;
}

async function attempt<Client>(opening: Promise<Client>, proved: () => void): Promise<Attempt<Client>> {
  try {
    const client = await opening;
    proved();
    return { client };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    if (provedByError(error) !== undefined) proved();
    return { error };
  }
}

/** True when an era is ruled out (or proved) by this failure; false when it says nothing about the era. */
function decides({ kind, status = 0 }: UpstreamError): boolean {
  if (kind === 'http') return status < 500 && status !== 401 && status !== 403 && status !== 429;
  return kind === 'rpc' || kind === 'invalid';
}

function provedByError(error: UpstreamError | undefined): EraVerdict['modern'] {
  if (error?.code === undefined || !MODERN_ERROR_CODES.has(error.code)) return undefined;
  const supported = isJsonObject(error.data) ? error.data.supported : undefined;
  const versions = Array.isArray(supported) ? supported.filter((version) => typeof version === 'string') : [];
  return { versions };
}

function neither(address: string, legacy: UpstreamError | undefined, modern: UpstreamError | undefined): UpstreamError {
  const prefix = `upstream ${address} `;
  const said = [legacy, modern].map((error) => error?.message.replace(prefix, 'it ') ?? '').join('; ');
  return new UpstreamError('invalid', address, `speaks neither era of MCP: ${said}`, { cause: legacy });
}
