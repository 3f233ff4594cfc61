import { z } from 'zod';
import { SERVICE_TYPES } from '../values.ts';
import { entryName, labels } from './fields.ts';
import { coerceRawNumber, withAliases } from './json.ts';

const aliases = { serviceName: 'name', service_type: 'serviceType' };

/** Type of a capability service. */
export const serviceType = z.enum(SERVICE_TYPES, {
  error: ({ input }) => (input === undefined ? 'is required' : `must be one of ${SERVICE_TYPES.join(', ')}`),
});

/** Health of a capability service. */
export const serviceHealth = z.enum(['pending', 'healthy', 'unhealthy', 'down']);

const HOST_NAME = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?';
const IS_HOST_NAME = new RegExp(`^${HOST_NAME}$`);
/** Captures the host of `host:port` (in group 1 without the brackets of an IPv6 address) and the port. */
const ADDRESS = /^(?:\[([^[\]]+)\]|([^:[\]]+)):([0-9]{1,5})$/;

const port = coerceRawNumber(z.number().int().min(1).max(65_535));

/** Host name or IP address; an IPv6 address without brackets. */
const host = z
  .string()
  .trim()
  .refine((text) => IS_HOST_NAME.test(text) || isIpv6(text), 'must be a host name or an IP address')
  .meta({ anyOf: [{ pattern: `^${HOST_NAME}$` }, { format: 'ipv6' }] });

const address = z
  .string()
  .trim()
  .refine((text) => parseAddress(text) !== undefined, 'must be host:port without http://, with a port from 1 to 65535')
  // Approximates the rules for ports and IPv6 addresses.
  .meta({ pattern: `^(?:${HOST_NAME}|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$` });

const serviceMembers = z.object({
  name: entryName.describe('Alias: `serviceName`.'),
  address: address
    .optional()
    .describe('`host:port`, an IPv6 address in brackets. Required unless `host` and `port` are set.'),
  host: host
    .optional()
    .describe('Host name or IP address; an IPv6 address without brackets. Must match `address` if both are set.'),
  port: port.optional().describe('Port. Must match `address` if both are set.'),
  serviceType: serviceType.describe('Alias: `service_type`.'),
  serviceSubType: z.string().optional().describe('Engine of a code-execution engine.'),
  languageName: z.string().optional().describe('Language of a code-execution engine.'),
  labels: labels.optional().describe('Labels.'),
  id: z.string().optional(),
});

/** Body of `POST /api/v1/services`: `address`, or `host` and `port`, or all three if they match. */
export const serviceInput = withAliases(
  aliases,
  serviceMembers
    .superRefine((entry, context) => {
      const parsed = parseAddress(entry.address);
      const reject = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      // The schema of `address` has reported an invalid one.
      if (!parsed && entry.address !== undefined) return;
      if (!parsed && entry.host === undefined) reject('address', 'is required unless host and port are set');
      else if (!parsed && entry.port === undefined) reject('port', 'is required if host is set');
      else if (parsed && entry.host !== undefined && entry.host !== parsed.host)
        reject('host', 'does not match address');
      else if (parsed && entry.port !== undefined && entry.port !== parsed.port)
        reject('port', 'does not match address');
    })
    .transform(({ address, host = '', port = 0, ...entry }) => ({
      ...entry,
      ...(parseAddress(address) ?? { host, port }),
    })),
).meta({ id: 'ServiceInput', anyOf: [{ required: ['address'] }, { required: ['host', 'port'] }] });

/** A service entry in responses. */
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
    health: serviceHealth.describe('Result of the last health probe; `pending` before the first.'),
  })
  .meta({ id: 'Service' });

/** Response of `GET /api/v1/services/{name}`: the first registered entry, and all entries if there are several. */
export const serviceDetails = service.extend({ entries: z.array(service).optional() });

/** Response of `DELETE /api/v1/services/{name}`: the number of deleted entries. */
export const serviceDeleteResult = z.object({ removed: z.string(), count: z.number().int() });

/** Members that identify a service entry. */
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

/** Returns the key of a service entry as a string. */
export function serviceKey({ name, serviceType, serviceSubType, languageName }: ServiceKey): string {
  return JSON.stringify([name, serviceType, serviceSubType ?? null, languageName ?? null]);
}

/** Returns `host:port`, with brackets around an IPv6 address. */
export function serviceAddress({ host, port }: { readonly host: string; readonly port: number }): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function parseAddress(address = ''): { host: string; port: number } | undefined {
  const [, bracketed, plain = '', digits] = ADDRESS.exec(address) ?? [];
  const { success, data } = port.safeParse(Number(digits));
  const valid = bracketed === undefined ? IS_HOST_NAME.test(plain) : isIpv6(bracketed);
  return success && valid ? { host: bracketed ?? plain, port: data } : undefined;
}

function isIpv6(text: string): boolean {
  return z.ipv6().safeParse(text).success;
}

const provisionMembers = {
  name: entryName.describe('Name under which configuration and secrets are stored.'),
  configuration: z.string().default('').describe('Configuration data.'),
  secrets: z.string().default('').describe('Secrets. Passed to the capability service and not stored by Sluice.'),
  uri: z.string().default('').describe('Provisioning target, interpreted by the capability service.'),
};

/**
 * Body of `POST /api/v1/services/{name}/provisions`. Rejects unknown members, unlike other bodies: members default to empty, so a
 * misspelled one would overwrite a secret with an empty one.
 */
export const provisionInput = z.strictObject(provisionMembers).meta({ id: 'ProvisionInput' });

/** Response of `POST /api/v1/services/{name}/provisions`. */
export const provisionResult = z
  .object({
    configurationUri: z.string().describe('Value for the `configurationURI` of a tool or resource.'),
    secretUri: z.string().describe('Value for the `secretsURI` of a tool or resource.'),
    properties: z
      .record(z.string(), z.object({ type: z.string(), description: z.string(), required: z.boolean() }))
      .describe('Configuration properties of the service, by name.'),
  })
  .meta({ id: 'Provisioned' });

export type ProvisionInput = z.output<typeof provisionInput>;
export type ProvisionResult = z.infer<typeof provisionResult>;
