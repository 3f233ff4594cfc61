import { HIDDEN_CONTENT, HIDDEN_PATH, VISIBLE_FILES, visibleContent } from '../fixtures/file-server.ts';
import { modernClient, type RawClient, reply } from '../fixtures/raw-client.ts';

/** A running gateway. */
export interface UriSystem {
  /** Sends a management request; `path` begins after the version. */
  api(method: string, path: string, body: unknown): Promise<{ readonly status: number }>;
  /** Address of the MCP endpoint of a namespace. */
  url(namespace: string): string;
}

/** Result of {@link runUris}. */
export interface UriRun {
  /** Spellings that the server reads as the hidden file if nothing hides it. */
  readonly served: number;
  /** Visible uris that were read, in all namespaces. */
  readonly visible: number;
  /** The first violations. */
  readonly failures: readonly string[];
}

/** The ways in which an operator hides the file. */
const WAYS = {
  allow: { expose: { resources: { allow: ['file:///public/*'] } } },
  deny: { expose: { resources: { deny: ['file:///secrets/*'] } } },
  denyfile: { expose: { resources: { deny: [`file:///${HIDDEN_PATH}`] } } },
  disable: {},
} as const;

const CONCURRENT = 16;

/**
 * Registers a server for files once for each way to hide a file, and once without. Spellings with which the server reads the file
 * in the latter must not do so in the others, where each listed resource is read as listed. `name`: a name for namespaces.
 */
export async function runUris(
  system: UriSystem,
  name: string,
  address: string,
  spellings: readonly string[],
): Promise<UriRun> {
  const register = async (way: string, more: object): Promise<RawClient> => {
    const namespace = `${name}-${way}`;
    const { status } = await system.api('POST', '/forwards', { name: namespace, namespace, address, ...more });
    if (status !== 201) throw new Error(`forward ${namespace} was not registered: ${status}`);
    return modernClient(system.url(namespace));
  };
  const failures: string[] = [];
  const open = await register('open', {});
  const [listed = ''] = (await urisOf(open)).filter((uri) => uri.endsWith(HIDDEN_PATH));
  // Only these can be read where the file is hidden: the server gets each uri as it is.
  const served: string[] = [];
  await forEachConcurrently(spellings, async (uri) => {
    if ((await read(open, uri)) === HIDDEN_CONTENT) served.push(uri);
  });
  let visible = 0;
  for (const [way, more] of Object.entries(WAYS)) {
    const client = await register(way, more);
    if (way === 'disable') {
      const mark = { enabled: false, forward: `${name}-${way}`, uris: [listed] };
      const { status } = await system.api('POST', '/resources/enabled', mark);
      if (status !== 200) failures.push(`${name} ${way}: ${listed} was not disabled: ${status}`);
    }
    await forEachConcurrently([listed, ...served], async (uri) => {
      if ((await read(client, uri)) === HIDDEN_CONTENT) failures.push(`${name} ${way}: ${JSON.stringify(uri)}`);
    });
    const uris = await urisOf(client);
    const contents = await Promise.all(uris.map((uri) => read(client, uri)));
    for (const file of VISIBLE_FILES) {
      if (contents.filter((text) => text === visibleContent(file)).length === 1) visible++;
      else failures.push(`${name} ${way}: ${file} is not listed, or not read as listed`);
    }
    if (uris.length !== VISIBLE_FILES.length) failures.push(`${name} ${way}: ${uris.length} uris are listed`);
  }
  return { served: served.length, visible, failures: failures.slice(0, 20) };
}

/** The text of a resource; undefined if it is not found. */
async function read(client: RawClient, uri: string): Promise<unknown> {
  const { result } = JSON.parse(reply(await client.call('resources/read', JSON.stringify({ uri }))));
  return result?.contents[0].text;
}

async function urisOf(client: RawClient): Promise<string[]> {
  const { result } = JSON.parse(reply(await client.call('resources/list')));
  return Object(result).resources.map((resource: unknown) => String(Object(resource).uri));
}

async function forEachConcurrently<T>(items: readonly T[], process: (item: T) => Promise<void>): Promise<void> {
  const remaining = items.values();
  const work = async (): Promise<void> => {
    for (const item of remaining) await process(item);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
}
