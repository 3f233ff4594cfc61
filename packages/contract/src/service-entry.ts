import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { labels } from './labels.ts';
import { entryName } from './names.ts';

const aliases = { serviceName: 'name', service_type: 'serviceType' };

/** What a capability service does (decisions 2.8). */
export const serviceType = z.enum(['tool-invoker', 'resource-provider', 'multi-capability', 'code-execution-engine']);

/** What the last probe of a capability service said (decisions 3). */
export const serviceHealth = z.enum(['pending', 'healthy', 'unhealthy', 'down']);

const HOST_NAME = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?';
const port = z.number().int().min(1).max(65_535);

/** A host name or an IP address, without a port; an IPv6 address has no brackets. */
const host = z
  .string()
  .trim()
  .regex(new RegExp(`^(?:${HOST_NAME}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$`), 'must be a host name or an IP address');

/** `host:port`; an IPv6 address stands in brackets. */
const address = z
  .string()
  .trim()
  .regex(new RegExp(`^(?:${HOST_NAME}|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$`), 'must be host:port')
  .refine(
    (text) => port.safeParse(Number(text.slice(text.lastIndexOf(':') + 1))).success,
    'must have a port from 1 to 65535',
  );

const body = z.object({
  name: entryName,
  address: address.optional(),
  host: host.optional(),
  port: port.optional(),
  serviceType,
  serviceSubType: z.string().optional(),
  languageName: z.string().optional(),
  labels: labels.optional(),
  id: z.string().optional(),
});

/**
 * Body of `POST /api/v1/services` under canonical names: `address`, or `host` and `port` (decisions 2.8). All three may
 * be given, as they are answered, when they say the same.
 */
export const serviceInput = withAliases(
  aliases,
  body
    .superRefine((entry, context) => {
      const whole = entry.address === undefined ? undefined : takeApart(entry.address);
      const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      if (!whole && entry.host === undefined) refuse('address', 'is required, or host and port');
      else if (!whole && entry.port === undefined) refuse('port', 'is required with host');
      else if (whole && entry.host !== undefined && entry.host !== whole.host) refuse('host', 'contradicts address');
      else if (whole && entry.port !== undefined && entry.port !== whole.port) refuse('port', 'contradicts address');
    })
    .transform(({ address: text = '', host: name = '', port: number = 0, ...entry }) => ({
      ...entry,
      ...(text === '' ? { host: name, port: number } : takeApart(text)),
    })),
).meta({ id: 'ServiceInput' });

/** A service entry as it is answered (decisions 2.8). */
export const service = z
  .object({
    name: z.string(),
    host: z.string(),
    port: z.number().int(),
    address: z.string(),
    serviceType,
    serviceSubType: z.string().optional(),
    languageName: z.string().optional(),
    labels,
    id: z.string().optional(),
    health: serviceHealth,
  })
  .meta({ id: 'Service' });

/** Answer of `GET /api/v1/services/{name}`: the first registered entry, and all of them when there are several. */
export const servicesOfName = service.extend({ entries: z.array(service).optional() });

/** Answer of `DELETE /api/v1/services/{name}`: how many entries went (decisions 4.2). */
export const servicesRemoved = z.object({ removed: z.string(), count: z.number().int() });

export type ServiceType = z.infer<typeof serviceType>;
export type ServiceHealth = z.infer<typeof serviceHealth>;
export type ServiceInput = z.output<typeof serviceInput>;
export type Service = z.infer<typeof service>;

function takeApart(text: string): { host: string; port: number } {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) };
}
