import type { ForwardInput, ForwardPatch } from '@sluice/contract';
import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import type { Forward } from '../../api/queries.ts';
import { ConflictError, isEqual } from '../../ui/conflict.tsx';

/** A forward as it was read, and what identifies that state. */
export interface ReadForward {
  readonly forward: Forward;
  readonly etag: string;
}

/** Somebody else has changed the forward since it was read. */
export class ForwardConflictError extends ConflictError {
  override readonly name = 'ForwardConflictError';
  /** The forward as it is now. */
  readonly current: ReadForward;

  constructor(current: ReadForward, cause: unknown) {
    super(cause);
    this.current = current;
  }
}

/** Reads a forward in order to change it. */
export async function readForward(client: Client, name: string): Promise<ReadForward> {
  const call = client.GET('/api/v1/forwards/{name}', { params: { path: { name } } });
  const forward = await unwrap(call);
  return { forward, etag: (await call).response.headers.get('etag') ?? '*' };
}

/** Adds a forward. */
export function createForward(client: Client, body: ForwardInput): Promise<unknown> {
  return unwrap(client.POST('/api/v1/forwards', { body }));
}

/** Whether the service has stored what a form contains, which it does before it discovers the server. */
export async function isStored(client: Client, body: ForwardInput): Promise<boolean> {
  try {
    const { forward } = await readForward(client, body.name);
    return Object.values(patchOf(forward, body)).every((change) => isEqual(change, {}));
  } catch {
    // There is no such forward yet, or the service does not respond.
    return false;
  }
}

/**
 * Sends the differences from the forward that was read as a merge patch, for the state with this ETag. Throws
 * ForwardConflictError if it has another one.
 */
export async function changeForward(client: Client, before: Forward, etag: string, after: ForwardInput): Promise<void> {
  const params = { path: { name: before.name } };
  const call = client.PATCH('/api/v1/forwards/{name}', {
    params,
    headers: { 'if-match': etag },
    body: patchOf(before, after),
  });
  try {
    await unwrap(call);
  } catch (error) {
    // Names that are in use are a conflict, too.
    const current = error instanceof ApiError && error.status === 409 && (await readForward(client, before.name));
    throw current && current.etag !== etag ? new ForwardConflictError(current, error) : error;
  }
}

function patchOf(
  before: Forward,
  { address, namespace, labels = {}, prefix, expose, proxy, compression, ...rest }: ForwardInput,
): ForwardPatch {
  const isMoved = address !== before.address;
  const headers = mapPatch(before.headers ?? {}, rest.headers ?? {});
  return {
    ...(isMoved && { address }),
    ...(namespace !== before.namespace && { namespace: namespace ?? null }),
    ...(prefix !== before.prefix && { prefix: prefix ?? null }),
    labels: mapPatch(before.labels, labels),
    ...((isMoved || Object.keys(headers).length > 0) && { headers }),
    ...(!isEqual(expose, before.expose) && { expose: exposePatch(expose) }),
    ...(proxy !== before.proxy && { proxy: proxy ?? null }),
    ...(compression !== before.compression && { compression: compression ?? null }),
  };
}

/** Every kind of entry is replaced: a merge patch would keep the rules that are missing. */
function exposePatch(expose: ForwardInput['expose']): ForwardPatch['expose'] {
  if (!expose) return null;
  const rules = (kind: 'tools' | 'resources' | 'prompts') => {
    const { allow = null, deny = null, new: added = null } = expose[kind] ?? {};
    return allow || deny || added ? { allow, deny, new: added } : null;
  };
  return { tools: rules('tools'), resources: rules('resources'), prompts: rules('prompts') };
}

/** Returns the members to set, and with null to remove. */
function mapPatch(
  before: Readonly<Record<string, string>>,
  after: Readonly<Record<string, string>>,
): Record<string, string | null> {
  const removed = Object.keys(before).filter((key) => !(key in after));
  const set = Object.entries(after).filter(([key, value]) => before[key] !== value);
  return Object.fromEntries<string | null>([...removed.map((key) => [key, null] as const), ...set]);
}
