import type { Provisioned } from './provisioning.ts';
import type { Tool } from './tools.ts';

/** Sluice waits 5 s for a tool; the reason has to arrive before that. */
const TIMEOUT_MS = 4_000;
/** Longest answer, in bytes. What is longer is no reading for an agent. */
const MAX_BYTES = 256 * 1024;

/**
 * Fetches a URL that the caller chooses.
 *
 * THIS IS SERVER-SIDE REQUEST FORGERY BY DESIGN. An agent, and whoever has put words into its prompt, decides what this
 * machine asks, from inside your network: http://169.254.169.254/ has a cloud machine's credentials,
 * http://localhost:8080 may be Sluice's own management API. Therefore
 * - only `origins` are reached, and without them nothing at all. Never make that "everything but private addresses": a
 *   name that is public when you look it up may be private when it is connected to;
 * - redirects are not followed, for they lead where the list does not;
 * - better still is a tool without a url: fixed host, fixed path, arguments only where they can do no harm.
 *
 * A secret that the tool was provisioned with goes to every origin of the list: in plain text to those that the operator
 * has written with `http:`, and to no other.
 */
export function httpGet(origins: ReadonlySet<string>, provisioned: Pick<Provisioned, 'secret'>): Tool {
  return {
    name: 'http-get',
    description: 'Fetches a URL by HTTP GET and answers with its text. Only origins that the operator has allowed.',
    uri: 'sample://http-get',
    input_schema: {
      type: 'object',
      properties: { url: { type: 'string', description: 'http or https' } },
      required: ['url'],
    },
    async run({ arguments: given, secretsURI }, left) {
      const url = allowed(given.url ?? '', origins);
      const authorization = provisioned.secret(secretsURI);
      const timeout = AbortSignal.timeout(TIMEOUT_MS);
      try {
        const response = await fetch(url, {
          headers: authorization === undefined ? {} : { authorization },
          redirect: 'manual',
          signal: AbortSignal.any([left, timeout]),
        });
        const text = await textOf(response);
        if (response.ok) return [text];
        throw new Error(`${url.host} answered ${response.status}: ${text.slice(0, 1000)}`);
      } catch (error) {
        if (timeout.aborted) throw new Error(`${url.host} took longer than ${TIMEOUT_MS} ms`);
        // fetch says only that it failed, and keeps why.
        if (error instanceof TypeError) throw new Error(`${url.host} cannot be reached`, { cause: error });
        throw error;
      }
    },
  };
}

function allowed(text: string, origins: ReadonlySet<string>): URL {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error('url must be an http or https URL');
  if (url.username !== '' || url.password !== '') throw new Error('url must not carry credentials');
  if (!origins.has(url.origin))
    throw new Error(`${url.origin} is not allowed: the operator lists origins in SAMPLE_HTTP_ORIGINS`);
  return url;
}

/** The body, read no further than it may be long: neither the header nor the compressed length can be trusted. */
async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BYTES) throw new Error(`the answer is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
