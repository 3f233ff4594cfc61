import { conversationId, NamespaceBindings } from '../policy/bindings.ts';
import { DryRuns } from '../policy/dry-run.ts';
import { EvaluatorEngine } from '../policy/engine.ts';
import { LlmClient } from '../policy/llm/client.ts';
import { ResultSchemas } from '../policy/llm/result-schema.ts';
import { SandboxPool } from '../policy/sandbox/pool.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { listenersWithoutEvaluators } from './config/pipeline/validate.ts';
import type { WithSessions } from './sessions.ts';
import { createEvaluators } from './storage.ts';

/** The layer with the evaluators: see {@link addPolicy}. */
export type WithPolicy = Awaited<ReturnType<typeof addPolicy>>;

/** Adds the evaluators, which are active from then on, and the engine that evaluates requests. */
export async function addPolicy(parts: WithSessions) {
  const { config, logger, registry, replica, interactions, listChanges, stateEvents, compiler, closing } = parts;
  const { secrets, egress, calls, toolCalls } = parts;
  const log = logger.target('service::evaluator');
  const schemas = closing(new ResultSchemas());
  closing(compiler);
  const actions = closing(new SandboxPool());
  const namespaceExists = (name: string) => registry.current.namespace(name) !== undefined;
  const evaluators = closing(await createEvaluators(parts, { compiler, schemas, namespaceExists }));
  evaluators.activated.subscribe((set) => {
    actions.setActions(set.list.map(({ action }) => action));
    listChanges.setEvaluators(set);
    stateEvents.evaluatorsActivated(set);
    if (set.list.length === 0) return;
    for (const line of listenersWithoutEvaluators(config.pipeline.listeners)) log.warn(line);
  });
  await evaluators.start(config.bootstrap.evaluators, config.bootstrap.invalidEvaluators);
  const bindings = closing(
    new NamespaceBindings(registry, await replica?.openRecords('namespace_bindings', conversationId)),
  );
  const metrics = new ServiceMetrics(() => ({
    gauges: {
      evaluators_loaded: evaluators.current.list.length,
      evaluators_skipped: evaluators.current.skipped.length,
      wasm_compiled: evaluators.current.actionCount,
      namespace_bindings: bindings.size,
    },
    hosts: actions.counts,
  }));
  const llm = closing(new LlmClient({ secrets, egress, log }));
  const evaluating = { evaluators, llm, registry, interactions, otherConversations: replica?.conversations };
  const { messageLimits: limits } = config;
  return {
    ...parts,
    evaluators,
    bindings,
    metrics,
    engine: new EvaluatorEngine({
      ...evaluating,
      bindings,
      actions,
      calls,
      maxMembers: limits.members,
      toolCalls,
      metrics,
      log,
    }),
    dryRuns: new DryRuns({ ...evaluating, limits }),
  };
}
