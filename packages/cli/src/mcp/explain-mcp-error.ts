import {
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UrlElicitationRequiredError,
} from '@modelcontextprotocol/client';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { Exit, Failure } from '../failure.ts';
import { explainNetworkError } from '../http/network-error.ts';
import { abbreviate } from '../terminal/text.ts';
import { parseWebUrl } from './elicitation.ts';

/**
 * Explains an error of an MCP server: a JSON-RPC error with code and message (and its data when `verbose`), an HTTP
 * status, or a network error. Returns other errors unchanged.
 */
export function explainMcpError(error: unknown, url: URL, verbose: boolean): unknown {
  if (error instanceof Exit) return error;
  const failure = findFailure(error);
  if (failure !== undefined) return failure;
  if (UrlElicitationRequiredError.isInstance(error)) {
    return new Failure(`error ${error.code}: ${error.message}: open this URL first, then run the command again`, {
      notes: error.elicitations.map(({ url: address, message }) => {
        const display = parseWebUrl(address)?.href ?? `not a plain http or https URL: ${abbreviate(address)}`;
        return `${display} (${abbreviate(message)})`;
      }),
      cause: error,
    });
  }
  if (ProtocolError.isInstance(error)) {
    const notes = verbose && error.data !== undefined ? [`data: ${JSON.stringify(error.data)}`] : [];
    return new Failure(`error ${error.code}: ${error.message}`, { notes, cause: error });
  }
  if (SdkHttpError.isInstance(error)) return new Failure(httpFailure(error, url), { cause: error });
  const network = explainNetworkError(error, url.href);
  if (network !== undefined) return new Failure(network, { cause: error });
  if (SdkError.isInstance(error)) {
    const text = error.code === SdkErrorCode.RequestTimeout ? `no response from ${url}` : `${url}: ${error.message}`;
    return new Failure(text, { cause: error });
  }
  return error;
}

/** The client wraps errors of the function that sends requests. */
function findFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  return error instanceof Error ? findFailure(error.cause) : undefined;
}

/** The body of the response explains more than its status when it comes from an MCP server or the management API. */
function httpFailure({ status, message, data }: SdkHttpError, { href }: URL): string {
  const body = typeof data.text === 'string' ? tryParseJson(data.text) : undefined;
  const error = isJsonObject(body) ? body.error : undefined;
  if (isJsonObject(body) && isJsonObject(error) && typeof error.message === 'string') {
    if (body.jsonrpc !== undefined) return `error ${JSON.stringify(error.code)}: ${error.message}`;
    if (body.data === null) {
      return `${href} is the management API; the MCP listener is on another port (8081 by default)`;
    }
  }
  switch (status) {
    case 401:
      return `${href} requires authentication (401): use --token`;
    case 403:
      return `${href} denied access (403)`;
    case 404:
      return `${href} was not found (404): check the URL`;
    default:
      return `${href} returned HTTP status ${status}: ${message}`;
  }
}
