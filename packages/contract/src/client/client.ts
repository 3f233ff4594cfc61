import { parseLossless } from '@sluice/json/lossless';
import createFetchClient, { type Client as FetchClient, type Middleware } from 'openapi-fetch';
import { errorObject } from '../envelope.ts';
import { ApiError } from './api-error.ts';
import type { paths } from './paths.ts';

export { ApiError } from './api-error.ts';
export type { components, paths } from './paths.ts';

/** Settings of {@link createClient}. */
export interface ClientOptions {
  /** Where the management API is: `http://localhost:8080`. */
  readonly host: string;
  /** Sent as `Authorization: Bearer` with every request. */
  readonly token?: string | undefined;
  /** Sends the requests; default: the global one. */
  readonly fetch?: ((request: Request) => Promise<Response>) | undefined;
}

/** A client of the management API: `client.GET('/api/v1/tools/{name}', { params: { path: { name } } })`. */
export type Client = FetchClient<paths>;

/**
 * A client whose types are those of the OpenAPI document. Numbers in answers keep their spelling, also where a double
 * could not carry them. Redirects are not followed: one leads to a log-in page. Give its calls to {@link payload}.
 */
export function createClient({ host, token, fetch }: ClientOptions): Client {
  const client = createFetchClient<paths>({
    baseUrl: host,
    redirect: 'manual',
    ...(fetch && { fetch }),
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    pathSerializer: pathOf,
  });
  client.use(lossless);
  return client;
}

/** What a call resolves with. */
interface Answered<Data> {
  readonly data?: { readonly data: Data } | undefined;
  readonly error?: unknown;
  readonly response: Response;
}

/** The payload of an answer. ApiError when the call was refused or answered by something else than the API. */
export async function payload<Data>(call: Promise<Answered<Data>>): Promise<Data> {
  const { data, error, response } = await call;
  if (data !== undefined && typeof data === 'object') return data.data;
  throw refusal(error, response);
}

/** The body of an answer that was asked for with `parseAs: 'stream'`. ApiError when the call was refused. */
export async function streamed(
  call: Promise<{
    readonly data?: ReadableStream<Uint8Array> | null;
    readonly error?: unknown;
    readonly response: Response;
  }>,
): Promise<ReadableStream<Uint8Array>> {
  const { data, error, response } = await call;
  if (data) return data;
  throw refusal(error, response);
}

function refusal(error: unknown, response: Response): ApiError {
  const refused = typeof error === 'object' && error !== null && 'error' in error ? error.error : undefined;
  const { success, data: known } = errorObject.safeParse(refused);
  return success
    ? new ApiError(response, known)
    : new ApiError(response, undefined, typeof error === 'string' ? error : JSON.stringify(error));
}

/** Dots alone would be resolved away in a URL, however they are encoded. */
function pathOf(path: string, parameters: Record<string, unknown>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => {
    const value = String(parameters[name]);
    if (value === '.' || value === '..') throw new Error(`the name "${value}" cannot be addressed by a URL`);
    return encodeURIComponent(value);
  });
}

/** openapi-fetch reads an answer of known length by `json()`, and any other with `JSON.parse`. */
const lossless: Middleware = {
  async onResponse({ response }) {
    if (!response.ok || !response.headers.get('content-type')?.startsWith('application/json')) return undefined;
    const text = await response.text();
    const headers = new Headers(response.headers);
    headers.set('content-length', String(new TextEncoder().encode(text).length));
    const read = new Response(text, { status: response.status, headers });
    return Object.defineProperty(read, 'json', { value: async () => parseLossless(text) });
  },
};
