import { PROXIED_PREFIXES } from '../operations/proxied.ts';

/** Paths that are not operations of the contract, because they do not answer with the envelope. */
export function otherPaths(): Record<string, object> {
  const proxied = PROXIED_PREFIXES.flatMap((prefix) => [
    // One path item has all methods; `GET` of the statistics is an operation, and other methods are proxied.
    ...(prefix === NATIVE ? [] : [[prefix, { $ref: '#/components/pathItems/Proxied' }] as const]),
    [`${prefix}/{path}`, { $ref: '#/components/pathItems/ProxiedBelow' }] as const,
  ]);
  return { ...Object.fromEntries(proxied), ...pages() };
}

/** The path of the statistics, an operation of the contract. */
const NATIVE = '/api/v1/management/statistics';

/** The methods of {@link otherPaths} that are proxied. */
export function proxiedPathItems(): Record<string, object> {
  return { Proxied: proxiedItem(), ProxiedBelow: { parameters: [pathParameter('path')], ...proxiedItem() } };
}

/** Methods that are proxied on the path of the statistics. */
export function proxiedBesideNative(): Record<string, object> {
  const { get: _native, ...others } = proxiedItem();
  return others;
}

function pathParameter(name: string): object {
  const description = 'Rest of the path; may contain `/`.';
  return { name, in: 'path', required: true, description, schema: { type: 'string' } };
}

function proxiedItem() {
  const operation = {
    tags: ['legacy backend'],
    summary: 'Proxied to the legacy backend',
    responses: {
      default: { description: 'Response of the legacy backend.' },
      400: { $ref: '#/components/responses/BadRequest' },
      403: { $ref: '#/components/responses/Forbidden' },
      502: { $ref: '#/components/responses/BadGateway' },
      503: { $ref: '#/components/responses/Unavailable' },
    },
  };
  return { get: operation, post: operation, put: operation, patch: operation, delete: operation };
}

function pages(): Record<string, object> {
  return {
    '/metrics': textItem('getPrometheusMetrics', 'Get all metrics for Prometheus', 'text/plain'),
    '/api/docs': textItem('getReferencePage', 'Get the API reference', 'text/html'),
    '/api/docs/json': textItem(
      'getReferenceJson',
      'Get the OpenAPI document for the API reference',
      'application/json',
    ),
    '/api/docs/yaml': textItem('getReferenceYaml', 'Get the OpenAPI document as YAML', 'application/x-yaml'),
    '/api/docs/static/{file}': textItem('getReferenceFile', 'Get a file of the API reference', '*/*', [
      pathParameter('file'),
    ]),
  };
}

function textItem(operationId: string, summary: string, type: string, parameters: readonly object[] = []) {
  const content = { [type]: { schema: type === 'application/json' ? { type: 'object' } : { type: 'string' } } };
  return {
    get: {
      operationId,
      tags: ['service'],
      summary,
      ...(parameters.length > 0 && { parameters }),
      responses: {
        200: { description: 'Content, without the envelope', content },
        403: { $ref: '#/components/responses/Forbidden' },
        500: { $ref: '#/components/responses/Internal' },
      },
    },
  };
}
