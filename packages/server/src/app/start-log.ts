import type { IdentitySettings } from '@sluice/contract';
import { MANAGEMENT_LISTENER, REPLICA_LISTENER } from '../exchange/exchange.ts';
import { isReachable } from '../http/address.ts';
import type { EgressProxies } from '../http/client/egress-proxies.ts';
import type { Secrets } from '../http/secrets/secrets.ts';
import { unrestrictedCallers } from '../identity/settings.ts';
import type { LogFields, TargetLogger } from '../telemetry/log.ts';
import { VERSION } from '../telemetry/version.ts';
import type { Config } from './config/config.ts';
import { INFERENCE_LISTENER, type LoadedPipeline, type PipelineListener } from './config/pipeline/pipeline.ts';

/** What the service runs with: version, registry folder and the files that it read. */
export function startFields({ persist, bootstrap, pipelinePath }: Config): LogFields {
  return {
    version: VERSION,
    persistence: persist.backend,
    data_folder: persist.backend === 'file' ? persist.path : undefined,
    service_config: bootstrap.path,
    pipeline_config: pipelinePath,
  };
}

/**
 * Warns of listeners that other machines can reach without authentication. `addresses` are the bound addresses by listener name.
 */
export function warnReachable(
  log: TargetLogger,
  addresses: Readonly<Record<string, string>>,
  { listeners, inferenceAllow, identity }: ReachablePipeline,
): void {
  const reachable = Object.entries(addresses).filter(
    ([name, address]) => isReachable(address) && !(identity && isAuthenticated(name, identity, listeners)),
  );
  if (reachable.length === 0) return;
  const open = listeners.filter((listener) => {
    const { name } = listener;
    if (name === INFERENCE_LISTENER && inferenceAllow) return false;
    return passesEverything(listener) && reachable.some(([other]) => other === name);
  });
  const fields: LogFields = { listeners: Object.fromEntries(reachable) };
  const message = identity ? ANONYMOUS : REACHABLE;
  if (open.length === 0) return log.warn(message, fields);
  log.warn(`${message}; ${UNRESTRICTED}`, { ...fields, unrestricted: open.map(({ name }) => name) });
}

interface ReachablePipeline extends Pick<LoadedPipeline, 'listeners' | 'inferenceAllow'> {
  readonly identity: IdentitySettings | undefined;
}

/** Returns whether a listener accepts no anonymous request that does or shows anything. */
function isAuthenticated(
  name: string,
  { anonymous, inference, roles }: IdentitySettings,
  listeners: ReachablePipeline['listeners'],
): boolean {
  if (name === REPLICA_LISTENER) return true;
  if (anonymous === 'allow') return name === MANAGEMENT_LISTENER && roles !== undefined;
  const filters = listeners.find((listener) => listener.name === name)?.filters ?? [];
  return inference || name === MANAGEMENT_LISTENER || filters.some(({ settings }) => settings.filter === 'mcp');
}

/** Warns if `identity` says who calls, but not who may change what. */
export function warnWithoutRoles(log: TargetLogger, identity: IdentitySettings | undefined): void {
  const callers = identity && unrestrictedCallers(identity);
  if (callers !== undefined)
    log.warn(`${callers} can change everything: identity has no roles; add them to the bootstrap file`);
}

/** Names the proxies of the environment, without their credentials. */
export function logProxies(log: TargetLogger, { variables }: EgressProxies): void {
  if (Object.keys(variables).length > 0)
    log.info('requests to upstreams use the proxies of the environment', variables);
}

/** Names that a warning lists. */
const MAX_NAMES = 50;

/** Warns of secrets that everybody who can register a forward can have sent anywhere. */
export async function warnUnboundSecrets(log: TargetLogger, secrets: Secrets): Promise<void> {
  const names = await secrets.unbound();
  if (names.length === 0) return;
  log.warn('secrets without SERVICE_SECRET_ORIGINS can be sent to any address by everyone who can register a forward', {
    secrets: names.slice(0, MAX_NAMES),
    count: names.length,
  });
}

const REACHABLE =
  'others on the network can use these listeners: there is no authentication; configure identity in the bootstrap file, ' +
  'start with --local to bind them to 127.0.0.1, or let only an authenticating proxy reach them';
const ANONYMOUS =
  'others on the network can use these listeners without a credential; set anonymous: deny in identity, and inference: ' +
  'true for the inference listener';
const UNRESTRICTED = `the unrestricted ones pass every request on, requests that change or delete models included; set SERVICE_INFERENCE_ALLOW=completions to restrict inference`;

/** Returns whether a listener proxies requests with any path. */
function passesEverything({ filters }: Pick<PipelineListener, 'filters'>): boolean {
  return filters.some(
    ({ settings }) =>
      settings.filter === 'router' &&
      settings.routes.some(({ path_prefix, host, headers }) => path_prefix === '/' && !host && !headers),
  );
}
