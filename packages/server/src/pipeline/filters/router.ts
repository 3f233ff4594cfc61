import { httpProblem } from '../../answer/http-problem.ts';
import type { SettingsOf } from '../../config/pipeline/filter-settings.ts';
import type { Filter } from '../chain.ts';
import { headersMatcher } from '../conditions.ts';
import type { RequestContext } from '../context.ts';

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
