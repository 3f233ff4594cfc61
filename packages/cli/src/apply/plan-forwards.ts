import { changedHeaders, EXPOSED_KINDS, type Expose, forwardOrigin, mergeExpose } from '@sluice/contract';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import type { CurrentForward, CurrentState } from './current-state.ts';
import type { DesiredForward, DesiredState } from './desired-state.ts';
import { type Relocation, relocationOf } from './relocation.ts';
import { diffMembers, initialMembers, type PlannedSteps, type Step } from './step.ts';

/** Planned steps for forwards and their result. */
export interface ForwardPlan extends PlannedSteps {
  /** All forwards after the plan by name, in order of registration. */
  readonly result: ReadonlyMap<string, CurrentForward>;
  /** Forwards that a step registers; their tools are not known yet. */
  readonly registered: ReadonlySet<string>;
  /** Forwards that get another address or expose other entries: which tools they have then is not known. */
  readonly readdressed: ReadonlySet<string>;
  /** Forwards that get another namespace or prefix, by name. */
  readonly relocations: ReadonlyMap<string, Relocation>;
  /** Forwards that a step deletes. */
  readonly deleted: ReadonlySet<string>;
  /** Whether the tools of a forward may be others than before. */
  isUncertain(forward: string): boolean;
}

/** Plans the forwards. An existing one is changed in place: its entries follow its namespace and prefix. */
export function planForwards(desired: DesiredState, actual: CurrentState, prune: boolean): ForwardPlan {
  const known = new Map(actual.forwards.map((forward) => [forward.name, forward]));
  const upserts: Step[] = [];
  const stay = new Map<string, CurrentForward>(known);
  const readdressed = new Set<string>();
  const relocations = new Map<string, Relocation>();
  const registered = new Map<string, CurrentForward>();
  for (const forward of desired.forwards) {
    const { name } = forward;
    const before = known.get(name);
    if (before) requireHeaders(before, forward);
    const after = plannedForward(forward, before);
    const step = { kind: 'forward', name, forward, notes: [] } as const;
    if (!before) {
      upserts.push({ ...step, action: 'create', changes: initialMembers(forwardMembers(after)) });
      registered.set(name, after);
      continue;
    }
    const changes = diffMembers(forwardMembers(before), forwardMembers(after));
    if (changes.length === 0) continue;
    const relocation = relocationOf(before, after);
    const notes = relocation ? ['its entries follow, except those that were moved or renamed'] : [];
    upserts.push({ ...step, action: 'update', changes, ...widenedBy(before, after), notes });
    stay.set(name, after);
    if (changes.some(({ member }) => member === 'address' || member === 'expose')) readdressed.add(name);
    if (relocation) relocations.set(name, relocation);
  }
  const named = new Set(desired.forwards.map(({ name }) => name));
  const unnamed = prune ? actual.forwards.filter(({ name }) => !named.has(name)) : [];
  for (const { name } of unnamed) stay.delete(name);
  const notes = ['with its discovered entries'];
  return {
    upserts,
    deletions: unnamed.map(({ name }): Step => ({ kind: 'forward', action: 'delete', name, changes: [], notes })),
    result: new Map([...stay, ...registered]),
    registered: new Set(registered.keys()),
    readdressed,
    relocations,
    deleted: new Set(unnamed.map(({ name }) => name)),
    isUncertain: (name) => registered.has(name) || readdressed.has(name),
  };
}

function widenedBy(before: CurrentForward, after: CurrentForward): Pick<Step, 'widens'> {
  const widens = [
    ...(before.namespace === after.namespace ? [] : [`moves its entries to namespace ${after.namespace}`]),
    ...(isLoosened(before.expose, after.expose) ? ['may expose more entries'] : []),
  ];
  return widens.length === 0 ? {} : { widens };
}

/** Whether a change of the rules may expose entries that were not exposed before. */
function isLoosened(before: Expose = {}, after: Expose = {}): boolean {
  return EXPOSED_KINDS.some((kind) => {
    const [old, next] = [before[kind] ?? {}, after[kind] ?? {}];
    const allowsMore = old.allow !== undefined && (next.allow?.some((glob) => !old.allow?.includes(glob)) ?? true);
    const deniesLess = old.deny?.some((glob) => !next.deny?.includes(glob)) ?? false;
    return allowsMore || deniesLess || (old.new === 'disabled' && next.new !== 'disabled');
  });
}

/** Credentials do not move to another host by themselves. Throws {@link Failure}. */
function requireHeaders({ name, address, headers }: CurrentForward, described: DesiredForward): void {
  if (!headers || described.headers !== undefined) return;
  if (forwardOrigin(address) === forwardOrigin(described.address)) return;
  const names = Object.keys(headers).join(', ');
  throw new Failure(
    `${described.position()}: the new address of forward ${name} has another origin: add headers, to confirm or change ${names}`,
  );
}

/** The forward after the plan: headers that it does not name and what its rules leave out stay unchanged. */
function plannedForward(forward: DesiredForward, before: CurrentForward | undefined): CurrentForward {
  const { name, address, namespace, labels, prefix, proxy, compression } = forward;
  const headers = changedHeaders(before?.headers, forward.headers);
  const expose = mergeExpose(before?.expose, forward.expose);
  return { name, address, namespace, labels, prefix, headers, expose, proxy, compression: compression || undefined };
}

function forwardMembers(forward: CurrentForward): JsonObject {
  const { name, address, namespace, labels, prefix, headers, expose, proxy, compression } = forward;
  return {
    name,
    address,
    namespace,
    labels,
    ...(prefix !== '' && { prefix }),
    ...(headers && { headers }),
    ...(expose && { expose: exposeJson(expose) }),
    ...(proxy !== undefined && { proxy }),
    ...(compression && { compression }),
  };
}

/** The rules as JSON. */
export function exposeJson(expose: Expose): JsonObject {
  const json = parseJson(JSON.stringify(expose));
  return isJsonObject(json) ? json : {};
}
