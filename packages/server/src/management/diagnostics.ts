import {
  type DiagnosticCheck,
  failingReason,
  type IdentitySettings,
  operations,
  type ProxySettings,
  serviceAddress,
} from '@sluice/contract';
import { counted } from '@sluice/protocol/text';
import { formatAddress, httpUpstream } from '../http/address.ts';
import { serverOf } from '../http/client/client.ts';
import type { EgressProxies, ProxySetting } from '../http/client/egress-proxies.ts';
import { checkEndpoint, type EndpointCheck } from '../http/endpoint-check.ts';
import type { ServerRequest } from '../http/server/request.ts';
import { describeProxyHeaders } from '../identity/proxy-headers.ts';
import { unrestrictedCallers } from '../identity/settings.ts';
import { type AuthIssuer, DISCOVERY_PATH, readIssuer } from '../mcp/oauth-metadata.ts';
import type { Forward } from '../registry/entries.ts';
import { OperationError } from '../registry/operation-error.ts';
import { VERSION } from '../telemetry/version.ts';
import type { ManagementContext } from './context.ts';
import { checkFolder, checkListeners, checkOpenFiles, checkPlatform } from './machine-checks.ts';
import { dataResponse } from './responses.ts';
import type { Router } from './router.ts';

/** Addresses checked at the same time. */
const CONCURRENT = 16;
/** Difference from the clocks of other servers; tokens are valid for minutes. */
const CLOCK_SKEW_MS = 60_000;

/** `/api/v1/diagnostics`: the checks of `sluice doctor` that concern the service. */
export function diagnosticsRoutes(router: Router, context: ManagementContext): void {
  let isRunning = false;
  router.add(operations.maintenance.diagnostics, async ({ http }) => {
    if (isRunning) throw new OperationError('UNAVAILABLE', 'diagnostics are running: wait for their end');
    isRunning = true;
    try {
      const checks = await runChecks(context, http);
      return dataResponse(JSON.stringify({ version: VERSION, checks }));
    } finally {
      isRunning = false;
    }
  });
}

async function runChecks(context: ManagementContext, http: ServerRequest): Promise<DiagnosticCheck[]> {
  const { auth, persist, proxies } = context.config;
  const identity = context.identityRevisions.active;
  const endpoints = await checkEndpoints(configuredEndpoints(context), proxies, context);
  const described = endpoints.map(({ endpoint, found }) => describe(endpoint, found));
  return [
    checkPlatform(),
    await checkListeners(context.addresses(), auth !== undefined || identity?.anonymous === 'deny'),
    ...(await context.checkFiles()),
    await checkFolder(persist.path),
    await checkOpenFiles(),
    checkClock(endpoints.map(({ found }) => found)),
    checkProxyHeaders(http, auth, identity?.proxy),
    ...(identity ? [checkRoles(identity)] : []),
    checkEvaluators(context),
    ...(await Promise.all(
      described.map((check) => (check.name === IDENTITY_PROVIDER && auth ? checkIssuer(check, auth, proxies) : check)),
    )),
  ];
}

const IDENTITY_PROVIDER = 'identity provider';

/** A configured address, and what the service itself knows about it. */
interface Endpoint {
  readonly name: string;
  /** Undefined if it is no address on the network. */
  readonly url?: URL;
  /** Why the service cannot use it, although it may be reachable. */
  readonly problem?: string | undefined;
  /** Whether it has a default that may be unused. */
  readonly isOptional?: boolean;
  /** Setting of its forward. */
  readonly proxy?: ProxySetting;
  /** Its forward. */
  readonly forward?: Forward;
  /** In place of the address in messages, for one that must not appear in them. */
  readonly alias?: string;
}

function configuredEndpoints({ registry, forwards, inference, config }: ManagementContext): Endpoint[] {
  const { auth, bootstrap, classicUrl } = config;
  const found: Endpoint[] = [];
  const add = (name: string, address: string, details: Partial<Endpoint> = {}): void => {
    const url = URL.parse(address);
    if (url) found.push({ name, url, ...details });
  };
  for (const forward of registry.current.forwards.values()) {
    const { available, statusMessage = 'unavailable' } = forwards.status(forward.name);
    const hasOrigin = config.kinds.of(forward).origins(forward).length > 0;
    const url = hasOrigin && { url: new URL(forward.address), proxy: forward.proxy };
    found.push({ name: `forward ${forward.name}`, ...url, ...(!available && { problem: statusMessage, forward }) });
  }
  for (const service of registry.current.services.all) {
    add(`service ${service.name}`, `tcp://${serviceAddress(service)}`);
  }
  // Their URLs appear nowhere in the API.
  for (const { name, url } of bootstrap.llmConnections) add(`model ${name}`, url, { alias: `LLM connection ${name}` });
  const address = httpUpstream.parse(inference.upstreamText);
  const upstream = new URL(`${address.scheme}://${formatAddress(address)}`);
  found.push({ name: 'inference upstream', url: upstream, isOptional: true });
  if (classicUrl !== undefined) add('legacy backend', classicUrl);
  if (auth) add(IDENTITY_PROVIDER, auth.upstreamIssuer + DISCOVERY_PATH);
  return found;
}

async function checkEndpoints(endpoints: readonly Endpoint[], proxies: EgressProxies, context: ManagementContext) {
  const waiting = [...endpoints.entries()];
  const results: { endpoint: Endpoint; found: EndpointCheck }[] = [];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [index, endpoint] = next;
      const found = await checkAddress(endpoint, proxies);
      const { forward, url } = endpoint;
      results[index] = { endpoint, found: forward && url ? await testForward(forward, found, context) : found };
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return results;
}

/** Tests a forward that is not available step by step; `found` is what is known about its address. */
async function testForward(
  forward: Forward,
  found: EndpointCheck,
  { forwards }: ManagementContext,
): Promise<EndpointCheck> {
  const { steps } = await forwards.test(forward);
  const failed = steps.find(({ status }) => status === 'failed');
  if (!failed) return found;
  const { step, message = 'failed', remedy } = failed;
  const problem = remedy === undefined ? message : message.replace(`; ${remedy}`, '');
  return { ...found, status: 'failed', message: `${step}: ${problem}`, ...(remedy !== undefined && { remedy }) };
}

/** Of an address behind a proxy, only the proxy is checked. */
async function checkAddress(
  { url, proxy: setting, alias, problem }: Endpoint,
  proxies: EgressProxies,
): Promise<EndpointCheck> {
  if (!url) return { status: problem === undefined ? 'ok' : 'failed', message: problem ?? 'is available' };
  const proxy = proxies.for(url, setting);
  if (!proxy) return checkEndpoint(url, undefined, alias);
  const { status, message, remedy } = await checkEndpoint(new URL(`tcp://${serverOf(proxy.url)}`));
  return { status, message: `${alias ?? url.host} is reached through a proxy: ${message}`, remedy };
}

function describe({ name, problem, isOptional }: Endpoint, found: EndpointCheck): DiagnosticCheck {
  const { message, remedy } = found;
  const status = isOptional && found.status === 'failed' ? 'warning' : found.status;
  if (problem !== undefined && status === 'ok') {
    return {
      name,
      status: 'failed',
      message: `${message} and passes all steps of a test, but the forward is not available: ${problem}`,
      remedy: `Refresh the forward: sluice ${name.replace('forward ', 'forwards refresh ')}`,
    };
  }
  return { name, status, message, remedy };
}

/** Compares the issuer that a reachable identity provider names with the configured one. */
async function checkIssuer(
  reachable: DiagnosticCheck,
  auth: AuthIssuer,
  proxies: EgressProxies,
): Promise<DiagnosticCheck> {
  if (reachable.status === 'failed') return reachable;
  const found = await readIssuer(auth, proxies);
  if ('issuer' in found && found.issuer === auth.issuer) {
    return { ...reachable, message: `${reachable.message} as the issuer ${auth.issuer}` };
  }
  const [message, remedy] =
    'issuer' in found
      ? [
          `the issuer is ${found.issuer}, not ${auth.issuer}`,
          'Set SERVICE_AUTH_ISSUER to the issuer that the provider names, which its tokens contain',
        ]
      : [
          found.problem,
          'Set SERVICE_AUTH_ISSUER to the URL of the realm, and SERVICE_AUTH_UPSTREAM_ISSUER if this machine reaches it at another one',
        ];
  return { name: reachable.name, status: 'failed', message, remedy };
}

/** Compares the clock with those of the servers that responded. One of them may be wrong, but not most. */
function checkClock(found: readonly EndpointCheck[]): DiagnosticCheck {
  const name = 'clock';
  const now = Date.now();
  const skews = found.flatMap(({ serverTime }) => (serverTime === undefined ? [] : [now - serverTime]));
  if (skews.length === 0) return { name, status: 'ok', message: 'no server to compare with' };
  const median = skews.toSorted((a, b) => a - b)[Math.floor(skews.length / 2)] ?? 0;
  const seconds = Math.round(Math.abs(median) / 1000);
  const servers = counted(skews.length, 'server');
  if (Math.abs(median) < CLOCK_SKEW_MS) return { name, status: 'ok', message: `agrees with ${servers}` };
  return {
    name,
    status: 'failed',
    message: `the clock is ${seconds} s ${median > 0 ? 'ahead of' : 'behind'} that of other servers`,
    remedy: 'Synchronize the clock of this machine (timedatectl set-ntp true): tokens and certificates depend on it',
  };
}

/** What an authenticating proxy adds to requests. The values stay out of the response. */
function checkProxyHeaders(
  { head }: ServerRequest,
  auth: AuthIssuer | undefined,
  proxy: ProxySettings | undefined,
): DiagnosticCheck {
  const name = 'proxy headers';
  const { names, hasUser } = describeProxyHeaders(head, proxy);
  const message = names.length > 0 ? `this request has ${names.join(', ')}` : 'this request passed no proxy';
  if (auth === undefined || hasUser) return { name, status: 'ok', message };
  const [missing, setting] = proxy
    ? [`no ${proxy.user}`, `let it send ${proxy.user} (identity.proxy.user)`]
    : ['no user', 'set OAUTH2_PROXY_PASS_USER_HEADERS=true there'];
  return {
    name,
    status: 'warning',
    message: `${message}, and ${missing}`,
    remedy: `Run the check through the authenticating proxy (--host), ${setting}, and do not publish the ports of the service`,
  };
}

function checkRoles(identity: IdentitySettings): DiagnosticCheck {
  const callers = unrestrictedCallers(identity);
  if (callers === undefined) return { name: 'roles', status: 'ok', message: 'changes need a role' };
  const remedy = 'Add roles to identity in the bootstrap file, with the groups that may administer in roles.admin';
  return { name: 'roles', status: 'warning', message: `${callers} can change everything`, remedy };
}

function checkEvaluators({ evaluators: { current }, metrics }: ManagementContext): DiagnosticCheck {
  const name = 'evaluators';
  const { list, skipped } = current;
  const { evaluators } = metrics.snapshot();
  const failing = list.flatMap(({ definition }) => {
    const counts = evaluators[definition.name];
    const reason = counts && failingReason(counts);
    return reason === undefined ? [] : [`${definition.name} (${reason})`];
  });
  if (skipped.length === 0 && failing.length === 0) return { name, status: 'ok', message: `${list.length} loaded` };
  const problems = [
    ...(skipped.length > 0 ? [`skipped, so that they decide about nothing: ${skipped.join(', ')}`] : []),
    ...(failing.length > 0 ? [`all of the last evaluations failed: ${failing.join(', ')}`] : []),
  ];
  const correct = 'correct the evaluators and apply them again';
  return {
    name,
    status: 'failed',
    message: `${list.length} loaded; ${problems.join('; ')}`,
    remedy: `See the warnings of target service::evaluator in the log, ${failing.length > 0 ? `correct the LLM connections, or ${correct}` : correct}`,
  };
}
