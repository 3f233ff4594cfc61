import type { Server } from 'node:http';
import { TokenSealer } from '@sluice/protocol/seal';
import { formatAddress, type ListenAddress } from '../http/address.ts';
import type { Secrets } from '../http/secrets/secrets.ts';
import { type Listener, listen } from '../http/server.ts';
import { ConfigError } from '../http/settings.ts';
import {
  FileSessionStore,
  memorySessionStore,
  type SessionStore,
  type SessionStoreLimits,
} from '../mcp/sessions/session-store.ts';
import { newSessionKey, sessionKeyIn } from '../mcp/sessions/sessions.ts';
import { ActionFiles } from '../policy/action-loader.ts';
import { Evaluators, type EvaluatorsOptions } from '../policy/evaluators.ts';
import { FileRevisionStore, memoryRevisionStore } from '../policy/revision-store.ts';
import { bootstrapForward } from '../registry/change-forward.ts';
import { OperationError } from '../registry/operation-error.ts';
import { Registry, snapshotEntries } from '../registry/registry.ts';
import { type DiscoveryMarks, openDiscoveryMarks } from '../registry/store/discovery-marks.ts';
import { FileStore } from '../registry/store/file-store.ts';
import { errorReason, type Files, isDiskFull } from '../registry/store/files.ts';
import { memoryStore } from '../registry/store/store.ts';
import type { Logger } from '../telemetry/log.ts';
import { requireUsableHeaders } from '../upstreams/mcp/forwards.ts';
import { FileTaskStore } from '../upstreams/mcp/tasks/file-task-store.ts';
import { memoryTaskStore } from '../upstreams/mcp/tasks/task-store.ts';
import { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import type { Config } from './config/config.ts';
import type { LoadedListener } from './config/pipeline/pipeline.ts';

/** The stored registry; its lock decides whether this process may use the folder at all. */
export async function openRegistry(config: Config, logger: Logger, files: Files): Promise<Registry> {
  const log = logger.target('service::registry');
  const { persist } = config;
  const registry: Registry = new Registry(
    persist.backend === 'none'
      ? memoryStore()
      : new FileStore({
          folder: persist.path,
          recover: persist.recover,
          snapshot: () => snapshotEntries(registry.current),
          log,
          files,
        }),
  );
  for (const problem of await registry.load()) log.warn(problem);
  return registry;
}

/** The marks of discoveries in progress; undefined without persistence. Call after {@link openRegistry}, which locks the folder. */
export async function openMarks({ persist }: Config, files: Files): Promise<DiscoveryMarks | undefined> {
  return persist.backend === 'none' ? undefined : await openDiscoveryMarks(files, persist.path);
}

/**
 * Applies the entries of the bootstrap file to the stored state (decisions 1.3). On a full disk, entries that differ from
 * the stored ones are left out.
 */
export async function bootstrap(config: Config, registry: Registry, secrets: Secrets, logger: Logger): Promise<void> {
  const log = logger.target('service::registry');
  await unlessDiskFull(
    registry.commit((draft) => {
      for (const { name, labels } of config.bootstrap.namespaces) {
        if (labels || !draft.namespaces.has(name)) draft.putNamespace(name, labels);
      }
    }),
    (error) => log.error('disk full: namespaces of the bootstrap file are not applied', { error }),
  );
  for (const { prefix = '', ...entry } of config.bootstrap.forwards) {
    try {
      await unlessDiskFull(
        registry.commit((draft) => {
          requireUsableHeaders(secrets, bootstrapForward(draft, { ...entry, prefix }));
        }),
        (error) => log.error('disk full: forward of the bootstrap file is not applied', { forward: entry.name, error }),
      );
    } catch (error) {
      if (!(error instanceof OperationError)) throw error;
      log.warn('forward of the bootstrap file not applied', { forward: entry.name, reason: error.message });
    }
  }
}

/** Waits for a write. On a full disk it calls `onFull` instead of throwing (decisions 10.5). */
async function unlessDiskFull(write: Promise<unknown>, onFull: (error: unknown) => void): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    onFull(error);
  }
}

/**
 * The evaluators: those of the bootstrap file, or else the stored ones; evaluators that cannot be loaded are omitted.
 */
export async function openEvaluators(
  { bootstrap, actionsPath, evaluatorsStrict, persist }: Config,
  logger: Logger,
  files: Files,
  parts: Pick<EvaluatorsOptions, 'compiler' | 'schemas' | 'onActivated' | 'namespaceExists'>,
): Promise<Evaluators> {
  const log = logger.target('service::evaluator');
  const evaluators = new Evaluators({
    ...parts,
    connections: bootstrap.llmConnections,
    strict: evaluatorsStrict,
    files: new ActionFiles({ baseFolder: bootstrap.folder, actionsPath }),
    store:
      persist.backend === 'none'
        ? memoryRevisionStore()
        : new FileRevisionStore({
            folder: persist.path,
            recover: persist.recover,
            files,
            log,
            now: Date.now,
          }),
    log,
  });
  await evaluators.start(bootstrap.evaluators, bootstrap.invalidEvaluators);
  return evaluators;
}

/**
 * Seals sessions and the state of calls, with the stored or configured key. On a full disk a new key is not stored: its
 * sessions end with the process.
 */
export async function openSealer({ persist, sessionKey }: Config, logger: Logger, files: Files): Promise<TokenSealer> {
  if (sessionKey) return new TokenSealer(sessionKey);
  if (persist.backend === 'none') return new TokenSealer(newSessionKey());
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
  { persist }: Config,
  logger: Logger,
  files: Files,
  limits: SessionStoreLimits,
): Promise<SessionStore> {
  if (persist.backend === 'none') return memorySessionStore(undefined, limits);
  return FileSessionStore.open({ folder: persist.path, files, log: logger.target('service::mcp'), ...limits });
}

/** The tasks that clients know by ids of ours. */
export async function openTasks({ persist, taskLimits }: Config, logger: Logger, files: Files): Promise<Tasks> {
  const log = logger.target('service::mcp');
  const store =
    persist.backend === 'none' ? memoryTaskStore() : new FileTaskStore({ folder: persist.path, files, log });
  const tasks = new Tasks({ store, limits: taskLimits });
  await tasks.load();
  return tasks;
}

/** A listener for MCP or inference requests, by name. */
export interface BoundListener {
  readonly name: string;
  readonly listener: Listener;
}

/** Binds all listeners, the management API first, or none. */
export async function bind(
  mgmtListen: ListenAddress,
  management: Server,
  servers: readonly { readonly listener: LoadedListener; readonly server: Server }[],
): Promise<BoundListener[]> {
  const bound: BoundListener[] = [];
  try {
    bound.push({ name: 'management', listener: await bindAs('SERVICE_MGMT_LISTEN', management, mgmtListen) });
    for (const { listener, server } of servers) {
      const { name, address, addressAt } = listener;
      bound.push({ name, listener: await bindAs(addressAt, server, address) });
    }
    return bound;
  } catch (error) {
    await Promise.all(bound.map(({ listener }) => listener.drain(0)));
    throw error;
  }
}

async function bindAs(at: string, server: Server, address: ListenAddress): Promise<Listener> {
  try {
    return await listen(server, address);
  } catch (error) {
    throw new ConfigError(`${at}: cannot listen on ${formatAddress(address)}: ${errorReason(error)}`);
  }
}
