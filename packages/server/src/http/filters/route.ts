import type { SettingsOf } from '../../app/config/pipeline/schema.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { type Filter, headersMatcher } from '../chain.ts';
import type { UpstreamError } from '../client/errors.ts';
import type { Clusters } from '../clusters.ts';
import { httpProblem, type RequestContext } from '../context.ts';
import { Exchange, requestHeaders } from '../proxy.ts';

/**
 * Chooses the cluster that a request is sent to, for `load_balancer`: that of the route with the longest prefix among
 * those that fit; of equals the first (decisions 1.4).
 */
export function router({ routes }: SettingsOf<'router'>): Filter {
  const sorted = routes
    .map(({ path_prefix, host, headers, cluster }) => ({
      prefix: path_prefix,
      host: host?.toLowerCase(),
      fits: headersMatcher(headers),
      cluster,
    }))
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
  const noRoute = httpProblem(404, 'no route fits this request');
  return (context) => {
    const route = sorted.find(
      ({ prefix, host, fits }) => context.path.startsWith(prefix) && isHost(context, host) && fits(context),
    );
    if (!route) return noRoute;
    context.cluster = route.cluster;
    return undefined;
  };
}

/** The host of the request is this one; with its port where one is named. */
function isHost({ headers: { host = '' } }: RequestContext, wanted: string | undefined): boolean {
  if (wanted === undefined) return true;
  const given = host.toLowerCase();
  return given === wanted || given.replace(/:\d+$/, '') === wanted;
}

/** What the filter works with. */
export interface LoadBalancerParts {
  readonly clusters: Pick<Clusters, 'next'>;
  readonly proxyLog: Pick<TargetLogger, 'warn'>;
}

/** Sends the request to the cluster that `router` has chosen, and its answer back, as they come (decisions 1.4, 4.8). */
export function loadBalancer({ clusters, proxyLog }: LoadBalancerParts): Filter {
  return (context) => {
    const { cluster } = context;
    const target = cluster === undefined ? undefined : clusters.next(cluster);
    if (!target) return undefined;
    const unreachable = httpProblem(502, `${cluster} upstream unreachable`);
    return {
      kind: 'exchange',
      start(request, response, body) {
        if (context.observation) context.observation.upstream = target.server;
        const plan = {
          transport: target.transport,
          path: `${target.pathPrefix}${context.path}${context.query}`,
          headers: [...requestHeaders(request.rawHeaders), ...context.addedHeaders],
          body,
          answerHeaders: context.responseHeaders,
          failed: () => unreachable,
          onFailure: ({ kind, message }: UpstreamError) => {
            if (context.observation) context.observation.failure = kind;
            proxyLog.warn(`cluster ${cluster}: ${message}`);
          },
          watch: context.recording?.(),
        };
        new Exchange(plan, request, response).run();
      },
    };
  };
}
