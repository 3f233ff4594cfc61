import { MODERN } from '../../../test/fixtures/raw-client.ts';
import { ResponseReader } from './session-client.ts';

/** Capabilities for every kind of server request. */
export const ALL_CAPABILITIES = '{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}';

/** Optional parts of a request; texts are JSON text. */
export interface RequestFields {
  /** Its id; a new one of the client's otherwise. */
  readonly id?: string;
  /** Default `tools/call`. */
  readonly method?: string;
  /** Members of `params`: `"name":"work"` by default. */
  readonly params?: string;
  /** Further members of `params`, as in `"requestState":"x"`. */
  readonly more?: string;
  /** Further members of `_meta`, as in `"progressToken":1`. */
  readonly meta?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An `InputRequiredResult`. */
export interface InputRequired {
  /** Unchanged. */
  readonly text: string;
  readonly id: unknown;
  readonly requests: Readonly<Record<string, { readonly method: string; readonly params?: unknown }>>;
  readonly keys: readonly string[];
  readonly state: string;
}

/** A modern client that supports server requests and retries its requests with input. */
export class InteractiveClient {
  readonly url: string;
  readonly #capabilities: string;
  readonly #headers: Readonly<Record<string, string>>;
  #lastId = 0;

  /** `capabilities` are JSON text; `headers` go with every request. */
  constructor(url: string, capabilities: string = ALL_CAPABILITIES, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.#capabilities = capabilities;
    this.#headers = headers;
  }

  /** Sends a request, by default a call of the tool `work`, and reads the response as it arrives. */
  send(fields: RequestFields = {}): ResponseReader {
    const { method = 'tools/call', params = '"name":"work"', more, meta, headers } = fields;
    const id = fields.id ?? String(++this.#lastId);
    const envelope = [
      `"io.modelcontextprotocol/protocolVersion":"${MODERN}"`,
      `"io.modelcontextprotocol/clientCapabilities":${this.#capabilities}`,
      ...(meta === undefined ? [] : [meta]),
    ].join(',');
    const members = [params, `"_meta":{${envelope}}`, ...(more === undefined ? [] : [more])].join(',');
    const body = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${members}}}`;
    const { name, uri } = JSON.parse(`{${params}}`);
    return new ResponseReader(
      this.url,
      'POST',
      {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN,
        'mcp-method': method,
        ...((name ?? uri) !== undefined && { 'mcp-name': name ?? uri }),
        ...this.#headers,
        ...headers,
      },
      body,
    );
  }

  /** Retries the request with this state and these input responses (JSON text). */
  retry(state: string, responses: string, fields: RequestFields = {}): ResponseReader {
    const more = `"inputResponses":${responses},"requestState":${JSON.stringify(state)}`;
    return this.send({ ...fields, more });
  }
}

/** The last message of the completed response. Throws if the response was aborted. */
export async function lastMessage(reading: ResponseReader): Promise<string> {
  if (!(await reading.ended)) throw new Error(`the response was aborted after ${JSON.stringify(reading.text)}`);
  return reading.messages.at(-1) ?? '';
}

/** The `InputRequiredResult` at the end of the response. Throws for anything else. */
export async function inputRequired(reading: ResponseReader): Promise<InputRequired> {
  const text = await lastMessage(reading);
  const { id, result } = JSON.parse(text);
  if (result?.resultType !== 'input_required') throw new Error(`not an InputRequiredResult: ${text}`);
  const { inputRequests = {}, requestState } = result;
  return { text, id, requests: inputRequests, keys: Object.keys(inputRequests), state: requestState };
}

/** The JSON-RPC error at the end of the response, with the HTTP status. Throws for anything else. */
export async function failure(
  reading: ResponseReader,
): Promise<{ status: number | undefined; code: number; message: string; data?: unknown }> {
  const text = await lastMessage(reading);
  const { error } = JSON.parse(text);
  if (error === undefined) throw new Error(`no error: ${text}`);
  return { status: (await reading.head).statusCode, ...error };
}

/** The first text of the result at the end of the response. Throws for anything else. */
export async function resultText(reading: ResponseReader): Promise<string> {
  const text = await lastMessage(reading);
  const { result } = JSON.parse(text);
  if (result?.resultType !== 'complete') throw new Error(`no result: ${text}`);
  return result.content[0].text;
}
