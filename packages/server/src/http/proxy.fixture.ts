import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import type { TransportOptions } from './client/client.ts';
import type { UpstreamError } from './client/errors.ts';
import { listen } from './client/listening.fixture.ts';
import { createTransport } from './client/pool.ts';
import { httpProblem } from './context.ts';
import { Exchange, requestHeaders } from './proxy.ts';

/** A proxy in front of one upstream. */
export interface Proxy {
  readonly port: number;
  /** What failed, in order. */
  readonly errors: UpstreamError[];
}

/** Starts a server that does nothing but send its requests on. */
export async function startProxy(upstream: string, options: TransportOptions = {}): Promise<Proxy> {
  const transport = createTransport(upstream, { redirects: 'pass', ...options });
  const errors: UpstreamError[] = [];
  onTestFinished(() => transport.destroy());
  const server = createServer((request, response) => {
    const plan = {
      transport,
      path: request.url ?? '/',
      headers: requestHeaders(request.rawHeaders),
      body: undefined,
      answerHeaders: [],
      failed: () => httpProblem(502, 'upstream unreachable'),
      onFailure: (error: UpstreamError) => void errors.push(error),
      watch: undefined,
    };
    new Exchange(plan, request, response).run();
  });
  return { port: await listen(server), errors };
}
