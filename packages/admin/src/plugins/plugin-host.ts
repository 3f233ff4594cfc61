import { PLUGIN_HOST_VERSION } from '@sluice/contract';
import type { NavigationItem, PluginHost, PluginPage } from '@sluice/contract/plugin-host';
import type { PluginManifest } from '../api/queries.ts';
import type { Toasts } from '../ui/toasts.tsx';

/** Where a plugin registers. */
interface Registrations {
  register(kind: 'navigation', plugin: PluginManifest, item: NavigationItem): { dispose(): void };
  register(kind: 'pages', plugin: PluginManifest, item: PluginPage): { dispose(): void };
}

/** A call to a service of a plugin failed. */
class ServiceCallError extends Error {
  override readonly name = 'ServiceCallError';
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Creates what a plugin gets: its permissions are checked with each use. */
export function createPluginHost(
  plugin: PluginManifest,
  registrations: Registrations,
  toasts: Toasts,
  base: string,
): PluginHost {
  const { permissions, requires } = plugin;
  const requirePermission = (permission: string): void => {
    if (permissions && !permissions.includes(permission)) {
      throw new Error(`plugin ${plugin.id} lacks the permission ${permission}`);
    }
  };
  const requireService = (service: string, access: 'read' | 'write'): void => {
    if (!requires?.services?.some(({ id }) => id === service)) {
      throw new ServiceCallError(`plugin ${plugin.id} does not require the service ${service}`);
    }
    const isRestricted = permissions?.some((permission) => permission.startsWith(`service:${service}:`));
    if (isRestricted) requirePermission(`service:${service}:${access}`);
  };
  const call = async (method: string, service: string, path: string, body?: unknown): Promise<unknown> => {
    requireService(service, method === 'GET' ? 'read' : 'write');
    const url = `${base}/api/plugins/${encodeURIComponent(plugin.id)}/${encodeURIComponent(service)}/${path.replace(/^\//, '')}`;
    const json =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(url, { method, redirect: 'manual', ...json }).catch((cause: unknown) => {
      throw new ServiceCallError(`the service ${service} does not respond`, undefined, { cause });
    });
    const text = await response.text();
    if (response.ok) return parsed(text);
    throw new ServiceCallError(
      messageIn(text) ?? `the service ${service} answered ${response.status}`,
      response.status,
    );
  };
  return Object.freeze<PluginHost>({
    version: PLUGIN_HOST_VERSION,
    navigation: {
      add(item) {
        requirePermission('navigation');
        return registrations.register('navigation', plugin, item);
      },
    },
    pages: {
      register(page) {
        requirePermission('pages');
        return registrations.register('pages', plugin, page);
      },
    },
    http: {
      get: (service, path) => call('GET', service, path),
      delete: (service, path) => call('DELETE', service, path),
      post: (service, path, body) => call('POST', service, path, body),
      put: (service, path, body) => call('PUT', service, path, body),
    },
    notifications: {
      show({ title, text, kind = 'info' }) {
        requirePermission('notifications');
        toasts.show(title === undefined ? { kind, title: text } : { kind, title, text });
      },
    },
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The message of the service itself, or of the console in the envelope. */
function messageIn(text: string): string | undefined {
  const value = parsed(text);
  const error: unknown = typeof value === 'object' && value !== null && 'error' in value ? value.error : undefined;
  if (typeof error === 'string') return error;
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message);
  return undefined;
}
