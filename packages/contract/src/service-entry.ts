import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { byValue } from './json.ts';
import { labels } from './labels.ts';
import { entryName } from './names.ts';

const aliases = { serviceName: 'name', service_type: 'serviceType' };

const TYPES = ['tool-invoker', 'resource-provider', 'multi-capability', 'code-execution-engine'] as const;

/** What a capability service does (decisions 2.8). */
export const serviceType = z.enum(TYPES, {
  error: ({ input }) => (input === undefined ? 'is required' : `must be one of ${TYPES.join(', ')}`),
});

/** What the last probe of a capability service said (decisions 3). */
export const serviceHealth = z.enum(['pending', 'healthy', 'unhealthy', 'down']);

const HOST_NAME = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?';
const IS_HOST_NAME = new RegExp(`^${HOST_NAME}$`);
/** `host:port` taken apart, an IPv6 address in brackets. */
const ADDRESS = /^(?:\[([^[\]]+)\]|([^:[\]]+)):([0-9]{1,5})$/;

/** A port; of numbers that are spelled otherwise, such as 50051.0, their value counts. */
const port = byValue(z.number().int().min(1).max(65_535));

/** A host name or an IP address, without a port; an IPv6 address has no brackets. */
const host = z
  .string()
  .trim()
  .refine((text) => IS_HOST_NAME.test(text) || isIpv6(text), 'must be a host name or an IP address')
  .meta({ anyOf: [{ pattern: `^${HOST_NAME}$` }, { format: 'ipv6' }] });

const address = z
  .string()
  .trim()
  .refine((text) => takenApart(text) !== undefined, 'must be host:port without http://, with a port from 1 to 65535')
  // Which ports there are, and how an IPv6 address is written, a pattern could say only at great length.
  .meta({ pattern: `^(?:${HOST_NAME}|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$` });

const body = z.object({
  name: entryName.describe('Alias `serviceName`.'),
  address: address
    .optional()
    .describe('`host:port`, an IPv6 address in brackets. Needed unless `host` and `port` are given.'),
  host: host.optional().describe('Must agree with `address` where both are given; an IPv6 address without brackets.'),
  port: port.optional().describe('Must agree with `address` where both are given.'),
  serviceType: serviceType.describe('Alias `service_type`.'),
  serviceSubType: z.string().optional().describe('Engine of a code-execution engine.'),
  languageName: z.string().optional().describe('Language of a code-execution engine.'),
  labels: labels.optional().describe('Free texts by name.'),
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
      const whole = takenApart(entry.address);
      const refuse = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      // What is wrong with an address by itself has been said.
      if (!whole && entry.address !== undefined) return;
      if (!whole && entry.host === undefined) refuse('address', 'is required, or host and port');
      else if (!whole && entry.port === undefined) refuse('port', 'is required with host');
      else if (whole && entry.host !== undefined && entry.host !== whole.host) refuse('host', 'contradicts address');
      else if (whole && entry.port !== undefined && entry.port !== whole.port) refuse('port', 'contradicts address');
    })
    .transform(({ address: whole, host: name = '', port: number = 0, ...entry }) => ({
      ...entry,
      ...(takenApart(whole) ?? { host: name, port: number }),
    })),
).meta({ id: 'ServiceInput', anyOf: [{ required: ['address'] }, { required: ['host', 'port'] }] });

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
    health: serviceHealth.describe('What the last probe said; `pending` before the first.'),
  })
  .meta({ id: 'Service' });

/** Answer of `GET /api/v1/services/{name}`: the first registered entry, and all of them when there are several. */
export const servicesOfName = service.extend({ entries: z.array(service).optional() });

/** Answer of `DELETE /api/v1/services/{name}`: how many entries went (decisions 4.2). */
export const servicesRemoved = z.object({ removed: z.string(), count: z.number().int() });

/** The members that tell service entries apart (decisions 2.2). */
export interface ServiceKey {
  readonly name: string;
  readonly serviceType: string;
  readonly serviceSubType?: string | undefined;
  readonly languageName?: string | undefined;
}

export type ServiceType = z.infer<typeof serviceType>;
export type ServiceHealth = z.infer<typeof serviceHealth>;
export type ServiceInput = z.output<typeof serviceInput>;
export type Service = z.infer<typeof service>;

/** What makes a service entry the same one (decisions 2.2), as text. */
export function serviceId({ name, serviceType, serviceSubType, languageName }: ServiceKey): string {
  return JSON.stringify([name, serviceType, serviceSubType ?? null, languageName ?? null]);
}

/** `host:port`; the colons of an IPv6 address are told from the one before the port by brackets (decisions 2.8). */
export function serviceAddress({ host, port }: { readonly host: string; readonly port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function takenApart(address = ''): { host: string; port: number } | undefined {
  const [, bracketed, plain = '', digits] = ADDRESS.exec(address) ?? [];
  const { success, data } = port.safeParse(Number(digits));
  const valid = bracketed === undefined ? IS_HOST_NAME.test(plain) : isIpv6(bracketed);
  return success && valid ? { host: bracketed ?? plain, port: data } : undefined;
}

function isIpv6(text: string): boolean {
  return z.ipv6().safeParse(text).success;
}
