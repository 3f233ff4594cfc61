import { info } from 'service:evaluator/log';
import { copyToolToNamespace, getTool } from 'service:evaluator/registry';
import { filterTools, warn } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { member, parseJsonOutput } from './json-output.ts';

/** Namespace that tools may be copied from. Other tools are never listed, whatever the LLM returns. */
const CATALOG_NAMESPACE = 'catalog';

/** Maximum number of listed tools. */
const MAX_TOOLS = 20;

/**
 * Limits `tools/list` to the tools that the LLM selects for the task. Selected tools of the namespace `catalog` are copied
 * to the agent's namespace on first use. All other tools are omitted from the list.
 *
 * Expected LLM output: `["name", …]` or `{"tools": ["name", …]}`. The LLM prompt includes the tools of the agent's
 * namespace; those of the catalog must be listed in the prompt, see catalog-assembly.yaml. To include the conversation,
 * bind the namespace to it (`sluice evaluators bind <namespace> <conversation-id>`).
 *
 * Unknown names are ignored. If no name is valid, the list is unchanged and a warning is logged: an agent without tools
 * cannot work, and it may use those of its own namespace anyway.
 */
export function evaluate(ctx: EvaluationContext): void {
  const selected = names(parseJsonOutput(ctx.llmResult)).filter((name) => isAvailable(name, ctx.namespace));
  if (selected.length === 0) return warn('no valid tool selected by the LLM; tool list unchanged');
  info(`${selected.length} tools selected for ${ctx.namespace}`);
  filterTools(selected);
}

/** Returns the unique names in the LLM output. */
function names(output: unknown): string[] {
  const list = Array.isArray(output) ? output : member(output, 'tools');
  if (!Array.isArray(list)) return [];
  return [...new Set(list.filter((name) => typeof name === 'string'))].slice(0, MAX_TOOLS);
}

/** Returns true if the tool is in the namespace or was copied to it. */
function isAvailable(name: string, namespace: string): boolean {
  // getTool and copyToolToNamespace both look in the request's namespace first.
  const found = getTool(name)?.namespace;
  return found === namespace || (found === CATALOG_NAMESPACE && copyToolToNamespace(name, namespace));
}
