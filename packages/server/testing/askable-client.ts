import { MODERN } from '../../../test/fixtures/raw-client.ts';
import { Reading } from './session-client.ts';

/** Everything that a client can be asked. */
export const ASKABLE = '{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}';

/** What one request may have besides the plainest of it; texts are JSON text. */
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
  /** As it came. */
  readonly text: string;
  readonly id: unknown;
  readonly requests: Readonly<Record<string, { readonly method: string; readonly params?: unknown }>>;
  readonly keys: readonly string[];
  readonly state: string;
}

/** A client of the modern era that can be asked, and sends its requests anew with what it was asked for. */
export class AskableClient {
  readonly url: string;
  readonly #capabilities: string;
  readonly #headers: Readonly<Record<string, string>>;
  #lastId = 0;

  /** `capabilities` are JSON text; `headers` go with every request. */
  constructor(url: string, capabilities: string = ASKABLE, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.#capabilities = capabilities;
    this.#headers = headers;
  }

  /** Sends a request, by default a call of the tool `work`, whose answer is read as it comes. */
  send(fields: RequestFields = {}): Reading {
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
    return new Reading(
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

  /** Sends the request anew, with this state and these answers (JSON text). */
  retry(state: string, responses: string, fields: RequestFields = {}): Reading {
    const more = `"inputResponses":${responses},"requestState":${JSON.stringify(state)}`;
    return this.send({ ...fields, more });
  }
}

/** The answer's last message, once it is over. Throws when it broke off. */
export async function lastMessage(reading: Reading): Promise<string> {
  if (!(await reading.over)) throw new Error(`the answer broke off after ${JSON.stringify(reading.text)}`);
  return reading.messages.at(-1) ?? '';
}

/** The `InputRequiredResult` that the answer ends with. Throws when it is something else. */
export async function inputRequired(reading: Reading): Promise<InputRequired> {
  const text = await lastMessage(reading);
  const { id, result } = JSON.parse(text);
  if (result?.resultType !== 'input_required') throw new Error(`no input is asked for: ${text}`);
  const { inputRequests = {}, requestState } = result;
  return { text, id, requests: inputRequests, keys: Object.keys(inputRequests), state: requestState };
}

/** The JSON-RPC error that the answer ends with, with the HTTP status. Throws when it is something else. */
export async function failure(
  reading: Reading,
): Promise<{ status: number | undefined; code: number; message: string; data?: unknown }> {
  const text = await lastMessage(reading);
  const { error } = JSON.parse(text);
  if (error === undefined) throw new Error(`no error: ${text}`);
  return { status: (await reading.head).statusCode, ...error };
}

/** The first text of the result that the answer ends with. Throws when it is something else. */
export async function resultText(reading: Reading): Promise<string> {
  const text = await lastMessage(reading);
  const { result } = JSON.parse(text);
  if (result?.resultType !== 'complete') throw new Error(`no result: ${text}`);
  return result.content[0].text;
}
