import type { Replica } from '@sluice/contract';
import { TokenSealer } from '@sluice/protocol/seal';
import { formatAddress, type ListenAddress } from '../http/address.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { type Listener, listen } from '../http/server.ts';
import { ConfigError } from '../http/settings.ts';
import { FileSessionStore, MemorySessionStore, type SessionStore } from '../mcp/sessions/session-store.ts';
import type { SessionStoreLimits } from '../mcp/sessions/session-table.ts';
import { newSessionKey, sessionKeyIn } from '../mcp/sessions/sessions.ts';
import { ActionFiles } from '../policy/action-loader.ts';
import { Evaluators, type EvaluatorsOptions } from '../policy/evaluators.ts';
import { FileRevisionStore, memoryRevisionStore, type RevisionStore } from '../policy/revision-store.ts';
import { bootstrapForward } from '../registry/change-forward.ts';
import { OperationError } from '../registry/operation-error.ts';
import { type ChangeOrigin, Registry, snapshotEntries } from '../registry/registry.ts';
import { type DiscoveryMarks, openDiscoveryMarks } from '../registry/store/discovery-marks.ts';
import { FileStore, type FileStoreOptions } from '../registry/store/file-store.ts';
import { errorCode, errorReason, type Files, isDiskFull } from '../registry/store/files.ts';
import type { SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { SharedRecords } from '../registry/store/postgres/shared-records.ts';
import { memoryStore, ReadOnlyStoreError, type Store } from '../registry/store/store.ts';
import type { Logger, TargetLogger } from '../telemetry/log.ts';
import { VERSION } from '../telemetry/version.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { SharedUpstreamSessions } from '../upstreams/mcp/sessions/shared-sessions.ts';
import { FileTaskStore } from '../upstreams/mcp/tasks/file-task-store.ts';
import { memoryTaskStore, type TaskStore } from '../upstreams/mcp/tasks/task-record.ts';
import { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import type { SharedDiscovery } from '../upstreams/shared-discovery.ts';
import type { Config } from './config/config.ts';
import type { LoadedListener } from './config/pipeline/pipeline.ts';
import { explainTakenPort, followsPort } from './taken-port.ts';
import { untilReachable } from './waiting.ts';

/** Where this process stores its state. */
export interface Storage {
  readonly config: Config;
  readonly logger: Logger;
  readonly files: Files;
  /** What replicas share; undefined for a single process. */
  readonly shared: SharedLog | undefined;
}

/** What replicas share in PostgreSQL; undefined with another backend, for which nothing of it is loaded. */
export async function openSharedLog(config: Config, logger: Logger): Promise<SharedLog | undefined> {
  const { persist } = config;
  if (persist.backend !== 'postgres') return undefined;
  const { Database } = await import('../registry/store/postgres/database.ts');
  const { SharedLog } = await import('../registry/store/postgres/shared-log.ts');
  const log = logger.target('service::registry');
  const shared = new SharedLog({ database: new Database({ ...persist.database, log }), log, version: VERSION });
  await untilReachable(() => shared.open(), config, log);
  return shared;
}

/** Division of discovery among the replicas. */
export async function openSharedDiscovery(
  shared: SharedLog,
  registry: Registry,
  logger: Logger,
): Promise<SharedDiscovery> {
  const { SharedDiscovery } = await import('../upstreams/shared-discovery.ts');
  const log = logger.target('service::forward');
  const sharing = new SharedDiscovery({ shared, forwards: () => registry.current.forwards.keys(), log });
  await sharing.open();
  return sharing;
}

/**
 * Announces where other replicas reach this one. `advertised` has no port of its own if it is 0; `bound` is the address of the
 * listener for them.
 */
export async function announce(
  { members }: SharedLog,
  advertised: ListenAddress | undefined,
  bound: string | undefined,
  log: TargetLogger,
): Promise<void> {
  if (bound === undefined) {
    log.warn(
      'without SERVICE_PEER_LISTEN, clients cannot resume streams or answer questions of calls through another replica',
    );
  } else {
    const port = Number(bound.slice(bound.lastIndexOf(':') + 1));
    members.address = advertised ? formatAddress({ host: advertised.host, port: advertised.port || port }) : bound;
  }
  // A failure delays it to the next renewal.
  await members.renew().catch(() => undefined);
}

/** The replicas for the management API. */
export async function listReplicas({ members }: SharedLog, sharing: SharedDiscovery): Promise<Replica[]> {
  return (await members.list()).map(({ id, version, startedAt, isLive, lag, load }) => ({
    id,
    self: id === members.id,
    version,
    startedAt: startedAt.toISOString(),
    live: isLive,
    lag,
    load: Math.round(load * 1_000) / 1_000,
    forwards: sharing.forwardsOf(id),
  }));
}

/** Small settings that the replicas share; undefined for a single one. */
export async function openSharedRecords<Content>(
  shared: SharedLog | undefined,
  section: string,
  read: (json: string) => Content,
): Promise<SharedRecords<Content> | undefined> {
  if (!shared) return undefined;
  const { SharedRecords } = await import('../registry/store/postgres/shared-records.ts');
  return await SharedRecords.open(shared, section, read);
}

/** Sessions at upstreams that the replicas share. */
export async function openSharedSessions(shared: SharedLog, sealer: TokenSealer): Promise<SharedUpstreamSessions> {
  const { SharedUpstreamSessions } = await import('../upstreams/mcp/sessions/shared-sessions.ts');
  const sessions = new SharedUpstreamSessions(shared, sealer);
  await sessions.open();
  return sessions;
}

/** The stored registry; the lock of a folder decides whether this process may use it at all. */
export async function openRegistry(storage: Storage): Promise<Registry> {
  const log = storage.logger.target('service::registry');
  const store = await registryStore(storage, log, () => snapshotEntries(registry.current));
  const registry: Registry = new Registry(store, (address) => storage.config.kinds.problem(address));
  for (const problem of await registry.load()) log.warn(problem);
  return registry;
}

async function registryStore(
  { config: { persist }, files, shared }: Storage,
  log: TargetLogger,
  snapshot: FileStoreOptions['snapshot'],
): Promise<Store> {
  if (shared) return new (await import('../registry/store/postgres/postgres-store.ts')).PostgresStore(shared);
  if (persist.backend !== 'file') return memoryStore();
  return new FileStore({ log, files, snapshot, folder: persist.path, recover: persist.recover });
}

/** The marks of discoveries in progress; undefined without a folder. Call after {@link openRegistry}, which locks the folder. */
export async function openMarks({ config: { persist }, files }: Storage): Promise<DiscoveryMarks | undefined> {
  return persist.backend === 'file' ? await openDiscoveryMarks(files, persist.path) : undefined;
}

/**
 * Applies the entries of the bootstrap file to the stored state. On a full disk, entries that differ from the stored ones are
 * left out; so are all in the database of a later release.
 */
export async function bootstrap(config: Config, registry: Registry, forwards: Forwards, logger: Logger): Promise<void> {
  const log = logger.target('service::registry');
  const { path } = config.bootstrap;
  // It may be a file of that name in the current folder, which nobody has named.
  if (path !== undefined) log.info('bootstrap file loaded', { file: path });
  try {
    await applyBootstrap(config, registry, forwards, log);
  } catch (error) {
    if (!(error instanceof ReadOnlyStoreError)) throw error;
    log.error('bootstrap file not applied', { error });
  }
}

const BOOTSTRAP: ChangeOrigin = { actor: 'bootstrap', reason: 'apply the bootstrap file' };

async function applyBootstrap(
  config: Config,
  registry: Registry,
  forwards: Forwards,
  log: TargetLogger,
): Promise<void> {
  await unlessDiskFull(
    registry.commit((draft) => {
      for (const { name, labels } of config.bootstrap.namespaces) {
        if (labels || !draft.namespaces.has(name)) draft.putNamespace(name, labels);
      }
    }, BOOTSTRAP),
    (error) => log.error('disk full: namespaces of the bootstrap file are not applied', { error }),
  );
  for (const { prefix = '', proxy, compression, ...entry } of config.bootstrap.forwards) {
    try {
      await unlessDiskFull(
        registry.commit((draft) => {
          const described = { ...entry, prefix, proxy, compression: compression || undefined };
          const before = draft.forwards.get(entry.name);
          const after = bootstrapForward(draft, described);
          forwards.requireUsable(after);
          if (before && entry.headers === undefined) forwards.kinds.requireSameOrigin(before, after);
        }, BOOTSTRAP),
        (error) => log.error('disk full: forward of the bootstrap file is not applied', { forward: entry.name, error }),
      );
    } catch (error) {
      if (!(error instanceof OperationError)) throw error;
      log.warn('forward of the bootstrap file not applied', { forward: entry.name, reason: error.message });
    }
  }
}

/** Waits for a write. On a full disk it calls `onFull` instead of throwing. */
async function unlessDiskFull(write: Promise<unknown>, onFull: (error: unknown) => void): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    onFull(error);
  }
}

/** The evaluators, none of which is active before they are started. */
export async function createEvaluators(
  storage: Storage,
  parts: Pick<EvaluatorsOptions, 'compiler' | 'schemas' | 'namespaceExists'>,
): Promise<Evaluators> {
  const { bootstrap, actionsPath, evaluatorsStrict } = storage.config;
  const log = storage.logger.target('service::evaluator');
  return new Evaluators({
    ...parts,
    connections: bootstrap.llmConnections,
    strict: evaluatorsStrict,
    files: new ActionFiles({ baseFolder: bootstrap.folder, actionsPath }),
    store: await revisionStore(storage, log),
    log,
  });
}

async function revisionStore(
  { config: { persist }, files, shared }: Storage,
  log: TargetLogger,
): Promise<RevisionStore> {
  if (shared) return new (await import('../policy/postgres-revision-store.ts')).PostgresRevisionStore(shared);
  if (persist.backend !== 'file') return memoryRevisionStore();
  return new FileRevisionStore({ files, log, now: Date.now, folder: persist.path, recover: persist.recover });
}

/**
 * Seals sessions and the state of calls, with the stored or configured key. On a full disk a new key is not stored: its
 * sessions end with the process.
 */
export async function openSealer({ config, logger, files }: Storage): Promise<TokenSealer> {
  const { persist, sessionKey } = config;
  if (sessionKey || persist.backend !== 'file') return new TokenSealer(sessionKey ?? newSessionKey());
  try {
    return new TokenSealer(await sessionKeyIn(persist.path, files));
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    logger
      .target('service::mcp')
      .error('disk full: the session key is not stored; sessions end with the process', { error });
    return new TokenSealer(newSessionKey());
  }
}

/** Session state that is not part of session ids. */
export async function openSessionStore(
  { config: { persist }, logger, files, shared }: Storage,
  limits: SessionStoreLimits,
): Promise<SessionStore> {
  if (shared) {
    const { PostgresSessionStore } = await import('../mcp/sessions/postgres-session-store.ts');
    return await PostgresSessionStore.open({ log: shared, ...limits });
  }
  if (persist.backend !== 'file') return new MemorySessionStore(undefined, limits);
  return FileSessionStore.open({ folder: persist.path, files, log: logger.target('service::mcp'), ...limits });
}

/** The tasks that clients know by ids of ours. */
export async function openTasks(storage: Storage): Promise<Tasks> {
  const tasks = new Tasks({ store: await taskStore(storage), limits: storage.config.taskLimits });
  await tasks.load();
  return tasks;
}

async function taskStore({ config: { persist }, logger, files, shared }: Storage): Promise<TaskStore> {
  if (shared) return new (await import('../upstreams/mcp/tasks/postgres-task-store.ts')).PostgresTaskStore(shared);
  if (persist.backend !== 'file') return memoryTaskStore();
  return new FileTaskStore({ folder: persist.path, files, log: logger.target('service::mcp') });
}

/** A listener for MCP or inference requests, by name. */
export interface BoundListener {
  readonly name: string;
  readonly listener: Listener;
}

/** Binds all listeners, the management API first, or none. */
export async function bind(
  { mgmtListen, sharesPorts, pipelinePath }: Pick<Config, 'mgmtListen' | 'sharesPorts' | 'pipelinePath'>,
  management: HttpServer,
  servers: readonly { readonly listener: LoadedListener; readonly server: HttpServer }[],
): Promise<BoundListener[]> {
  const bound: BoundListener[] = [];
  const isEmbedded = pipelinePath === undefined;
  try {
    bound.push({
      name: 'management',
      listener: await bindAs('SERVICE_MGMT_LISTEN', management, mgmtListen, {
        sharesPorts,
        first: isEmbedded ? mgmtListen : undefined,
      }),
    });
    for (const { listener, server } of servers) {
      const { name, address, addressAt } = listener;
      const first = isEmbedded && followsPort(address.port, mgmtListen.port) ? mgmtListen : undefined;
      bound.push({ name, listener: await bindAs(addressAt, server, address, { sharesPorts, first }) });
    }
    return bound;
  } catch (error) {
    await Promise.all(bound.map(({ listener }) => listener.drain(0)));
    throw error;
  }
}

/** Binds a server. Throws {@link ConfigError} that names the setting. */
export async function bindAs(
  at: string,
  server: HttpServer,
  address: ListenAddress,
  { sharesPorts = false, first }: { readonly sharesPorts?: boolean; readonly first?: ListenAddress | undefined } = {},
): Promise<Listener> {
  try {
    return await listen(server, address, sharesPorts);
  } catch (error) {
    const reason = errorCode(error) === 'EADDRINUSE' ? await explainTakenPort(address, first) : undefined;
    throw new ConfigError(`${at}: cannot listen on ${formatAddress(address)}: ${reason ?? errorReason(error)}`);
  }
}
