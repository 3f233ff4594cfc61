import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { limitResponse } from './limit-response.ts';

/** Somebody was silent for too long. */
export class IdleTimeoutFailure extends Failure {
  override name = 'SilenceFailure';
}

/** An end to waiting for somebody who says nothing. */
export interface IdleGuard {
  /** Aborted, with the reason, when it has lasted too long. */
  readonly signal: AbortSignal;
  /** Hands on what the work comes to; the work is what is waited for. */
  readonly guard: <T>(work: Promise<T>) => Promise<T>;
}

/** A silence that may last for some milliseconds; without a number, for ever. */
export function createIdleGuard(ms: number | undefined, reason: () => Error): IdleGuard {
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

/** Sends a request. Rejects as `fetch` does, and with {@link Failure} for an answer that no API gives. */
export type Send = (request: Request) => Promise<Response>;

/** How requests are sent: as the global options of these names say. */
export interface FetchOptions {
  readonly insecure: boolean;
  readonly verbose: boolean;
}

/** What answers may take. */
export interface ResponseLimits {
  /** How large a body may be, or an event of a stream of events: in bytes. */
  readonly maxBytes: number;
  /** How long a server may say nothing in the middle of an answer or before it, in milliseconds; default: for ever. */
  readonly idleTimeoutMs?: number;
  /** Told of an answer that is too large. */
  readonly onTooLarge?: (failure: Failure) => void;
}

/** The management API's: it takes up to 30 s itself, when it asks an upstream what it offers. */
const DEFAULT_LIMITS: ResponseLimits = { maxBytes: 256 * 2 ** 20, idleTimeoutMs: 60_000 };

/**
 * Sends requests as the global options say: with or without a check of certificates, told or not, ended by Ctrl-C. An
 * answer that is too large, or does not come, is a {@link Failure}.
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
      () => new IdleTimeoutFailure(`no answer from ${origin} for ${Number(idleTimeoutMs) / 1000} s`),
    );
    const signal = AbortSignal.any([request.signal, terminal.interrupted, idle.signal]);
    const response = await idle.guard(fetch(request, { signal, ...(dispatcher && { dispatcher }) }));
    return limitResponse(response, maxBytes, origin, { guard: idle.guard, onTooLarge });
  };
  return verbose ? logRequests(send, terminal) : send;
}

/** One line per request: method, path, status and time. Headers and bodies are nobody's business. */
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

/** Loaded only for who asks for it. */
async function insecureDispatcher() {
  const { Agent } = await import('undici');
  return new Agent({ connect: { rejectUnauthorized: false } });
}
