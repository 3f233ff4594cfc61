import { removeEdits } from '@sluice/protocol/json/text';
import { INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { editRequest, type RequestMessage } from '@sluice/protocol/mcp/message';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import { type ErrorOutcome, notFound, rpcError } from '../http/outcome.ts';
import { Blocks } from '../identity/blocks.ts';
import type { Principal, StoredPrincipal } from '../identity/principal.ts';
import type { Discovered, EntryIdentity, Kind, Namespace } from '../registry/entries.ts';
import type { EntryIndex, ServedEntries } from '../registry/entry-index.ts';
import type { Registry } from '../registry/registry.ts';
import type { NamespaceState, Snapshot } from '../registry/snapshot.ts';
import { findResource } from './find-resource.ts';
import { AccessRules, type ResourceRoute } from './rules.ts';
import { entryTarget, forwardTarget, isSameTarget, parseReference, requestedUri, type Target } from './target.ts';

/**
 * Decides what clients may use. What a request is about is looked up here, and only with a permit can it be sent. Everything
 * here returns values, not promises: it is on the path of every call.
 */
export class Access {
  readonly #registry: Pick<Registry, 'current'>;
  readonly #findSender: (namespace: string, uri: string) => string | undefined;
  readonly #rules = new WeakMap<Snapshot, AccessRules>();
  #latestRules: AccessRules | undefined = undefined;
  /** The blocked principals. */
  readonly blocks: Pick<Blocks, 'isBlocked'>;
  /** For decisions about many uris. */
  readonly slicer = new TimeSlicer();

  /** `findSender` returns the forward that has sent a link to a uri to clients of a namespace. */
  constructor(
    registry: Pick<Registry, 'current'>,
    findSender: (namespace: string, uri: string) => string | undefined,
    blocks: Pick<Blocks, 'isBlocked'> = new Blocks(),
  ) {
    this.#registry = registry;
    this.#findSender = findSender;
    this.blocks = blocks;
  }

  /** The rules of the current state. */
  get rules(): AccessRules {
    const { current } = this.#registry;
    return this.#rules.getOrInsertComputed(current, () => {
      this.#latestRules = new AccessRules(current, this.#latestRules);
      return this.#latestRules;
    });
  }

  /**
   * Returns the target of a request, or an error if that is not found; the error is the same for whatever is not served.
   * Undefined for a method that names no entry.
   */
  resolve(namespace: NamespaceState, message: RequestMessage): Target | ErrorOutcome | undefined {
    switch (message.method) {
      case 'tools/call':
        return this.#resolveName(namespace, message, 'tool');
      case 'prompts/get':
        return this.#resolveName(namespace, message, 'prompt');
      case 'resources/read':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#resolveUri(namespace, message);
      case 'completion/complete':
        return this.#resolveReference(namespace, message);
      default:
        return undefined;
    }
  }

  /** Returns the target of a request whose method belongs to one forward; "not found" if that is not registered. */
  resolveForward(namespace: NamespaceState, message: RequestMessage, name: string): Target | ErrorOutcome {
    const { forwards, hidden } = this.#registry.current;
    const forward = hidden.has(name) ? undefined : forwards.get(name);
    return forward?.namespace === namespace.name ? forwardTarget(namespace, message, forward) : methodNotFound(message);
  }

  /** Decides whether a principal may do what it requests. */
  decide(principal: Principal, target: Target): Permit {
    return new GrantedPermit(this, { principal, target, task: undefined });
  }

  /** Decides about a request on behalf of a client of a namespace, by its name, in the current state. */
  decideIn(name: string, principal: Principal, message: RequestMessage): Permit | ErrorOutcome {
    const namespace = this.#registry.current.namespace(name);
    const target = namespace && this.resolve(namespace, message);
    if (target?.kind !== 'target') return target ?? rpcError(INVALID_PARAMS, `namespace not found: ${name}`);
    return this.decide(principal, target);
  }

  /** Returns the outline of a permit for what has been decided before, or is decided later, such as the uris of a forward. */
  outline(principal: StoredPrincipal, target: OutlinedTarget): PermitOutline {
    return new GrantedOutline(this, principal, target);
  }

  /**
   * Returns "not found" for a request that no evaluator needs to see: its name is not served, and no action can add it.
   * A tool of another namespace may be copied by an action, unless its name is taken.
   */
  findMissing(namespace: NamespaceState, message: RequestMessage): ErrorOutcome | undefined {
    const found = this.resolve(namespace, message);
    if (found?.kind !== 'error' || !found.notFoundLocally) return undefined;
    const { name } = message.params;
    if (message.method !== 'tools/call' || typeof name !== 'string') return found;
    if (namespace.indexes.tool.owner(name)) return found;
    const { namespaces } = this.#registry.current;
    return namespaces.values().some(({ indexes }) => indexes.tool.served(name)) ? undefined : found;
  }

  /**
   * Returns the route of a request about a uri: to its entry, else to the forward that has sent a link to it, else to the only
   * one that offers resources. Undefined if there are several or none, or if the uri is hidden.
   */
  routeUri({ name, indexes }: NamespaceState, uri: string, find = findResource): ResourceRoute | undefined {
    const { resource } = indexes;
    const entry = find(resource, uri);
    const forward = entry ? entry.discovered?.forward : (this.#senderOf(name, uri) ?? onlyForward(resource));
    const route = { entry, forward };
    return this.rules.allowsRoute(resource, uri, route) ? route : undefined;
  }

  #senderOf(namespace: Namespace, uri: string): string | undefined {
    const sender = this.#findSender(namespace, uri);
    return sender !== undefined && this.rules.servesForward(namespace, sender) ? sender : undefined;
  }

  /**
   * Looks a target up again: returns the same object if nothing has changed, else one with the new state of the entry; "not
   * found" if it is not served any more, or another one is served in its place.
   */
  resolveAgain(target: Target): Target | ErrorOutcome {
    const { message, entry, uri, forward = '' } = target;
    const namespace = this.#registry.current.stateOf(target.namespace);
    if (!namespace) return notFound(INVALID_REQUEST, `namespace not found: ${target.namespace.name}`, 404);
    const key = uri ?? entry?.key;
    const found =
      key === undefined ? this.resolveForward(namespace, message, forward) : this.resolve(namespace, message);
    if (found?.kind === 'error') return found;
    if (found && isSameTarget(target, found)) return found.entry === entry ? target : found;
    return key === undefined ? methodNotFound(message) : entryNotFound(message, entry?.kind ?? 'resource', key);
  }

  /**
   * Returns "not found" for the tool of an earlier request, such as the call of a task, if an operator has hidden it since, has
   * moved its forward to another namespace, or has blocked the principal.
   */
  checkStored({ principal, namespace, tool, forward }: StoredTarget): ErrorOutcome | undefined {
    const { key, upstreamKey, copied } = tool;
    const name = this.#registry.current.namespace(namespace)?.name;
    const discovered =
      forward === undefined || upstreamKey === undefined ? undefined : { forward, upstreamKey, copied };
    const isServed = name !== undefined && (forward === undefined || this.rules.servesForward(name, forward));
    const isBlocked = principal !== undefined && this.blocks.isBlocked(principal);
    const isHidden = isBlocked || !isServed || this.rules.isHidden({ kind: 'tool', namespace: name, key, discovered });
    return isHidden ? rpcError(INVALID_PARAMS, `tool not found: ${key}`) : undefined;
  }

  #resolveName(namespace: NamespaceState, message: RequestMessage, kind: 'tool' | 'prompt'): Target | ErrorOutcome {
    const { name } = message.params;
    if (typeof name !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: name');
    const entry = visibleEntries(namespace, kind).served(name);
    return entry ? entryTarget(namespace, message, entry) : entryNotFound(message, kind, name);
  }

  #resolveUri(namespace: NamespaceState, message: RequestMessage): Target | ErrorOutcome {
    const uri = requestedUri(message);
    if (uri === undefined) return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const route = this.routeUri(namespace, uri);
    if (route?.entry) return entryTarget(namespace, message, route.entry);
    const forward = this.#registry.current.forwards.get(route?.forward ?? '');
    return forward ? forwardTarget(namespace, message, forward) : entryNotFound(message, 'resource', uri);
  }

  #resolveReference(namespace: NamespaceState, message: RequestMessage): Target | ErrorOutcome {
    const reference = parseReference(message.params);
    if (typeof reference === 'string') return rpcError(INVALID_PARAMS, reference);
    const { kind, key } = reference;
    const index = namespace.indexes[kind];
    const exact = visibleEntries(namespace, kind).served(key);
    if (kind === 'prompt') return exact ? entryTarget(namespace, message, exact) : entryNotFound(message, kind, key);
    const entry = exact ?? findResource(index, key);
    const isAllowed = entry && this.rules.allowsRoute(index, key, { entry, forward: entry.discovered?.forward });
    return isAllowed ? entryTarget(namespace, message, entry) : entryNotFound(message, kind, key);
  }
}

/** What is stored of the target of a request. */
export interface StoredTarget {
  readonly principal?: StoredPrincipal | undefined;
  /** Name of the namespace. */
  readonly namespace: string;
  /** Forward of the upstream; undefined for that of a manually registered tool. */
  readonly forward?: string | undefined;
  /** The tool: its key in the namespace, and its name at the upstream if it was discovered. */
  readonly tool: { readonly key: string } & Partial<Pick<Discovered, 'upstreamKey' | 'copied'>>;
}

/** The entries of one kind that clients see in a namespace: what is in lists, and what requests find by name. */
export type VisibleSet = ServedEntries;

/** Returns the entries that some request in a namespace can be about. For records only: sending a request needs a permit. */
export function visibleEntries({ indexes, hidden }: NamespaceState, kind: Kind): VisibleSet {
  return hidden === undefined || hidden.size === 0 ? indexes[kind] : indexes[kind].without(hidden);
}

/** The only forward that offers resources; undefined if there are several or none. */
function onlyForward({ counts }: EntryIndex): string | undefined {
  const [only] = counts.keys();
  return counts.size === 1 ? only : undefined;
}

/** Returns the error for a name or uri that the namespace does not serve, for whatever reason. */
export function entryNotFound({ method }: RequestMessage, kind: Kind, key: string): ErrorOutcome {
  const data = kind === 'resource' && method !== 'completion/complete' ? { uri: key } : undefined;
  return notFound(INVALID_PARAMS, `${kind} not found: ${key}`, undefined, data);
}

function methodNotFound({ method }: RequestMessage): ErrorOutcome {
  return notFound(METHOD_NOT_FOUND, `method not found: ${method}`);
}

/** How a request is sent: without the parameters of a retry whose state is the service's own, or to continue a task. */
export interface RequestForm {
  readonly inputResponses?: null;
  readonly requestState?: null;
  /** Id of the task. */
  readonly task?: string | undefined;
}

/** See {@link Permit}. Not exported: only `decide` creates one. */
class GrantedPermit {
  readonly kind = 'permit';
  readonly principal: Principal;
  readonly target: Target;
  /** Id of the task that the request continues, if it is a retry of the call that has created one. */
  readonly task: string | undefined;
  /** Nothing else has it, whatever its shape. */
  readonly #grant: Access;

  constructor(grant: Access, { principal, target, task }: Pick<GrantedPermit, 'principal' | 'target' | 'task'>) {
    this.#grant = grant;
    this.principal = principal;
    this.target = target;
    this.task = task;
  }

  static require(permit: Permit): void {
    if (!(#grant in permit)) throw new TypeError('a request without a permit must not be sent');
  }

  /** The request that may be sent. */
  get message(): RequestMessage {
    return this.target.message;
  }

  /** Returns a permit for the same request in another form. */
  as(form: RequestForm): Permit {
    const { principal, target } = this;
    const { task = this.task } = form;
    const { text, paramsRange } = target.message;
    // By name: at run time, a form might have other members.
    const isRemoved = (key: string) => (key === 'inputResponses' || key === 'requestState') && form[key] === null;
    const edits = paramsRange ? removeEdits(text, paramsRange.start, isRemoved) : [];
    const message = edits.length === 0 ? target.message : editRequest(target.message, edits);
    return new GrantedPermit(this.#grant, { principal, target: { ...target, message }, task });
  }

  /** Returns what may be held for long, since it retains neither the request nor the state of the registry. */
  outline(): PermitOutline {
    const { namespace, entry, forward, uri } = this.target;
    return this.#grant.outline(this.principal, { namespace: namespace.name, entry, forward, uri });
  }

  /** Looks the target up, as {@link Access.resolveAgain}, and decides again, after a wait. The same object if nothing has changed. */
  renew(): Permit | ErrorOutcome {
    const target = this.#grant.resolveAgain(this.target);
    if (target.kind === 'error') return target;
    return target === this.target ? this : this.#grant.decide(this.principal, target).as({ task: this.task });
  }
}

/** What a request was about, as far as it is held or stored for long. */
interface OutlinedTarget extends Partial<Pick<Target, 'forward' | 'uri'>> {
  readonly namespace: Namespace;
  readonly entry?: EntryIdentity | undefined;
}

/** See {@link PermitOutline}. Not exported: only `outline` creates one. */
class GrantedOutline {
  readonly principal: StoredPrincipal;
  readonly #target: OutlinedTarget;
  readonly #grant: Access;

  constructor(grant: Access, principal: StoredPrincipal, target: OutlinedTarget) {
    this.#grant = grant;
    this.principal = principal;
    this.#target = target;
  }

  static require(outline: PermitOutline): void {
    if (!(#grant in outline)) throw new TypeError('a subscription without a permit must not be sent');
  }

  /**
   * Whether an operator has hidden what it is about, or another uri of its forward, has moved the forward to another namespace, or
   * has blocked the forward or the principal. What is only gone may return.
   */
  isHidden(uri = this.#target.uri): boolean {
    if (this.#grant.blocks.isBlocked(this.principal)) return true;
    const { namespace, entry, forward } = this.#target;
    const { rules } = this.#grant;
    if (forward !== undefined && !rules.servesForward(namespace, forward)) return true;
    if (forward !== undefined && uri !== undefined) return !rules.allowsUri(forward, uri);
    return entry !== undefined && rules.isHidden(entry);
  }
}

// Otherwise, each permit would have the constructor.
for (const { prototype } of [GrantedPermit, GrantedOutline]) Reflect.deleteProperty(prototype, 'constructor');

/**
 * A decision that a request may be sent to an upstream, with the principal, the target and the message that it is about. No
 * other code can create one.
 */
export type Permit = InstanceType<typeof GrantedPermit>;

/** Throws unless {@link Access.decide} has created this permit, as it has not created a cast object. */
export const requirePermit: (permit: Permit) => void = GrantedPermit.require;

/**
 * What remains of a permit for a task, a suspended call or subscriptions at a forward: whom and what was decided about, to decide
 * again. It cannot send a call. No other code can create one.
 */
export type PermitOutline = InstanceType<typeof GrantedOutline>;

/** Throws unless {@link Access.outline} has created this outline. */
export const requireOutline: (outline: PermitOutline) => void = GrantedOutline.require;
