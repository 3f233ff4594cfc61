import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { limitResponse } from './limit-response.ts';
import { isTlsMismatch } from './network-error.ts';

/** No data arrived within the idle timeout. */
export class IdleTimeoutFailure extends Failure {
  override name = 'IdleTimeoutFailure';
}

/** Idle timeout for a sequence of waits. */
export interface IdleGuard {
  /** Aborted with the reason when the timeout expires. */
  readonly signal: AbortSignal;
  /** Applies the timeout to one wait and returns its result. */
  readonly guard: <T>(work: Promise<T>) => Promise<T>;
}

/** Creates an idle guard with a timeout in milliseconds; undefined for none. */
function createIdleGuard(ms: number | undefined, reason: () => Error): IdleGuard {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    guard: async (work) => {
      if (ms === undefined) return work;
      const timer = setTimeout(() => controller.abort(reason()), ms);
      try {
        return await work;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Error for an http URL of a server that speaks TLS. */
export function requiresTls(address: string): Failure {
  return new Failure(`${address} requires TLS: use ${address.replace('http:', 'https:')}`);
}

/** Sends a request. Rejects like `fetch`, and with {@link Failure} for a response over the limits. */
export type Send = (request: Request) => Promise<Response>;

/** Global options that affect requests. */
export interface FetchOptions {
  readonly insecure: boolean;
  readonly verbose: boolean;
}

/** Limits for responses. */
export interface ResponseLimits {
  /** Maximum size of a body, or of one event of a stream, in bytes. */
  readonly maxBytes: number;
  /** Maximum time without data in milliseconds; default: unlimited. */
  readonly idleTimeoutMs?: number;
  /** Called when a response is too large. */
  readonly onTooLarge?: (failure: Failure) => void;
}

/** The management API itself may take up to 30 s for a discovery. */
const DEFAULT_LIMITS: ResponseLimits = { maxBytes: 256 * 2 ** 20, idleTimeoutMs: 60_000 };

/**
 * Creates a function that sends requests with the global options and that Ctrl-C aborts. A response that is too large
 * or times out is a {@link Failure}, and so is a plain request to a server with TLS.
 */
export async function createFetch(
  { insecure, verbose }: FetchOptions,
  terminal: Terminal,
  { maxBytes, idleTimeoutMs, onTooLarge = () => undefined }: ResponseLimits = DEFAULT_LIMITS,
): Promise<Send> {
  const dispatcher = insecure ? await insecureDispatcher() : undefined;
  const send: Send = async (request) => {
    const { origin } = new URL(request.url);
    const idle = createIdleGuard(
      idleTimeoutMs,
      () => new IdleTimeoutFailure(`no response from ${origin} for ${Number(idleTimeoutMs) / 1000} s`),
    );
    const signal = AbortSignal.any([request.signal, terminal.interrupted, idle.signal]);
    const sent = fetch(request, { signal, ...(dispatcher && { dispatcher }) });
    const response = await idle.guard(sent).catch(async (error: unknown) => {
      throw !signal.aborted && (await isTlsMismatch(error, request.url)) ? requiresTls(origin) : error;
    });
    return limitResponse(response, maxBytes, origin, { guard: idle.guard, onTooLarge });
  };
  return verbose ? logRequests(send, terminal) : send;
}

/** Logs method, path, status and duration, but neither headers nor bodies. */
function logRequests(send: Send, { stderr }: Terminal): Send {
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const started = performance.now();
    const logRequest = (result: string) => {
      const ms = Math.round(performance.now() - started);
      stderr.write(`${request.method} ${sanitizeLine(pathname + search)} ${result} ${ms} ms\n`);
    };
    try {
      const response = await send(request);
      logRequest(String(response.status));
      return response;
    } catch (error) {
      logRequest('failed');
      throw error;
    }
  };
}

/** Loaded on demand. */
async function insecureDispatcher() {
  const { Agent } = await import('undici');
  return new Agent({ connect: { rejectUnauthorized: false } });
}
