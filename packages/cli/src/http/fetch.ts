import type { Failure } from '../failure.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { boundedAnswer } from './bounded-answer.ts';
import { createSilence, SilenceFailure } from './silence.ts';

/** Sends a request. Rejects as `fetch` does, and with {@link Failure} for an answer that no API gives. */
export type Send = (request: Request) => Promise<Response>;

/** How requests are sent: as the global options of these names say. */
export interface FetchOptions {
  readonly insecure: boolean;
  readonly verbose: boolean;
}

/** What answers may take. */
export interface Limits {
  /** How large a body may be, or an event of a stream of events: in bytes. */
  readonly bytes: number;
  /** How long a server may say nothing in the middle of an answer or before it, in milliseconds; default: for ever. */
  readonly silenceMs?: number;
  /** Told of an answer that is too large. */
  readonly tooLarge?: (failure: Failure) => void;
}

/** The management API's: it takes up to 30 s itself, when it asks an upstream what it offers. */
const LIMITS: Limits = { bytes: 256 * 2 ** 20, silenceMs: 60_000 };

/**
 * Sends requests as the global options say: with or without a check of certificates, told or not, ended by Ctrl-C. An
 * answer that is too large, or does not come, is a {@link Failure}.
 */
export async function createFetch(
  { insecure, verbose }: FetchOptions,
  terminal: Terminal,
  { bytes, silenceMs, tooLarge = () => undefined }: Limits = LIMITS,
): Promise<Send> {
  const dispatcher = insecure ? await uncheckedTls() : undefined;
  const send: Send = async (request) => {
    const { origin } = new URL(request.url);
    const silence = createSilence(
      silenceMs,
      () => new SilenceFailure(`no answer from ${origin} for ${Number(silenceMs) / 1000} s`),
    );
    const signal = AbortSignal.any([request.signal, terminal.interrupted, silence.signal]);
    const response = await silence.during(fetch(request, { signal, ...(dispatcher && { dispatcher }) }));
    return boundedAnswer(response, bytes, origin, { waiting: silence.during, tooLarge });
  };
  return verbose ? told(send, terminal) : send;
}

/** One line per request: method, path, status and time. Headers and bodies are nobody's business. */
function told(send: Send, { stderr }: Terminal): Send {
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const started = performance.now();
    const tell = (result: string) => {
      const ms = Math.round(performance.now() - started);
      stderr.write(`${request.method} ${harmlessLine(pathname + search)} ${result} ${ms} ms\n`);
    };
    try {
      const response = await send(request);
      tell(String(response.status));
      return response;
    } catch (error) {
      tell('failed');
      throw error;
    }
  };
}

/** Loaded only for who asks for it. */
async function uncheckedTls() {
  const { Agent } = await import('undici');
  return new Agent({ connect: { rejectUnauthorized: false } });
}
