import { randomBytes } from 'node:crypto';
import { getCACertificates } from 'node:tls';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { StoredBlocks } from '../access/stored-blocks.ts';
import { AdmittedRequests, type IsRejected } from '../http/admitted-requests.ts';
import { collectResponse } from '../http/client/collect-response.ts';
import { Egress } from '../http/client/egress.ts';
import { UpstreamSockets } from '../http/client/upstream-sockets.ts';
import { openFilesLimit, socketLimits } from '../http/open-files.ts';
import { Secrets } from '../http/secrets/secrets.ts';
import { Identity } from '../identity/identity.ts';
import type { FetchIssuer, IssuerRequest } from '../identity/issuer-keys.ts';
import { RecoveryKeys } from '../identity/recovery.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { ConsoleSignIn } from '../management/sign-in/sign-in.ts';
import type { OpenResponseTimes } from '../mcp/open-responses.ts';
import { SESSION_LIFETIME_MS } from '../mcp/sessions/sessions.ts';
import type { ComponentCompiler } from '../policy/sandbox/action.ts';
import type { Files } from '../registry/store/files.ts';
import type { Logger } from '../telemetry/log.ts';
import { StateEvents } from '../telemetry/state-events.ts';
import { VERSION } from '../telemetry/version.ts';
import { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import type { Config } from './config/config.ts';
import { openIdentity } from './identity.ts';
import { openRecovery } from './recovery.ts';
import type { Replica } from './replica.ts';
import { openLogs, openRegistry, openSealer } from './storage.ts';

/** Identity of the service, sent to clients and upstreams. */
export const SERVER_INFO: Implementation = { name: 'sluice', title: 'Sluice', version: VERSION };

/** What the service is started with. */
export interface CoreOptions {
  readonly config: Config;
  readonly logger: Logger;
  readonly files: Files;
  readonly compiler: ComponentCompiler;
  readonly openResponseTimes: OpenResponseTimes | undefined;
  /** Returns the number of lost log lines. */
  readonly droppedLines: () => number;
  /** Open resources, which are closed in reverse order; a failing one does not prevent the others. */
  readonly open: AsyncDisposableStack;
  /** Returns the milliseconds for the last export of telemetry. */
  readonly lastExportMs: () => number;
}

/** The innermost layer: see {@link openCore}. */
export type Core = Awaited<ReturnType<typeof openCore>>;

/** Opens the stored state, which is locked from then on, and creates what has no dependencies but the configuration. */
export async function openCore(options: CoreOptions) {
  const { config, open } = options;
  const closing = <Part extends { close(): unknown } | undefined>(part: Part): Part => {
    open.defer(async () => void (await part?.close()));
    return part;
  };
  const interactions = new InteractionStore(config.interactionCapacity);
  const replica = closing(await openReplica(options, interactions));
  const shared = replica?.shared;
  // That of the replicas is closed with them.
  const storage = { ...options, shared, ...(await openLogs({ ...options, shared }, closing)) };
  const registry = closing(await openRegistry(storage));
  const log = options.logger.target('service::mgmt');
  const storedBlocks = closing(new StoredBlocks({ registry, log, retainMs: SESSION_LIFETIME_MS }));
  await storedBlocks.open(storage.records);
  const { upstreamIdleTimeoutMs: idleMs, upstreamMaxTimeoutMs: totalMs, proxies } = config;
  const sockets = socketLimits(openFilesLimit());
  const egress = new Egress(proxies, {
    sockets: new UpstreamSockets(sockets.upstreams),
    get droppedHeaders() {
      return identity.droppedHeaders;
    },
  });
  const calls = closing(new InFlightCalls({ idleMs, totalMs }));
  // Keys are fetched at once, but the client needs the identity.
  const fetch: FetchIssuer = (request) => Promise.resolve().then(() => fetchFromIssuer(egress, request));
  const sealer = await openSealer(storage);
  const { consoleUrl } = config;
  const signIn: ConsoleSignIn = new ConsoleSignIn({ consoleUrl, sealer, fetch, identity: () => identity, log });
  const signIns = closing(signIn.stored);
  await signIns.open(storage.records);
  const find = await openRecovery(storage);
  const identity = closing(
    new Identity(undefined, {
      publicUrl: config.publicUrl?.href,
      fetch,
      signIns,
      recovery: find && new RecoveryKeys({ find, onUse: (address) => log.error('recovery key used', { address }) }),
      report: ({ name: issuer }, error) => {
        if (error === undefined) log.info('keys of the token issuer fetched again', { issuer });
        else log.warn('keys of the token issuer could not be fetched; retrying', { issuer, error });
      },
    }),
  );
  const admitted = new AdmittedRequests(calls);
  signIns.changed.subscribe((id) => void admitted.end((...request) => isOutdated(identity, id, request)));
  return {
    ...storage,
    closing,
    identity,
    identityRevisions: closing(await openIdentity({ ...storage, registry, identity, admitted })),
    registry,
    storedBlocks,
    blocks: storedBlocks.blocks,
    sockets,
    interactions,
    replica,
    replicaId: shared?.members.id ?? randomBytes(6).toString('base64url'),
    calls,
    admitted,
    sealer,
    signIn,
    secrets: new Secrets(config.secrets),
    egress,
    stateEvents: new StateEvents(),
  };
}

/** Whether a request was admitted by the sign-in with this id, which has ended since then, or has other groups. */
function isOutdated(identity: Identity, id: string, [by, served, namespace]: Parameters<IsRejected>): boolean {
  const { proof, principal } = by;
  if (proof.kind !== 'sign_in' || proof.id !== id) return false;
  const again = identity.reassess(by, served, namespace)?.principal;
  return again?.groups.join('\n') !== principal.groups.join('\n');
}

/** Undefined without a database that replicas share: then nothing of it is loaded. */
async function openReplica(
  { config, logger }: CoreOptions,
  interactions: InteractionStore,
): Promise<Replica | undefined> {
  const { persist } = config;
  if (persist.backend !== 'postgres') return undefined;
  const { Replica } = await import('./replica.ts');
  return await Replica.open({ database: persist.database, config, interactions, logger });
}

/** Sends a request to a token issuer, by the egress proxies of the service. */
async function fetchFromIssuer(egress: Egress, { url, ca, form, ...limits }: IssuerRequest) {
  const transport = egress.open(url, {
    redirects: 'pass',
    ...(ca !== undefined && { tls: { ca: [...getCACertificates(), ca] } }),
  });
  const request = form
    ? { method: 'POST', headers: ['content-type', 'application/x-www-form-urlencoded'], body: form.toString() }
    : { method: 'GET', headers: ['accept', 'application/json'] };
  try {
    const { status, body } = await collectResponse(transport, request, limits);
    return { status, body: body.toString() };
  } finally {
    void transport.destroy();
  }
}
