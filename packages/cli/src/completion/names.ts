import { type Client, unwrap } from '@sluice/contract/client';
import type { Context } from '../context.ts';

/** Whoever presses a key does not wait longer. */
const LOOKUP_TIMEOUT_MS = 1500;

/** Whether the service has a list of what an argument or option is named for. */
export function hasNameList(kind: string): boolean {
  return Object.hasOwn(NAME_LISTS, kind);
}

/**
 * The names of a kind (`tool`, `namespace`) that the service has. Whatever goes wrong is kept quiet: a person is in the
 * middle of a line.
 */
export async function fetchNames(kind: string, context: Context): Promise<string[]> {
  const list = NAME_LISTS[kind];
  if (!list) return [];
  const signal = AbortSignal.timeout(LOOKUP_TIMEOUT_MS);
  const tooLate = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  // What an identity provider takes to renew a log-in is not for the middle of a line.
  const asked = context.connect({ renew: false }).then((client) => list(client, signal));
  try {
    const found = await Promise.race([asked, tooLate]);
    return [...new Set(found.map(({ name }) => name))];
  } catch {
    return [];
  }
}

type NameList = (client: Client, signal: AbortSignal) => Promise<readonly { readonly name: string }[]>;

const listNamespaces: NameList = (client, signal) => unwrap(client.GET('/api/v1/namespaces', { signal }));

const NAME_LISTS: Readonly<Record<string, NameList>> = {
  tool: (client, signal) => unwrap(client.GET('/api/v1/tools', { signal })),
  resource: (client, signal) => unwrap(client.GET('/api/v1/resources', { signal })),
  prompt: (client, signal) => unwrap(client.GET('/api/v1/prompts', { signal })),
  forward: (client, signal) => unwrap(client.GET('/api/v1/forwards', { signal })),
  service: (client, signal) => unwrap(client.GET('/api/v1/services', { signal })),
  revision: async (client, signal) =>
    (await unwrap(client.GET('/api/v1/evaluators/revisions', { signal }))).map(({ id }) => ({ name: String(id) })),
  namespace: listNamespaces,
  moveTo: listNamespaces,
};
