import type { Evaluator } from '@sluice/contract';
import type { TargetLogger } from '../../telemetry/log.ts';
import { MCP_METHODS } from '../../telemetry/metrics/mcp-methods.ts';

/** Whether there is a namespace of this name. */
export type HasNamespace = (name: string) => boolean;

/**
 * Warns of evaluators that judge nothing as things are, because of a mistyped trigger most likely. They are loaded all the
 * same: a method may be an upstream's own, and a namespace may be made later.
 */
export function warnOfDoubts(
  loaded: readonly { readonly definition: Evaluator }[],
  hasNamespace: HasNamespace,
  log: Pick<TargetLogger, 'warn'>,
): void {
  for (const { definition } of loaded) {
    const { name: evaluator, trigger } = definition;
    const doubts = doubtsOf(trigger, hasNamespace);
    if (doubts.length === 0) continue;
    log.warn(`evaluator ${JSON.stringify(evaluator)} may judge nothing: ${doubts.join('; ')}`, { evaluator });
  }
}

function doubtsOf({ method, namespace }: Evaluator['trigger'], hasNamespace: HasNamespace): string[] {
  const doubts: string[] = [];
  if (!MCP_METHODS.has(method)) doubts.push(`MCP has no method ${JSON.stringify(method)}`);
  if (namespace !== null && !hasNamespace(namespace)) doubts.push(`there is no namespace "${namespace}" yet`);
  return doubts;
}
