import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';
import createFetchClient, { type Client as FetchClient, type Middleware } from 'openapi-fetch';
import type { ErrorObject, PageInfo } from '../schemas/envelope.ts';
import { ERROR_CODES, isDotName } from '../values.ts';
import type { paths } from './paths.ts';

export { entryParams } from './entry-params.ts';
export type { components, paths } from './paths.ts';
export { findShapeIssues } from './response-shape.ts';
export { responseShapes } from './response-shapes.ts';

/** Error response of the API, or of a proxy in front of it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status. */
  readonly status: number;
  /** Error code; undefined when the response came from a proxy. */
  readonly code: ErrorObject['code'] | undefined;
  /** Error details. */
  readonly details: ErrorObject['details'];
  /** Target of a redirect. */
  readonly location: string | undefined;

  constructor(response: Response, error: ErrorObject | undefined, text = '') {
    super(error?.message ?? (text.trim() || `HTTP status ${response.status}`));
    this.status = response.status;
    this.code = error?.code;
    this.details = error?.details;
    this.location = response.headers.get('location') ?? undefined;
  }
}

/** Options of {@link createClient}. */
export interface ClientOptions {
  /** Base URL of the management API, such as `http://localhost:8080`. */
  readonly host: string;
  /** Bearer token sent with every request. */
  readonly token?: string | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: ((request: Request) => Promise<Response>) | undefined;
}

/** Client of the management API: `client.GET('/api/v1/tools/{name}', { params: { path: { name } } })`. */
export type Client = FetchClient<paths>;

/**
 * Creates a client typed by the OpenAPI document. Numbers in responses keep their digits, even where a double would lose
 * precision. Redirects are not followed, since they lead to a login page. Pass the calls to {@link unwrap}.
 */
export function createClient({ host, token, fetch }: ClientOptions): Client {
  const client = createFetchClient<paths>({
    baseUrl: host,
    redirect: 'manual',
    ...(fetch && { fetch }),
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    pathSerializer: serializePath,
  });
  client.use(losslessNumbers);
  return client;
}

/** Result of a client call. */
interface CallResult<Data> {
  readonly data?: { readonly data: Data; readonly page?: PageInfo | undefined } | undefined;
  readonly error?: unknown;
  readonly response: Response;
}

/** Returns the payload of a response. Throws ApiError for an error response or one that is not the API's. */
export async function unwrap<Data>(call: Promise<CallResult<Data>>): Promise<Data> {
  return (await unwrapPage(call)).data;
}

/** Returns a list and its `page`, which is undefined without `limit`, `cursor` and `q`. Throws like {@link unwrap}. */
export async function unwrapPage<Data>(
  call: Promise<CallResult<Data>>,
): Promise<{ readonly data: Data; readonly page?: PageInfo | undefined }> {
  const { data, error, response } = await call;
  if (data !== undefined && typeof data === 'object') return data;
  throw toApiError(error, response);
}

/** Returns the body of a call made with `parseAs: 'stream'`. Throws ApiError for an error response. */
export async function unwrapStream(
  call: Promise<{
    readonly data?: ReadableStream<Uint8Array> | null;
    readonly error?: unknown;
    readonly response: Response;
  }>,
): Promise<ReadableStream<Uint8Array>> {
  const { data, error, response } = await call;
  if (data) return data;
  throw toApiError(error, response);
}

function toApiError(error: unknown, response: Response): ApiError {
  const member = typeof error === 'object' && error !== null && 'error' in error ? error.error : undefined;
  return isErrorObject(member)
    ? new ApiError(response, member)
    : new ApiError(response, undefined, typeof error === 'string' ? error : JSON.stringify(error));
}

/** Checked by hand: loading the schemas of the contract takes longer than a command of the command line. */
function isErrorObject(value: unknown): value is ErrorObject {
  if (!isJsonObject(value)) return false;
  const { code, message, details } = value;
  const isListOfIssues = (list: readonly unknown[]) =>
    list.every((item) => isJsonObject(item) && typeof item.path === 'string' && typeof item.message === 'string');
  return (
    typeof code === 'string' &&
    ERROR_CODES.some((known) => known === code) &&
    typeof message === 'string' &&
    (details === undefined || (Array.isArray(details) ? isListOfIssues(details) : isJsonObject(details)))
  );
}

/** Fills in the path parameters. URL parsers resolve `.` and `..` segments even when percent-encoded. */
function serializePath(path: string, parameters: Record<string, unknown>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => {
    const value = String(parameters[name]);
    if (isDotName(value)) throw new Error(`invalid name "${value}": cannot be used in a URL path`);
    return encodeURIComponent(value);
  });
}

/** Parses JSON losslessly. openapi-fetch calls `json()` only when the length is known, `JSON.parse` otherwise. */
const losslessNumbers: Middleware = {
  async onResponse({ response }) {
    if (!response.ok || !response.headers.get('content-type')?.startsWith('application/json')) return undefined;
    const text = await response.text();
    const headers = new Headers(response.headers);
    headers.set('content-length', String(new TextEncoder().encode(text).length));
    const buffered = new Response(text, { status: response.status, headers });
    return Object.defineProperty(buffered, 'json', { value: async () => parseLossless(text) });
  },
};
