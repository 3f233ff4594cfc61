import { members, memberText } from '@sluice/protocol/json/scan';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { NamespaceState, Snapshot } from '../registry/snapshot.ts';
import type { ClientProfile } from './client-profile.ts';

/** What one forward of a namespace declares to clients of one kind: exact JSON texts by name, in the upstream's order. */
export interface Declaration {
  readonly forward: string;
  /** The era of the catalogue that it stands in: the client's own where the forward has one. */
  readonly era: Era;
  /** Members of `capabilities`, `extensions` and `experimental` among them. */
  readonly capabilities: ReadonlyMap<string, string>;
  readonly extensions: ReadonlyMap<string, string>;
  readonly experimental: ReadonlyMap<string, string>;
}

/** What the forwards of a namespace declare to a client like this one, in order of registration. */
export function declarationsTo(
  client: Pick<ClientProfile, 'view'>,
  snapshot: Snapshot,
  namespace: Pick<NamespaceState, 'name'>,
): Declaration[] {
  const forwards = [...snapshot.forwards.values()].filter((forward) => forward.namespace === namespace.name);
  const found: Declaration[] = [];
  for (const { name } of forwards.sort((a, b) => a.source - b.source)) {
    const catalogue = client.view.choose(name);
    if (!catalogue) continue;
    const capabilities = declared(memberText(catalogue.identity, 'capabilities'));
    const extensions = declared(capabilities.get('extensions'));
    const experimental = declared(capabilities.get('experimental'));
    found.push({ forward: name, era: catalogue.era, capabilities, extensions, experimental });
  }
  return found;
}

/** Members of an object; null and false declare nothing. */
function declared(json: string | undefined): Map<string, string> {
  const found = new Map<string, string>();
  if (json === undefined) return found;
  for (const { key, start, end } of members(json)) {
    const text = json.slice(start, end);
    if (text === 'null' || text === 'false') found.delete(key);
    else found.set(key, text);
  }
  return found;
}

/**
 * The forward that a method nobody here answers is relayed to (mcp 6): the only one that declares the capability of the
 * method's first segment, as a capability, an extension or an experiment (`tasks/get`: `tasks`, or `example.com/tasks`).
 * Where none does, the only one that declares any extension or experiment. Undefined when there is no such forward, or
 * more than one.
 */
export function forwardForMethod(method: string, declarations: readonly Declaration[]): string | undefined {
  const segment = method.split('/', 1)[0] ?? '';
  let able = declarations.filter((one) => one.capabilities.has(segment) || segmentsOf(one).has(segment));
  if (able.length === 0) able = declarations.filter((one) => one.extensions.size + one.experimental.size > 0);
  return able.length === 1 ? able[0]?.forward : undefined;
}

/** Method segments that extensions and experiments of a forward stand for. */
export function segmentsOf({ extensions, experimental }: Declaration): Set<string> {
  return new Set([...extensions.keys(), ...experimental.keys()].map(lastSegment));
}

/** `example.com/tasks` and `tasks` both are about methods `tasks/...`. */
export function lastSegment(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
