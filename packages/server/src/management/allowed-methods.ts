import type { FastifyInstance } from 'fastify';

/**
 * Watches the routes of an app and tells which methods a path has, in the order of registration, for the `Allow` of a
 * 405; undefined for a path that no route has (decisions 4.1). To be called before routes are added.
 */
export function watchRoutes(app: FastifyInstance): (path: string) => string[] | undefined {
  const routes = new Map<string, { segments: string[]; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { segments: segmentsOf(url), methods: new Set<string>() };
    routes.set(url, route);
    for (const each of [method].flat()) route.methods.add(each);
  });
  return (path) => {
    const segments = segmentsOf(path);
    for (const route of routes.values()) {
      if (fits(route.segments, segments)) return [...route.methods, 'OPTIONS'];
    }
    return undefined;
  };
}

function segmentsOf(path: string): string[] {
  const segments = path.split('/');
  if (segments.length > 2 && segments.at(-1) === '') segments.pop();
  return segments;
}

function fits(route: readonly string[], path: readonly string[]): boolean {
  if (route.at(-1) === '*')
    return path.length >= route.length && fits(route.slice(0, -1), path.slice(0, route.length - 1));
  return route.length === path.length && route.every((segment, at) => segment.startsWith(':') || segment === path[at]);
}
