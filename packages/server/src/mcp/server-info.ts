import { members, memberText } from '@sluice/protocol/json/scan';
import {
  type Era,
  LATEST_LEGACY,
  LEGACY_VERSIONS,
  META_SERVER_INFO,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import type { Forward } from '../registry/entries.ts';
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

/** Capabilities that several forwards can have together: each request of theirs names whom it is for. */
const SHARED: ReadonlySet<string> = new Set(['tools', 'resources', 'prompts', 'completions', 'logging']);
/** Members that hold capabilities of their own. */
const NESTED = ['extensions', 'experimental'] as const;

/**
 * The capabilities of a namespace, as JSON text (mcp 6). Tools, resources and prompts always, since an upstream may come
 * up later; completions, log messages and resource subscriptions when a forward of either era declares them, since they
 * cross (mcp 5). What only one forward can be asked for, tasks and extensions among it, is advertised when exactly one
 * declares it, in the client's era, and in that forward's own words.
 */
export function advertisedCapabilities(declarations: readonly Declaration[], era: Era): string {
  const own = declarations.filter((one) => one.era === era);
  const subscribe = declarations.some(
    ({ capabilities }) => memberText(capabilities.get('resources') ?? '', 'subscribe') === 'true',
  );
  const parts = [
    '"tools":{"listChanged":true}',
    `"resources":{${subscribe ? '"subscribe":true,' : ''}"listChanged":true}`,
    '"prompts":{"listChanged":true}',
  ];
  for (const name of ['completions', 'logging']) {
    if (declarations.some(({ capabilities }) => capabilities.has(name))) parts.push(`"${name}":{}`);
  }
  const sole = soleDeclarers(declarations);
  for (const declaration of own) {
    for (const [key, text] of declaration.capabilities) {
      if (SHARED.has(key) || NESTED.some((name) => name === key) || sole.get(key) !== declaration) continue;
      // Clients refuse a whole answer for one member that they know and that is of another type.
      if (key !== 'tasks' || text.startsWith('{')) parts.push(`${JSON.stringify(key)}:${text}`);
    }
  }
  for (const name of NESTED) {
    const merged = own.flatMap((declaration) =>
      [...declaration[name]]
        .filter(([key, text]) => text.startsWith('{') && sole.get(lastSegment(key)) === declaration)
        .map(([key, text]) => `${JSON.stringify(key)}:${text}`),
    );
    if (merged.length > 0) parts.push(`"${name}":{${merged.join(',')}}`);
  }
  return `{${parts.join(',')}}`;
}

/** Who declares what, by the method segment that requests would come with; undefined where several do. */
function soleDeclarers(declarations: readonly Declaration[]): Map<string, Declaration | undefined> {
  const sole = new Map<string, Declaration | undefined>();
  for (const declaration of declarations) {
    for (const segment of new Set([...declaration.capabilities.keys(), ...segmentsOf(declaration)])) {
      sole.set(segment, sole.has(segment) ? undefined : declaration);
    }
  }
  return sole;
}

/** Who we are, towards clients and upstreams: JSON text of an Implementation. */
export interface Implementation {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** The version to speak with a client that asks for this one: its own when we know it, else our latest. */
export function negotiate(requested: unknown): string {
  return typeof requested === 'string' && LEGACY_VERSIONS.includes(requested) ? requested : LATEST_LEGACY;
}

/** InitializeResult of a namespace for this client, as JSON text. */
export function initializeResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  protocolVersion: string,
  serverInfo: Implementation,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(declarationsTo(client, snapshot, namespace), 'legacy');
  const rest = { serverInfo, ...joinedInstructions(snapshot, namespace) };
  return withCapabilities({ protocolVersion }, capabilities, rest);
}

/** DiscoverResult of a namespace for this client, as JSON text. Not to be cached: what a namespace offers can change. */
export function discoverResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  serverInfo: Implementation,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(declarationsTo(client, snapshot, namespace), 'modern');
  return withCapabilities({ resultType: 'complete', supportedVersions: MODERN_VERSIONS }, capabilities, {
    ...joinedInstructions(snapshot, namespace),
    ttlMs: 0,
    cacheScope: 'public',
    _meta: { [META_SERVER_INFO]: serverInfo },
  });
}

/** Joins texts, so that what upstreams declare stays as they spelled it. */
function withCapabilities(before: object, capabilities: string, after: object): string {
  return `${JSON.stringify(before).slice(0, -1)},"capabilities":${capabilities},${JSON.stringify(after).slice(1)}`;
}

/** What the upstreams of a namespace tell models about their use, one after the other. */
function joinedInstructions(snapshot: Snapshot, namespace: NamespaceState): { instructions?: string } {
  const texts = [...snapshot.forwards.values()]
    .filter((forward) => forward.namespace === namespace.name)
    .map(instructionsOf)
    .filter((text) => text !== '');
  return texts.length === 0 ? {} : { instructions: texts.join('\n\n') };
}

function instructionsOf(forward: Forward): string {
  for (const { identity } of forward.catalogues) {
    const text: unknown = JSON.parse(memberText(identity, 'instructions') ?? 'null');
    if (typeof text === 'string' && text !== '') return text;
  }
  return '';
}
