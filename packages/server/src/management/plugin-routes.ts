import { realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { operations } from '@sluice/contract';
import type { ResponseLike } from '../http/exchange.ts';
import { filterHeaders } from '../http/header-lines.ts';
import { ProxiedExchange, upstreamRequestHeaders } from '../http/proxy.ts';
import type { ServerRequest } from '../http/server/request.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { SECURITY_HEADERS } from './admin-console.ts';
import type { ManagementContext } from './context.ts';
import { openFile } from './files.ts';
import { DOT_SEGMENTS, hasDotSegments, SANDBOX, withSandbox } from './legacy-backend.ts';
import type { Plugins } from './plugins.ts';
import { type ApiResponse, dataResponse, errorResponse, pathNotFound, plainError, withHeaders } from './responses.ts';
import type { Router } from './router.ts';

/** `/api/v1/plugins`, and the files of plugins below `/plugins/`; neither in the headless distribution. */
export function pluginRoutes(router: Router, { plugins, config: { uiPath } }: ManagementContext): void {
  const list = uiPath === undefined ? [] : plugins.list;
  router.add(operations.observability.plugins, () => dataResponse(`[${list.map(({ json }) => json).join(',')}]`));
  if (uiPath === undefined) return;
  router.addPath('/plugins/*', 'open', ({ http, path }) => pluginFile(http, path, plugins));
}

async function pluginFile(http: ServerRequest, path: string, plugins: Plugins): Promise<ApiResponse> {
  if (hasDotSegments(path)) return errorResponse('BAD_REQUEST', DOT_SEGMENTS);
  const [, , id = '', ...segments] = decodeURI(path).split('/');
  const plugin = plugins.get(id);
  const file = segments.join('/');
  if (!plugin || file === '') return pathNotFound(path);
  const resolved = await realpath(join(plugin.folder, file)).catch(() => undefined);
  if (resolved === undefined) return pathNotFound(path);
  if (!resolved.startsWith(plugin.folder + sep)) return errorResponse('FORBIDDEN', `path not allowed: ${path}`);
  const url = `/${encodeURIComponent(file).replaceAll('%2F', '/')}`;
  const { isFile, response } = await openFile(http, url, { root: plugin.folder });
  if (!isFile) return pathNotFound(path);
  return withHeaders(response, { ...FILE_HEADERS, 'cache-control': 'no-cache' });
}

/** Headers of the files of plugins. */
const FILE_HEADERS = {
  ...SECURITY_HEADERS,
  'content-security-policy': `${SECURITY_HEADERS['content-security-policy']}; ${SANDBOX}`,
};

const SERVICE_PATH = /^\/api\/plugins\/([^/]+)\/([^/]+)(\/.*)?$/;

/** The client headers that a service gets: none identifies the user or carries credentials. */
const SENT_HEADERS: ReadonlySet<string> = new Set(['accept', 'content-type']);

/** Response headers that act on the browser beyond the response: the service shares its origin with the console. */
const REMOVED_HEADERS: ReadonlySet<string> = new Set([
  'set-cookie',
  'clear-site-data',
  'service-worker-allowed',
  'strict-transport-security',
  'refresh',
  'www-authenticate',
  'x-content-type-options',
]);

/** Paths of requests for services of plugins. */
export const PLUGIN_SERVICES = /^\/api\/plugins(?:\/|$)/;

/** Options of {@link servePluginService}. */
export interface PluginServiceOptions {
  readonly plugins: Plugins;
  /** Own response headers: names and values, alternating. */
  readonly ownHeaders: readonly string[];
  readonly log: TargetLogger;
}

/**
 * Proxies a request to a service of a plugin, whose body is unread. Returns the response if the request is not sent, else the
 * `host:port` that gets it.
 */
export function servePluginService(
  request: ServerRequest,
  response: ResponseLike,
  { plugins, ownHeaders, log }: PluginServiceOptions,
): ApiResponse | string {
  const { url } = request;
  const [path = ''] = url.split('?', 1);
  if (hasDotSegments(path)) return errorResponse('BAD_REQUEST', DOT_SEGMENTS);
  const [, plugin = '', service = '', rest = ''] = SERVICE_PATH.exec(path) ?? [];
  const target = plugins.target(plugin, service);
  if (!target) return errorResponse('NOT_FOUND', `service of a plugin not found: ${path}`);
  const plan = {
    transport: plugins.transport(target),
    path: `${target.pathname.replace(/\/$/, '')}${rest || '/'}${url.slice(path.length)}`,
    headers: upstreamRequestHeaders(filterHeaders(request.head.rawHeaders, (name) => SENT_HEADERS.has(name))),
    responseHeaders: ownHeaders,
    editResponse: secureHeaders,
    failureResponse: () => plainError('BAD_GATEWAY', `service ${service} of plugin ${plugin} did not respond`),
    onFailure: ({ message }: Error) => log.warn('service of a plugin failed', { plugin, service, reason: message }),
  };
  new ProxiedExchange(plan, request, response).start();
  return target.host;
}

/** Headers of a service's response as the browser gets them: names and values, alternating. */
function secureHeaders(status: number, headers: readonly string[]): string[] {
  const isRedirect = status >= 300 && status < 400;
  // A browser would follow a location: to the management API with the user's rights, or elsewhere.
  const kept = filterHeaders(headers, (name) => !REMOVED_HEADERS.has(name) && !(isRedirect && name === 'location'));
  return withSandbox([...kept, 'X-Content-Type-Options', 'nosniff']);
}
