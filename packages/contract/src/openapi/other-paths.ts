import type { Right } from '../operations/operation.ts';
import { PROXIED_PREFIXES } from '../operations/proxied.ts';
import { security } from './security.ts';

/** Paths that are not operations of the contract, because they do not answer with the envelope. */
export function otherPaths(): Record<string, object> {
  const proxied = PROXIED_PREFIXES.filter((prefix) => prefix !== NATIVE).map((prefix) => [prefix, REFERENCE] as const);
  return { ...Object.fromEntries(proxied), ...mcpEndpoint(), ...pages() };
}

/** The path of the statistics, an operation of the contract. */
const NATIVE = '/api/v1/management/statistics';
const REFERENCE = { $ref: '#/components/pathItems/Proxied' };

const UNAUTHORIZED = { $ref: '#/components/responses/Unauthorized' };

/** The methods of all prefixes that are proxied: a page with operations for each would take long to load. */
export function proxiedPathItems(): Record<string, object> {
  return { Proxied: proxiedItem() };
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
    summary: 'Proxied to the legacy backend, like all paths that begin with this one',
    ...security('change_registry'),
    responses: {
      default: { description: 'Response of the legacy backend.' },
      400: { $ref: '#/components/responses/BadRequest' },
      401: UNAUTHORIZED,
      403: { $ref: '#/components/responses/Forbidden' },
      502: { $ref: '#/components/responses/BadGateway' },
      503: { $ref: '#/components/responses/Unavailable' },
    },
  };
  return { get: operation, post: operation, put: operation, patch: operation, delete: operation };
}

/** The MCP endpoints of the management listener. */
function mcpEndpoint(): Record<string, object> {
  const operation = (operationId: string, summary: string) => ({
    operationId,
    tags: ['namespaces'],
    summary,
    ...security('change_registry'),
    parameters: [{ name: 'name', in: 'path', required: true, description: 'Namespace.', schema: { type: 'string' } }],
    responses: {
      default: {
        description:
          'As on the MCP listener at `/{name}/mcp`: same filters and evaluators. Events of tool calls have `via: "console"`. No header of the client is copied to an upstream.',
      },
      401: UNAUTHORIZED,
      403: { $ref: '#/components/responses/Forbidden' },
      503: { $ref: '#/components/responses/Unavailable' },
    },
  });
  return {
    '/api/v1/namespaces/{name}/mcp': {
      post: operation('callMcp', 'Send an MCP message to the endpoint of a namespace'),
      get: operation('openMcpStream', 'Open the notification stream of an MCP session'),
      delete: operation('endMcpSession', 'End an MCP session'),
    },
  };
}

function pages(): Record<string, object> {
  return {
    '/metrics': textItem('getPrometheusMetrics', 'Get all metrics for Prometheus', { type: 'text/plain' }),
    '/api/docs': textItem('getReferencePage', 'Get the API reference', { type: 'text/html' }),
    '/api/docs/json': textItem('getReferenceJson', 'Get the OpenAPI document for the API reference', {
      type: 'application/json',
    }),
    '/api/docs/yaml': textItem('getReferenceYaml', 'Get the OpenAPI document as YAML', { type: 'application/x-yaml' }),
    '/api/docs/static/{file}': textItem('getReferenceFile', 'Get a file of the API reference', {
      parameters: [pathParameter('file')],
    }),
    '/admin/{file}': textItem('getConsole', 'Get the web console; 404 in the headless distribution', {
      right: 'open',
      parameters: [pathParameter('file')],
    }),
    '/api/v1/session/login': redirectItem('signIn', 'Sign in: leads a browser to the issuer', [RETURN_TO]),
    '/api/v1/session/callback': redirectItem('completeSignIn', 'Complete a sign-in: leads a browser to the console'),
  };
}

const RETURN_TO = {
  name: 'return_to',
  in: 'query',
  description: 'Where the browser is led afterwards: a page of the console, as path below its URL, `/admin/…`.',
  schema: { type: 'string' },
};

/** A path that browsers are led to, and from there to another one. */
function redirectItem(operationId: string, summary: string, parameters: readonly object[] = []) {
  const page = { content: { 'text/html; charset=utf-8': { schema: { type: 'string' } } } };
  return {
    get: {
      operationId,
      tags: ['sign-in'],
      summary,
      ...security('open'),
      ...(parameters.length > 0 && { parameters }),
      responses: {
        302: { description: 'The next page.' },
        400: { description: 'A page that says why it is not possible.', ...page },
        403: { $ref: '#/components/responses/Forbidden' },
        503: { description: 'A page that says why the issuer cannot be used now.', ...page },
      },
    },
  };
}

interface TextOptions {
  readonly type?: string;
  readonly right?: Right;
  readonly parameters?: readonly object[];
}

function textItem(
  operationId: string,
  summary: string,
  { type = '*/*', right = 'read', parameters = [] }: TextOptions,
) {
  const content = { [type]: { schema: type === 'application/json' ? { type: 'object' } : { type: 'string' } } };
  return {
    get: {
      operationId,
      tags: ['service'],
      summary,
      ...security(right),
      ...(parameters.length > 0 && { parameters }),
      responses: {
        200: { description: 'Content, without the envelope', content },
        ...(right !== 'open' && { 401: UNAUTHORIZED }),
        403: { $ref: '#/components/responses/Forbidden' },
        500: { $ref: '#/components/responses/Internal' },
      },
    },
  };
}
