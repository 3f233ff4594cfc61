import { DEFAULT_NAMESPACE, type Evaluator, isServiceLabel } from '@sluice/contract';
import { identical } from '@sluice/protocol/json/equal';
import { isJsonObject, type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import type { CurrentForward, CurrentState, DiscoveredTool } from './current-state.ts';

/**
 * Converts the state of the service to the content of a state file: all sections, without default values. Contains only
 * discovered tools with overrides.
 */
export function toStateFile({
  namespaces,
  forwards,
  services,
  manual,
  discovered,
  evaluators,
  identity,
}: CurrentState): JsonObject {
  const forwardsByName = new Map(forwards.map((forward) => [forward.name, forward]));
  // The first of several with one origin: the others are copies.
  const originals = new Map<string, DiscoveredTool>();
  for (const tool of discovered) originals.getOrInsert(JSON.stringify([tool.forward, tool.upstreamName]), tool);
  return {
    namespaces: namespaces.map(({ name, labels }) => ({ name, ...labelsMember(labels) })),
    forwards: forwards.map(({ name, address, namespace, labels, prefix, headers, expose, proxy, compression }) => ({
      name,
      address,
      ...namespaceMember(namespace, DEFAULT_NAMESPACE),
      ...labelsMember(labels),
      ...(prefix !== '' && { prefix }),
      ...(headers && { headers }),
      ...(expose && { expose: parseLossless(JSON.stringify(expose)) }),
      ...(proxy !== undefined && { proxy }),
      ...(compression && { compression }),
    })),
    services: services.map(({ name, address, serviceType, serviceSubType, languageName, labels, id }) => ({
      name,
      address,
      serviceType,
      ...(serviceSubType !== undefined && { serviceSubType }),
      ...(languageName !== undefined && { languageName }),
      ...labelsMember(labels),
      ...(id !== undefined && { id }),
    })),
    tools: [
      ...manual.map(({ namespace, name, members }): JsonObject => {
        const { name: _name, namespace: _namespace, labels = {}, enabled, ...others } = members;
        return {
          name,
          ...namespaceMember(namespace, DEFAULT_NAMESPACE),
          ...(isJsonObject(labels) && labelsMember(labels)),
          ...(enabled === false && { enabled }),
          ...others,
        };
      }),
      ...[...originals.values()].flatMap((tool) => {
        const changed = overridesOf(tool, forwardsByName.get(tool.forward));
        const { forward, upstreamName } = tool;
        return Object.keys(changed).length === 0 ? [] : [{ forward, upstreamName, ...changed }];
      }),
    ],
    ...(evaluators && { evaluators: evaluators.map(evaluatorEntry) }),
    ...(identity && { identity: parseLossless(JSON.stringify(identity)) }),
  };
}

/** Returns the overrides of a discovered tool as written in a state file. */
function overridesOf(
  tool: DiscoveredTool,
  home: Pick<CurrentForward, 'namespace' | 'prefix'> = { namespace: DEFAULT_NAMESPACE, prefix: '' },
): JsonObject {
  const { name, namespace, upstreamName, upstream } = tool;
  const labels = Object.entries(tool.labels).filter(([label]) => !isServiceLabel(label));
  const { uri: _uri, toolType: _toolType, ...members } = tool.members;
  const upstreamMembers = new Map(Object.entries(upstream));
  const changed = Object.entries(members).filter(([member, value]) => {
    const before = upstreamMembers.get(member);
    return before === undefined || !identical(before, value);
  });
  const taken = [...upstreamMembers.keys()].filter((member) => !Object.hasOwn(members, member));
  return {
    ...(name !== home.prefix + upstreamName && { name }),
    ...namespaceMember(namespace, home.namespace),
    ...labelsMember(Object.fromEntries(labels)),
    ...(!tool.enabled && { enabled: false }),
    ...Object.fromEntries(changed),
    ...Object.fromEntries(taken.map((member) => [member, null])),
  };
}

function labelsMember(labels: Readonly<JsonObject>): JsonObject {
  return Object.keys(labels).length === 0 ? {} : { labels };
}

function namespaceMember(namespace: string, usual: string): JsonObject {
  return namespace === usual ? {} : { namespace };
}

/** Converts an evaluator to the form of a state file, without default values. */
function evaluatorEntry({ name, trigger, llm, processor, on_error }: Evaluator): JsonObject {
  const { method, namespace } = trigger;
  const { operation, prompt, connection, result_schema } = llm;
  return {
    name,
    trigger: { method, ...(namespace !== null && { namespace }) },
    llm: { operation, prompt, connection, ...(result_schema !== null && { result_schema }) },
    processor: { path: processor.path },
    ...(on_error !== 'continue' && { on_error }),
  };
}
