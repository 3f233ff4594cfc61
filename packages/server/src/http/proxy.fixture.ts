import { onTestFinished } from 'vitest';
import type { TransportOptions } from './client/client.ts';
import type { UpstreamError } from './client/errors.ts';
import { createTransport } from './client/pool.ts';
import { httpProblem } from './outcome.ts';
import { ProxiedExchange, upstreamRequestHeaders } from './proxy.ts';
import { startHttp1Server } from './server/http1-server.fixture.ts';

/** A proxy in front of one upstream. */
export interface Proxy {
  readonly port: number;
  /** The errors, in order. */
  readonly errors: UpstreamError[];
}

/** Starts a server that only forwards its requests. */
export async function startProxy(upstream: string, options: TransportOptions = {}): Promise<Proxy> {
  const transport = createTransport(upstream, { redirects: 'pass', codings: 'pass', ...options });
  const errors: UpstreamError[] = [];
  onTestFinished(() => transport.destroy());
  const port = await startHttp1Server((request, response) => {
    const plan = {
      transport,
      path: request.url,
      headers: upstreamRequestHeaders(request.head.rawHeaders),
      body: undefined,
      responseHeaders: [],
      failureResponse: () => httpProblem(502, 'upstream unreachable'),
      onFailure: (error: UpstreamError) => void errors.push(error),
      observer: undefined,
    };
    new ProxiedExchange(plan, request, response).start();
  });
  return { port, errors };
}
