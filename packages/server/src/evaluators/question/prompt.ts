import type { HistoryMessage } from '../actions/action-world.ts';
import type { EvaluatedRequest } from '../evaluation-context.ts';
import type { PromptTool } from './prompt-tools.ts';
import { sanitised } from './sanitised.ts';

/** Bytes that are left of a text of each kind (decisions 4.9). */
const MESSAGE = 1000;
const ARGUMENT = 500;
const NAME = 200;

/** What the LLM is told about a request. */
export interface PromptInput {
  readonly request: EvaluatedRequest;
  /** The latest interactions of the conversation, oldest first, each with its messages. */
  readonly conversation: readonly (readonly HistoryMessage[])[];
  /** Tools of the request's namespace, in order of registration; undefined unless the trigger is `tools/list`. */
  readonly tools: readonly PromptTool[] | undefined;
}

/** The user prompt (decisions 4.9). Every text in it that came from outside is {@link sanitised}. */
export function userPrompt({ request, conversation, tools }: PromptInput): string {
  const sections = [requestSection(request)];
  const interactions = conversation.filter((messages) => messages.length > 0);
  if (interactions.length > 0) sections.unshift(`# Conversation\n${interactions.map(spoken).join('\n\n')}`);
  if (tools !== undefined) sections.push(['# Available tools', ...tools.map(toolLine)].join('\n'));
  return sections.join('\n\n');
}

function spoken(messages: readonly HistoryMessage[]): string {
  return messages.map(({ role, content }) => `[${sanitised(role, NAME)}]: ${sanitised(content, MESSAGE)}`).join('\n');
}

function requestSection({ method, namespace, toolName, arguments: pairs }: EvaluatedRequest): string {
  const lines = ['# Request', `method: ${sanitised(method, MESSAGE)}`, `namespace: ${sanitised(namespace, MESSAGE)}`];
  if (toolName !== undefined) lines.push(`tool: ${sanitised(toolName, NAME)}`);
  if (pairs.length > 0) lines.push('arguments:');
  for (const [key, value] of pairs) lines.push(`  ${sanitised(key, ARGUMENT)}: ${sanitised(value, ARGUMENT)}`);
  return lines.join('\n');
}

function toolLine({ name, description }: PromptTool): string {
  const line = `- ${sanitised(name, NAME)}`;
  return description === '' ? line : `${line}: ${sanitised(description, NAME)}`;
}
