import { info } from 'service:evaluator/log';
import { copyToolToNamespace, getTool } from 'service:evaluator/registry';
import { filterTools, warn } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { jsonAnswer, member } from './json-answer.ts';

/** Where tools may be taken from. Nothing else gets into a list, whatever the LLM answers. */
const CATALOGUE = 'catalogue';

/** An agent that is offered more than this finds nothing. */
const MOST_TOOLS = 20;

/**
 * A list of tools made for the task: an agent asks its namespace for `tools/list`, the LLM names the tools that the
 * conversation needs, and they are what it gets. Tools of the namespace `catalogue` are copied into the agent's namespace
 * when they are chosen for the first time; those of its own are there already. What is not chosen is left out of the
 * list.
 *
 * The LLM answers `["name", …]` or `{"tools": ["name", …]}`. It sees the tools of the agent's namespace by itself; those
 * of the catalogue have to be named in the prompt, as in catalogue-assembly.yaml. Bind the namespace to a conversation
 * (`sluice evaluators bind <namespace> <conversation-id>`), so that it sees that as well.
 *
 * Names that stand for nothing are ignored. When no name is left, the list stays as it was, with a warning: an agent
 * without tools is of no use, and its namespace's own are what it may have anyway.
 */
export function evaluate(ctx: EvaluationContext): void {
  const chosen = names(jsonAnswer(ctx.llmResult)).filter((name) => isOffered(name, ctx.namespace));
  if (chosen.length === 0) return warn('the LLM chose no tool that there is; the list was left as it is');
  info(`${chosen.length} tools were chosen for ${ctx.namespace}`);
  filterTools(chosen);
}

/** The names of an answer, each once. */
function names(answer: unknown): string[] {
  const list = Array.isArray(answer) ? answer : member(answer, 'tools');
  if (!Array.isArray(list)) return [];
  return [...new Set(list.filter((name) => typeof name === 'string'))].slice(0, MOST_TOOLS);
}

/** True of a tool that is in the namespace, or has just been copied there. */
function isOffered(name: string, namespace: string): boolean {
  // A tool of the namespace itself is found before all others, and a copy is taken of what is found here.
  const found = getTool(name)?.namespace;
  return found === namespace || (found === CATALOGUE && copyToolToNamespace(name, namespace));
}
