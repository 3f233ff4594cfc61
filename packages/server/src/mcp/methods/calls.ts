import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Access } from '../../access/access.ts';
import type { Target } from '../../access/target.ts';
import { rpcError } from '../../http/outcome.ts';
import type { Entry } from '../../registry/entries.ts';
import type { LogMethod } from '../../telemetry/log.ts';
import { boundedName, boundedSubject } from '../../telemetry/redaction.ts';
import type { Calls } from '../../upstreams/call-stages.ts';
import type { DeclaredParams } from '../declared-params.ts';
import type { McpFilter, McpRequest } from '../exchange.ts';

/** Dependencies of methods whose requests are about entries. */
export interface EntryParts {
  readonly access: Access;
  readonly clientCalls: Calls;
}

/** Dependencies of {@link callTool}. */
interface ToolCallParts extends EntryParts {
  readonly declaredParams: DeclaredParams;
  /** Logs what a client has sent in vain. */
  readonly warn: LogMethod;
}

/**
 * `tools/call`: compares the headers of a modern client with the arguments that the tool mirrors in headers, and sends the call
 * to its executor.
 */
export function callTool(
  request: McpRequest,
  target: Target,
  { access, clientCalls, declaredParams, warn }: ToolCallParts,
): ReturnType<McpFilter> {
  const problem = declaredParams.check(request, request.headers, target);
  if (problem) return problem;
  const { oversizedHeader } = request.correlation;
  if (oversizedHeader !== undefined) {
    warn(`${oversizedHeader} has more than 256 bytes and is ignored`, { tool: boundedName(target.entry?.key ?? '') });
  }
  return clientCalls.send(request, access.decide(request.principal, target));
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration. An unlisted uri, such as that of a link, is
 * read from the forward that has sent it.
 */
export function readResource(
  request: McpRequest,
  target: Target,
  { access, clientCalls }: EntryParts,
): ReturnType<McpFilter> {
  return clientCalls.send(request, access.decide(request.principal, target));
}

/**
 * The result of `prompts/get` for a manually registered prompt, or the required argument that is missing. `{key}` is replaced in
 * one pass, so that argument values are never expanded again.
 */
export function expandPrompt(prompt: Entry, args: JsonValue | undefined): { result: JsonObject } | { missing: string } {
  const values = isJsonObject(args) ? args : {};
  for (const argument of asList(prompt.definition.arguments)) {
    if (!isJsonObject(argument) || argument.required !== true || typeof argument.name !== 'string') continue;
    if (!Object.hasOwn(values, argument.name)) return { missing: argument.name };
  }
  const messages = asList(prompt.members.messages).filter(isJsonObject);
  const description = prompt.definition.description;
  return {
    result: {
      ...(typeof description === 'string' && description !== '' && { description }),
      messages: messages.map((message) => ({
        role: message.role === 'assistant' ? 'assistant' : 'user',
        content: expandContent(message.content ?? '', values),
      })),
    },
  };
}

function expandContent(content: JsonValue, values: JsonObject): JsonValue {
  if (typeof content !== 'string') return content;
  const text = content.replace(/\{([^{}]+)\}/g, (placeholder, key: string) => {
    if (!Object.hasOwn(values, key)) return placeholder;
    const value = values[key];
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
  return { type: 'text', text };
}

function asList(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}

/** `prompts/get`: relayed to the forward of the prompt, or rendered from a manually registered one. */
export function getPrompt(
  request: McpRequest,
  target: Target,
  { access, clientCalls }: EntryParts,
): ReturnType<McpFilter> {
  const { entry: prompt, forward } = target;
  if (!prompt) return undefined;
  request.facts.subject = boundedSubject({ kind: 'prompt', name: prompt.name });
  const permit = access.decide(request.principal, target);
  if (forward !== undefined) return clientCalls.send(request, permit);
  const expanded = expandPrompt(prompt, permit.message.params.arguments);
  if ('missing' in expanded) return rpcError(INVALID_PARAMS, `missing required argument: ${expanded.missing}`);
  return { kind: 'result', json: resultText(request.era, expanded.result) };
}
