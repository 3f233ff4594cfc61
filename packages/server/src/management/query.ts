import type { FastifyRequest } from 'fastify';
import type { Selector } from '../registry/operations/lookup.ts';

/** The query's parameters; of a repeated one `get` gives the first. Unknown ones are ignored (decisions 2.2). */
export function queryOf(request: FastifyRequest): URLSearchParams {
  const at = request.url.indexOf('?');
  return new URLSearchParams(at === -1 ? '' : request.url.slice(at + 1));
}

/** Which entry a path with `{name}` means, by name, `?namespace=` and `?uri=` (decisions 2.2). */
export function selectorOf(request: FastifyRequest<{ Params: { name: string } }>): Selector {
  const query = queryOf(request);
  return {
    name: request.params.name,
    namespace: query.get('namespace') ?? undefined,
    uri: query.get('uri') ?? undefined,
  };
}
