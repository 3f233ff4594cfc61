import { Sealer } from '@sluice/protocol/seal';
import type { Config } from '../config/config.ts';
import { Evaluators, type EvaluatorsParts } from '../evaluators/evaluators.ts';
import { ActionFiles } from '../evaluators/loading/action-files.ts';
import { revisionsInFolder, revisionsInMemory } from '../evaluators/revisions/revisions-file.ts';
import { bootstrapForward } from '../registry/operations/forwards.ts';
import { picture, Registry } from '../registry/registry.ts';
import { fileStore } from '../registry/store/file.ts';
import { diskFiles } from '../registry/store/files.ts';
import { memoryStore } from '../registry/store/memory.ts';
import { type KeptSessions, keptInFolder, keptInMemory } from '../sessions/kept-sessions.ts';
import { newSessionKey, sessionKeyIn } from '../sessions/session-key.ts';
import type { Logger } from '../telemetry/log.ts';

/** The registry, as it was kept; its lock decides whether this process may run on the folder at all. */
export async function openRegistry(config: Config, logger: Logger): Promise<Registry> {
  const log = logger.target('service::registry');
  const { persist } = config;
  const registry: Registry = new Registry(
    persist.backend === 'none'
      ? memoryStore()
      : fileStore({ folder: persist.path, recover: persist.recover, picture: () => picture(registry.current), log }),
  );
  for (const problem of await registry.load()) log.warn(problem);
  return registry;
}

/** Puts what the service-config file names on top of what is stored (decisions 1.3). */
export async function bootstrap(config: Config, registry: Registry): Promise<void> {
  await registry.commit((draft) => {
    for (const { name, labels } of config.bootstrap.namespaces) {
      if (labels || !draft.namespaces.has(name)) draft.putNamespace(name, labels);
    }
  });
  for (const { prefix = '', ...entry } of config.bootstrap.forwards) {
    await registry.commit((draft) => bootstrapForward(draft, { ...entry, prefix }));
  }
}

/** The evaluators, those of the service-config file or else as they were kept; what cannot be loaded is left out. */
export async function openEvaluators(
  { bootstrap, actionsPath, persist }: Config,
  logger: Logger,
  parts: Pick<EvaluatorsParts, 'compiling' | 'schemas' | 'onUse' | 'hasNamespace'>,
): Promise<Evaluators> {
  const log = logger.target('service::evaluator');
  const evaluators = new Evaluators({
    ...parts,
    connections: bootstrap.llmConnections,
    files: new ActionFiles({ baseFolder: bootstrap.folder, actionsPath }),
    store:
      persist.backend === 'none'
        ? revisionsInMemory()
        : revisionsInFolder({ folder: persist.path, recover: persist.recover, files: diskFiles(), log, now: Date.now }),
    log,
  });
  await evaluators.start(bootstrap.evaluators, bootstrap.unreadableEvaluators);
  return evaluators;
}

/** What seals sessions and the state of calls, with the key that was kept or set. */
export async function openSealer({ persist, sessionKey }: Config): Promise<Sealer> {
  if (sessionKey) return new Sealer(sessionKey);
  return new Sealer(persist.backend === 'none' ? newSessionKey() : await sessionKeyIn(persist.path, diskFiles()));
}

/** What is kept of sessions besides what their ids carry. */
export async function openKeptSessions({ persist }: Config, logger: Logger): Promise<KeptSessions> {
  if (persist.backend === 'none') return keptInMemory();
  return keptInFolder(persist.path, diskFiles(), logger.target('service::mcp'));
}
