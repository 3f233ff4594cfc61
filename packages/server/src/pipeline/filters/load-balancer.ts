import { httpProblem } from '../../answer/http-problem.ts';
import type { Clusters } from '../../proxy/clusters.ts';
import { requestHeaders } from '../../proxy/end-to-end-headers.ts';
import { Exchange } from '../../proxy/exchange.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { UpstreamError } from '../../transport/upstream-error.ts';
import type { Filter } from '../chain.ts';

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
