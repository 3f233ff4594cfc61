import type { SecretStore } from './provisioning.ts';
import type { Tool } from './tools.ts';

/** Shorter than Sluice's timeout of 5 s, so that the error message arrives in time. */
const TIMEOUT_MS = 4_000;
/** Maximum response size in bytes. */
const MAX_BYTES = 256 * 1024;

/**
 * Fetches a URL that the caller chooses.
 *
 * THIS IS SERVER-SIDE REQUEST FORGERY BY DESIGN. An agent, or a prompt injection, decides what this machine requests from
 * inside your network: http://169.254.169.254/ serves a cloud machine's credentials, http://localhost:8080 may be Sluice's
 * management API. Therefore
 * - only the allowed `origins` are requested, by default none. Never replace this with a list of denied private addresses:
 *   a name may resolve to a public address when checked and to a private one when connected;
 * - redirects are not followed, because they may lead elsewhere;
 * - prefer tools without a URL argument: fixed host and path, arguments only where they are harmless.
 *
 * The provisioned secret of the tool is sent to every allowed origin, in plain text if the origin uses `http:`.
 */
export function httpGet(origins: ReadonlySet<string>, secrets: Pick<SecretStore, 'secret'>): Tool {
  return {
    name: 'http-get',
    description: 'Fetches a URL with HTTP GET and returns its text. Only allowed origins.',
    uri: 'sample://http-get',
    input_schema: {
      type: 'object',
      properties: { url: { type: 'string', description: 'HTTP or HTTPS URL' } },
      required: ['url'],
    },
    async run({ arguments: given, secretsURI }, signal) {
      const url = parseAllowedUrl(given.url ?? '', origins);
      const authorization = secrets.secret(secretsURI);
      const timeout = AbortSignal.timeout(TIMEOUT_MS);
      try {
        const response = await fetch(url, {
          headers: authorization === undefined ? {} : { authorization },
          redirect: 'manual',
          signal: AbortSignal.any([signal, timeout]),
        });
        const text = await readText(response);
        if (response.ok) return [text];
        throw new Error(`${url.host} responded with status ${response.status}: ${text.slice(0, 1000)}`);
      } catch (error) {
        if (timeout.aborted) throw new Error(`${url.host}: timeout after ${TIMEOUT_MS} ms`);
        // fetch puts the reason in the cause.
        if (error instanceof TypeError) throw new Error(`${url.host} is unreachable`, { cause: error });
        throw error;
      }
    },
  };
}

function parseAllowedUrl(text: string, origins: ReadonlySet<string>): URL {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error('invalid url: expected an HTTP or HTTPS URL');
  if (url.username !== '' || url.password !== '') throw new Error('invalid url: must not contain credentials');
  if (!origins.has(url.origin)) throw new Error(`${url.origin} is not allowed: add it to SAMPLE_HTTP_ORIGINS`);
  return url;
}

/** Reads the body up to the limit. Content-Length cannot be trusted, and may be the compressed length. */
async function readText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BYTES) throw new Error(`response exceeds ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
