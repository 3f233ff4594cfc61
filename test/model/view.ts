import type { JsonValue } from '@sluice/protocol/json/parse';
import { listed } from './entries.ts';
import { isTemplate, mcpOf } from './members.ts';
import { call } from './model.ts';
import type { ApiRequest } from './request.ts';
import { KINDS, type State } from './state.ts';

/** The visible state in REST, by endpoint. */
export const REST_LISTS: Readonly<Record<string, ApiRequest>> = {
  namespaces: { method: 'GET', collection: 'namespaces' },
  forwards: { method: 'GET', collection: 'forwards' },
  tools: { method: 'GET', collection: 'tools', query: { include: 'shadowed' } },
  resources: { method: 'GET', collection: 'resources', query: { include: 'shadowed' } },
  prompts: { method: 'GET', collection: 'prompts', query: { include: 'shadowed' } },
  services: { method: 'GET', collection: 'services' },
  statistics: { method: 'GET', collection: 'statistics' },
};

/** Lists of MCP, and the member of the result that has them. */
export const MCP_LISTS = {
  'tools/list': 'tools',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
  'prompts/list': 'prompts',
} as const;

/** The whole visible state in REST. */
export function viewOf(state: State): Record<string, JsonValue> {
  const entries = Object.entries(REST_LISTS).map(([what, request]) => [what, call(state, request).answer.data ?? null]);
  return Object.fromEntries(entries);
}

/** MCP lists of each namespace, in order. */
export function servedBy(state: State): Record<string, JsonValue> {
  const lists = (namespace: string): JsonValue => {
    const [tools, resources, prompts] = KINDS.map((kind) =>
      listed(state, kind).filter((entry) => entry.namespace === namespace && !entry.shadowed && entry.enabled),
    );
    return {
      'tools/list': (tools ?? []).map(mcpOf),
      'resources/list': (resources ?? []).filter((entry) => !isTemplate(entry)).map(mcpOf),
      'resources/templates/list': (resources ?? []).filter(isTemplate).map(mcpOf),
      'prompts/list': (prompts ?? []).map(mcpOf),
    };
  };
  return Object.fromEntries(state.namespaces.map(({ name }) => [name, lists(name)]));
}
