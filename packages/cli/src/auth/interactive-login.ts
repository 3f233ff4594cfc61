import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** Prints the next step, which the user takes in a browser. */
export function printInstruction({ stderr }: Terminal, text: string): void {
  stderr.write(`${sanitizeLine(text)}\n`);
}

/** A local HTTP server that waits for the browser to return from the identity provider. */
export interface RedirectListener {
  /** Redirect address of the login. */
  readonly url: string;
  /** The address to which the browser returned; rejects when `signal` is aborted. */
  readonly redirect: Promise<URL>;
  readonly close: () => void;
}

/** Listens on a free port of the loopback interface (RFC 8252, section 7.3). */
export async function listenForRedirect(signal: AbortSignal): Promise<RedirectListener> {
  const redirect = Promise.withResolvers<URL>();
  const abort = () => redirect.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  // The caller may fail before it waits.
  redirect.promise.catch(() => undefined);
  const server: Server = createServer(({ url = '' }, response) => {
    const address = new URL(url, base);
    if (address.pathname !== '/callback') return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/plain', connection: 'close' });
    response.end('You can close this page and return to the terminal.\n');
    return redirect.resolve(address);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const base = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  return {
    url: `${base}/callback`,
    redirect: redirect.promise,
    close: () => {
      signal.removeEventListener('abort', abort);
      server.close();
      server.closeAllConnections();
    },
  };
}
