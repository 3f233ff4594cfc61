import { TokenSealer } from '@sluice/protocol/seal';
import { IDENTITY_REVISIONS } from '../management/identity/identity-revisions.ts';
import { newSessionKey, sessionKeyIn } from '../mcp/sessions/sessions.ts';
import { ActionFiles } from '../policy/action-loader.ts';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import { Evaluators, type EvaluatorsOptions } from '../policy/evaluators.ts';
import { applyStateInSteps } from '../registry/desired-state.ts';
import type { Draft } from '../registry/draft.ts';
import type { Forward } from '../registry/entries.ts';
import { type ChangeOrigin, Registry } from '../registry/registry.ts';
import { StateProblemsError } from '../registry/state-difference.ts';
import { DataFolder } from '../registry/store/data-folder.ts';
import { type DiscoveryMarks, openDiscoveryMarks } from '../registry/store/discovery-marks.ts';
import { FileLog } from '../registry/store/file-log.ts';
import { type Files, isDiskFull, systemClock } from '../registry/store/files.ts';
import { hostProcesses } from '../registry/store/lock.ts';
import type { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import { REGISTRY_FORMAT } from '../registry/store/registry-file.ts';
import { LogRevisionStore, type RevisionStore } from '../registry/store/revision-store.ts';
import { ReadOnlyStoreError } from '../registry/store/store.ts';
import type { Logger, TargetLogger } from '../telemetry/log.ts';
import type { ForwardValidator } from '../upstreams/forward-validator.ts';
import { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import type { Config } from './config/config.ts';

/** Where this process stores its state. */
export interface Storage {
  readonly config: Config;
  readonly logger: Logger;
  readonly files: Files;
  /** What replicas share; undefined for a single process. */
  readonly shared: ReplicatedLog | undefined;
}

/** Where this process stores its state, with the logs of its records. */
export interface WithLogs extends Storage {
  /** The log of the registry. */
  readonly registryLog: RecordLog;
  /** The log of all other records: the same one, except in a folder, where `registry.json` has a format of its own. */
  readonly records: RecordLog;
}

/** Opens the logs; the lock of a folder decides whether this process may use it at all. `closing` closes what was opened. */
export async function openLogs(
  { config: { persist }, logger, files, shared }: Storage,
  closing: <Part extends { close(): Promise<void> }>(part: Part) => Part,
): Promise<Pick<WithLogs, 'registryLog' | 'records'>> {
  if (shared) return { registryLog: shared, records: shared };
  if (persist.backend !== 'file') return { registryLog: memoryLog(), records: memoryLog() };
  const parts = { folder: persist.path, files, clock: systemClock(), log: logger.target('service::registry') };
  const lock = closing(await DataFolder.open({ ...parts, processes: hostProcesses() }));
  const options = { ...parts, lock, recover: persist.recover };
  return {
    registryLog: closing(await FileLog.open({ ...options, format: REGISTRY_FORMAT })),
    records: closing(await FileLog.open({ ...options, required: [IDENTITY_REVISIONS.section] })),
  };
}

/** Loads the stored registry. */
export async function openRegistry({ config, logger, registryLog }: WithLogs): Promise<Registry> {
  const registry = new Registry(registryLog, (address) => config.kinds.problem(address));
  for (const problem of await registry.load()) logger.target('service::registry').warn(problem);
  return registry;
}

/** The marks of discoveries in progress; undefined without a folder. Call after {@link openLogs}, which locks the folder. */
export async function openMarks({ config: { persist }, files }: Storage): Promise<DiscoveryMarks | undefined> {
  return persist.backend === 'file' ? await openDiscoveryMarks(files, persist.path) : undefined;
}

/**
 * Applies the entries of the bootstrap file to the stored state. On a full disk they are left out if one differs from the stored
 * ones, and always in the database of a later release.
 */
export async function bootstrap(
  { config, logger }: Storage,
  registry: Registry,
  validator: ForwardValidator,
): Promise<void> {
  const log = logger.target('service::registry');
  const { path } = config.bootstrap;
  // It may be a file of that name in the current folder, which nobody has named.
  if (path !== undefined) log.info('bootstrap file loaded', { file: path });
  try {
    await applyBootstrap(config, registry, validator, log);
  } catch (error) {
    if (!(error instanceof ReadOnlyStoreError)) throw error;
    log.error('bootstrap file not applied', { error });
  }
}

const BOOTSTRAP: ChangeOrigin = { actor: 'bootstrap', reason: 'apply the bootstrap file' };

/** In one commit. Forwards that cannot be applied are left out. */
async function applyBootstrap(
  { bootstrap }: Config,
  registry: Registry,
  validator: ForwardValidator,
  log: TargetLogger,
): Promise<void> {
  const checks = {
    requireUsable: (after: Forward) => validator.requireUsable(after),
    requireSameOrigin: validator.requireSameOrigin.bind(validator),
  };
  let described = [...bootstrap.forwards];
  for (;;) {
    const apply = (draft: Draft) => {
      const namespaces = bootstrap.namespaces.map(({ name, labels = draft.namespaces.get(name)?.labels }) => {
        return { name, labels };
      });
      return applyStateInSteps(draft, { namespaces, forwards: described }, { prune: false, checks });
    };
    try {
      await registry.commit(apply, BOOTSTRAP);
      return;
    } catch (error) {
      if (isDiskFull(error)) return log.error('disk full: changes of the bootstrap file are not applied', { error });
      if (!(error instanceof StateProblemsError)) throw error;
      const reasons = new Map(error.problems.map(({ path, message }) => [path, message]));
      described = described.filter(({ name }, index) => {
        const reason = reasons.get(`forwards.${index}`);
        if (reason !== undefined) log.warn('forward of the bootstrap file not applied', { forward: name, reason });
        return reason === undefined;
      });
    }
  }
}

/** The evaluators, none of which is active before they are started. */
export async function createEvaluators(
  storage: WithLogs,
  parts: Pick<EvaluatorsOptions, 'compiler' | 'schemas' | 'namespaceExists'>,
): Promise<Evaluators> {
  const { bootstrap, actionsPath, evaluatorsStrict } = storage.config;
  const log = storage.logger.target('service::evaluator');
  return new Evaluators({
    ...parts,
    connections: bootstrap.llmConnections,
    strict: evaluatorsStrict,
    files: new ActionFiles({ baseFolder: bootstrap.folder, actionsPath }),
    store: await revisionStore(storage),
    log,
  });
}

async function revisionStore({ shared, records }: WithLogs): Promise<RevisionStore> {
  if (!shared) return new LogRevisionStore(records, EVALUATOR_REVISIONS);
  const { componentsIn } = await import('../registry/store/postgres/components.ts');
  return new LogRevisionStore(records, EVALUATOR_REVISIONS, componentsIn(shared.database));
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

/** The tasks that clients know by ids of ours. */
export async function openTasks({ config, records }: WithLogs): Promise<Tasks> {
  const tasks = new Tasks({ log: records, limits: config.taskLimits });
  await tasks.load();
  return tasks;
}
