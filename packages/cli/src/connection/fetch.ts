import { Failure } from '../failure.ts';
import type { GlobalOptions } from '../options.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Sends a request. Rejects as `fetch` does, and with {@link Failure} for an answer that no API gives. */
export type Send = (request: Request) => Promise<Response>;

/** Sends requests as the global options say: with or without a check of certificates, told or not, ended by Ctrl-C. */
export async function createFetch({ insecure, verbose }: GlobalOptions, terminal: Terminal): Promise<Send> {
  const dispatcher = insecure ? await uncheckedTls() : undefined;
  const send: Send = (request) => {
    const signal = AbortSignal.any([request.signal, terminal.interrupted]);
    return fetch(request, { signal, ...(dispatcher && { dispatcher }) });
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
