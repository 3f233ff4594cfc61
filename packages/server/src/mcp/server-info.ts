import { memberText, memberTexts } from '@sluice/protocol/json/text';
import { methodSegment } from '@sluice/protocol/mcp/capabilities';
import {
  type Era,
  LATEST_LEGACY,
  LEGACY_VERSIONS,
  META_SERVER_INFO,
  MODERN_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import { visibleEntries } from '../access/access.ts';
import type { Forward } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { NamespaceState, Snapshot } from '../registry/snapshot.ts';
import type { ClientProfile, ClientProfiles } from './client-profile.ts';
import type { McpRequest } from './exchange.ts';

/** Capabilities that a forward declares to one kind of client: exact JSON texts by name, in the upstream's order. */
export interface Declaration {
  readonly forward: string;
  /** Era of the catalog: the client's own if the forward has one. */
  readonly era: Era;
  /** Members of `capabilities`, including `extensions` and `experimental`. */
  readonly capabilities: ReadonlyMap<string, string>;
  readonly extensions: ReadonlyMap<string, string>;
  readonly experimental: ReadonlyMap<string, string>;
}

/** The declarations of a namespace's forwards to a client, in order of registration. */
export function declarationsTo(
  client: Pick<ClientProfile, 'view'>,
  snapshot: Snapshot,
  namespace: Pick<NamespaceState, 'name'>,
): Declaration[] {
  const forwards = forwardsOf(snapshot, namespace);
  const found: Declaration[] = [];
  for (const { name } of forwards.sort((a, b) => a.registrationId - b.registrationId)) {
    const catalog = client.view.choose(name);
    if (!catalog) continue;
    const capabilities = declared(memberText(catalog.identity, 'capabilities'));
    const extensions = declared(capabilities.get('extensions'));
    const experimental = declared(capabilities.get('experimental'));
    found.push({ forward: name, era: catalog.era, capabilities, extensions, experimental });
  }
  return found;
}

/** The forwards of a namespace that clients may know of. */
function forwardsOf({ forwards, hidden }: Snapshot, { name }: Pick<NamespaceState, 'name'>): Forward[] {
  return [...forwards.values()].filter((forward) => forward.namespace === name && !hidden.has(forward.name));
}

/** The declarations of a namespace's forwards to the client of a request. */
export function declarationsFor(
  { session, era, capabilities, namespace }: McpRequest,
  { profiles, registry }: { readonly profiles: ClientProfiles; readonly registry: Pick<Registry, 'current'> },
): Declaration[] {
  return declarationsTo(session?.profile ?? profiles.of(era, capabilities), registry.current, namespace);
}

/** Members of an object, without null and false, which declare nothing. */
function declared(json: string | undefined): Map<string, string> {
  const found = memberTexts(json ?? '{}');
  for (const [key, text] of found) if (text === 'null' || text === 'false') found.delete(key);
  return found;
}

/**
 * The forward that handles a method unknown to the service: the only one that declares the method's first segment as a
 * capability, an extension or an experimental capability (`tasks/get`: `tasks`, or `example.com/tasks`); if none does, the only
 * one with any extension or experimental capability. Undefined when there is none, or more than one.
 */
export function forwardForMethod(method: string, declarations: readonly Declaration[]): string | undefined {
  const segment = method.split('/', 1)[0] ?? '';
  let candidates = declarations.filter((one) => one.capabilities.has(segment) || segmentsOf(one).has(segment));
  if (candidates.length === 0)
    candidates = declarations.filter((one) => one.extensions.size + one.experimental.size > 0);
  return candidates.length === 1 ? candidates[0]?.forward : undefined;
}

/** Method segments of a forward's extensions and experimental capabilities. */
function segmentsOf({ extensions, experimental }: Declaration): Set<string> {
  return new Set([...extensions.keys(), ...experimental.keys()].map(methodSegment));
}

/** Capabilities that several forwards can share, because each request identifies its forward. */
const SHARED: ReadonlySet<string> = new Set(['tools', 'resources', 'prompts', 'completions', 'logging', 'tasks']);
/** Core tasks of 2025-11-25, for tool calls: lists are made here, and upstreams without cancellation reject it. */
const CORE_TASKS = '{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}';

/**
 * True if a namespace has tasks for clients of this era: a forward declares core tasks for tool calls, or the extension; or
 * long calls of one of its tools become tasks, for modern clients.
 */
export function offersTasks(declarations: readonly Declaration[], era: Era, hasOwnTasks: boolean): boolean {
  return (era === 'modern' && hasOwnTasks) || declarations.some(declaresTasks);
}

function declaresTasks({ era, capabilities, extensions }: Declaration): boolean {
  if (era === 'modern') return extensions.get(TASKS_EXTENSION)?.startsWith('{') === true;
  const requests = memberText(capabilities.get('tasks') ?? '', 'requests') ?? '';
  return memberText(memberText(requests, 'tools') ?? '', 'call')?.startsWith('{') === true;
}

/** Settings of the tasks extension: those of the only forward that has it, else none. */
function taskSettings(declarations: readonly Declaration[]): string {
  const settings = declarations.flatMap(({ extensions }) => extensions.get(TASKS_EXTENSION) ?? []);
  return (settings.length === 1 && settings[0]) || '{}';
}

/** Members that contain further capabilities. */
const NESTED = ['extensions', 'experimental'] as const;

/**
 * The capabilities of a namespace, as JSON text. Tools, resources and prompts always, since an upstream may become available
 * later; completions, logging and resource subscriptions when a forward of either era declares them, since they are translated
 * between eras; so are tasks. Other capabilities and extensions when exactly one forward declares them in the client's era, with
 * that forward's exact text.
 */
export function advertisedCapabilities(declarations: readonly Declaration[], era: Era, hasOwnTasks = false): string {
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
      parts.push(`${JSON.stringify(key)}:${text}`);
    }
  }
  if (era === 'legacy' && offersTasks(declarations, era, hasOwnTasks)) parts.push(`"tasks":${CORE_TASKS}`);
  for (const name of NESTED) {
    const merged = own.flatMap((declaration) =>
      [...declaration[name]]
        .filter(([key, text]) => text.startsWith('{') && sole.get(methodSegment(key)) === declaration)
        .filter(([key]) => key !== TASKS_EXTENSION)
        .map(([key, text]) => `${JSON.stringify(key)}:${text}`),
    );
    if (name === 'extensions' && era === 'modern' && offersTasks(declarations, era, hasOwnTasks)) {
      merged.push(`"${TASKS_EXTENSION}":${taskSettings(own)}`);
    }
    if (merged.length > 0) parts.push(`"${name}":{${merged.join(',')}}`);
  }
  return `{${parts.join(',')}}`;
}

/** The only declaring forward by method segment; undefined where several declare it. */
function soleDeclarers(declarations: readonly Declaration[]): Map<string, Declaration | undefined> {
  const sole = new Map<string, Declaration | undefined>();
  for (const declaration of declarations) {
    for (const segment of new Set([...declaration.capabilities.keys(), ...segmentsOf(declaration)])) {
      sole.set(segment, sole.has(segment) ? undefined : declaration);
    }
  }
  return sole;
}

/** The legacy protocol version for a client: the requested one if it is supported, else the latest. */
export function negotiate(requested: unknown): string {
  return typeof requested === 'string' && LEGACY_VERSIONS.includes(requested) ? requested : LATEST_LEGACY;
}

/** InitializeResult of a namespace for this client, as JSON text; `serverInfo` is JSON text too. */
export function initializeResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  protocolVersion: string,
  serverInfo: string,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(declarationsTo(client, snapshot, namespace), 'legacy');
  return joinObjects(
    { protocolVersion },
    `{"capabilities":${capabilities},"serverInfo":${serverInfo}}`,
    joinedInstructions(snapshot, namespace),
  );
}

/**
 * DiscoverResult of a namespace for this client, as JSON text; `serverInfo` is JSON text too. Not cacheable: capabilities can
 * change.
 */
export function discoverResult(
  snapshot: Snapshot,
  namespace: NamespaceState,
  serverInfo: string,
  client: Pick<ClientProfile, 'view'>,
): string {
  const capabilities = advertisedCapabilities(
    declarationsTo(client, snapshot, namespace),
    'modern',
    visibleEntries(namespace, 'tool').hasTasks,
  );
  return joinObjects(
    { resultType: 'complete', supportedVersions: MODERN_VERSIONS },
    `{"capabilities":${capabilities},"_meta":{"${META_SERVER_INFO}":${serverInfo}}}`,
    { ...joinedInstructions(snapshot, namespace), ttlMs: 0, cacheScope: 'public' },
  );
}

/** One object with the members of all three. Joins texts, so that what upstreams have declared is unchanged. */
function joinObjects(before: object, json: string, after: object): string {
  const last = JSON.stringify(after);
  const start = `${JSON.stringify(before).slice(0, -1)},${json.slice(1, -1)}`;
  return last === '{}' ? `${start}}` : `${start},${last.slice(1)}`;
}

/** The instructions of a namespace's upstreams. */
function joinedInstructions(snapshot: Snapshot, namespace: NamespaceState): { instructions?: string } {
  const texts = forwardsOf(snapshot, namespace)
    .map(instructionsOf)
    .filter((text) => text !== '');
  return texts.length === 0 ? {} : { instructions: texts.join('\n\n') };
}

function instructionsOf(forward: Forward): string {
  for (const { identity } of forward.catalogs) {
    const text: unknown = JSON.parse(memberText(identity, 'instructions') ?? 'null');
    if (typeof text === 'string' && text !== '') return text;
  }
  return '';
}
