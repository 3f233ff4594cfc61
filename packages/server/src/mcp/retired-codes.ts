import { isJsonObject, type JsonObject } from '@sluice/json/lossless';
import { removals } from '@sluice/json/removal';
import { elements, members, memberText } from '@sluice/json/scan';
import { splice } from '@sluice/json/splice';
import { answersQuestion } from './askable.ts';
import { INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY, NAME_PARAM } from './protocol.ts';

/** 2025-11-25 and before: the resource does not exist. */
export const RESOURCE_NOT_FOUND = -32002;
/** 2025-11-25: the user has to visit an address first; `data.elicitations` says which. */
export const URL_ELICITATION_REQUIRED = -32042;

/**
 * An upstream's error response to a call of this method, as a modern client with these capabilities may be given it: the
 * two codes that the modern era has retired are not to be sent (2026-07-28, "Error Codes"). A missing resource is -32602;
 * an address to be visited becomes an `InputRequiredResult`, with the `requestState` that `state` makes, and the client's
 * retry the same call again. Undefined when there is nothing to change.
 */
export function withoutRetiredCode(
  text: string,
  error: JsonObject,
  method: string,
  capabilities: JsonObject,
  state?: () => string,
): string | undefined {
  if (error.code === RESOURCE_NOT_FOUND) return withCode(text, INVALID_PARAMS);
  if (error.code !== URL_ELICITATION_REQUIRED) return undefined;
  const inputs = NAME_PARAM.has(method) ? elicitations(text, error) : [];
  if (inputs.length === 0) return withCode(text, INTERNAL_ERROR);
  if (!answersQuestion(capabilities, 'elicitation/create', { mode: 'url' })) {
    return withCode(text, MISSING_CAPABILITY, '{"requiredCapabilities":{"elicitation":{"url":{}}}}');
  }
  const requests = inputs.map(
    (params, at) => `"elicitation-${at + 1}":{"method":"elicitation/create","params":${params}}`,
  );
  const requestState = state ? `,"requestState":"${state()}"` : '';
  const result = `{"resultType":"input_required","inputRequests":{${requests.join(',')}}${requestState}}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id') ?? 'null'},"result":${result}}`;
}

/** The addresses to be visited, each as the params of its request. */
function elicitations(text: string, { data }: JsonObject): string[] {
  const values = isJsonObject(data) && Array.isArray(data.elicitations) ? data.elicitations : [];
  if (!values.every((value) => isJsonObject(value) && value.mode === 'url' && typeof value.url === 'string')) return [];
  const all = memberText(memberText(memberText(text, 'error') ?? '', 'data') ?? '', 'elicitations') ?? '';
  return [...elements(all)].map(({ start, end }) => withoutElicitationId(all.slice(start, end)));
}

/** The params of an `elicitation/create` without the id that only the legacy era knows. */
export function withoutElicitationId(params: string): string {
  return splice(
    params,
    removals(params, 0, (key) => key === 'elicitationId'),
  );
}

function withCode(text: string, code: number, data?: string): string {
  for (const { key, start, end } of members(text)) {
    if (key !== 'error') continue;
    const error = text.slice(start, end);
    const edits = [...members(error)].flatMap((member) => {
      if (member.key === 'code') return [{ ...member, text: String(code) }];
      return member.key === 'data' && data !== undefined ? [{ ...member, text: data }] : [];
    });
    return splice(text, [{ start, end, text: splice(error, edits) }]);
  }
  return text;
}
