/** Filters that choose the upstream cluster of a request and proxy it. */

import { z } from 'zod';
import type { TargetLogger } from '../../telemetry/log.ts';
import { parseHosts } from '../address.ts';
import { conditions, type Filter, headersMatcher } from '../chain.ts';
import type { UpstreamError } from '../client/errors.ts';
import { type Clusters, cluster } from '../clusters.ts';
import type { HttpExchange } from '../exchange.ts';
import { httpProblem } from '../outcome.ts';
import { ProxiedExchange, upstreamRequestHeaders, withAuthorization } from '../proxy.ts';
import { InvalidSettingError, path, requiredHeaders, textSchema } from '../settings.ts';

const host = textSchema('host, host:port, [ipv6] or [ipv6]:port', (text) => {
  const [only, ...more] = parseHosts(text);
  if (only === undefined || more.length > 0 || text.includes(',')) {
    throw new InvalidSettingError('contains several hosts');
  }
  return only;
});

/** Settings of the `router` filter. */
export const routerSettings = z.strictObject({
  filter: z.literal('router'),
  conditions,
  routes: z
    .array(
      z.strictObject({
        path_prefix: path,
        host: host.optional(),
        headers: requiredHeaders.optional(),
        cluster: z.string().min(1, { error: 'must not be empty' }),
      }),
    )
    .min(1, { error: 'must have at least one route' }),
});

/**
 * Sets the cluster of a request for `load_balancer`: that of the matching route with the longest path prefix, the first one of
 * equals.
 */
export function router({ routes }: z.output<typeof routerSettings>): Filter {
  const sorted = routes
    .map(({ path_prefix, host, headers, cluster }) => ({
      prefix: path_prefix,
      host: host?.toLowerCase(),
      hasHeaders: headersMatcher(headers),
      cluster,
    }))
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
  const noRoute = httpProblem(404, 'no route matches this request');
  return (exchange) => {
    // `OPTIONS *` concerns the server.
    const path = exchange.path === '*' ? '/' : exchange.path;
    const route = sorted.find(
      ({ prefix, host, hasHeaders }) => path.startsWith(prefix) && matchesHost(exchange, host) && hasHeaders(exchange),
    );
    if (!route) return noRoute;
    exchange.cluster = route.cluster;
    return undefined;
  };
}

/** Compares the Host header with a host; the port counts only if the host has one. */
function matchesHost({ headers: { host: requested = '' } }: HttpExchange, host: string | undefined): boolean {
  if (host === undefined) return true;
  const lower = requested.toLowerCase();
  return lower === host || lower.replace(/:\d+$/, '') === host;
}

/** Settings of the `load_balancer` filter. */
export const loadBalancerSettings = z.strictObject({
  filter: z.literal('load_balancer'),
  conditions,
  clusters: z.array(cluster).default([]),
});

/** Dependencies of {@link loadBalancer}. */
export interface LoadBalancerParts {
  readonly clusters: Pick<Clusters, 'next'>;
  readonly proxyLog: Pick<TargetLogger, 'warn'>;
}

/** Proxies a request to the cluster that `router` has set; both bodies are streamed. */
export function loadBalancer({ clusters, proxyLog }: LoadBalancerParts): Filter {
  return (exchange) => {
    const { cluster, facts } = exchange;
    const target = cluster === undefined ? undefined : clusters.next(cluster);
    if (!target) return undefined;
    const unreachable = httpProblem(502, `${cluster} upstream unreachable`);
    return {
      kind: 'proxied',
      start(request, response, body) {
        facts.upstream = target.server;
        const plan = {
          transport: target.transport,
          path: exchange.path === '*' ? '*' : `${target.pathPrefix}${exchange.path}${exchange.query}`,
          headers: [
            ...upstreamRequestHeaders(withAuthorization(request.head, exchange.authenticated)),
            ...exchange.addedHeaders,
          ],
          body,
          responseHeaders: exchange.responseHeaders,
          failureResponse: () => unreachable,
          onFailure: ({ kind, message }: UpstreamError) => {
            facts.failure = kind;
            proxyLog.warn(`cluster ${cluster}: ${message}`);
          },
          observer: exchange.recording?.(),
        };
        new ProxiedExchange(plan, request, response).start();
      },
    };
  };
}
