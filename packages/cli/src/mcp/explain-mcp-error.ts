import {
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UrlElicitationRequiredError,
} from '@modelcontextprotocol/client';
import { Exit, Failure } from '../failure.ts';
import { explainNetworkError } from '../http/network-error.ts';
import { abbreviate } from '../terminal/text.ts';
import { parseWebUrl } from './elicitation.ts';

/**
 * What went wrong with an MCP server, in words: a JSON-RPC error with its code and message (and its data, when `verbose`),
 * an HTTP status, or a network that does not carry. Anything else is handed back as it is.
 */
export function explainMcpError(error: unknown, url: URL, verbose: boolean): unknown {
  if (error instanceof Failure || error instanceof Exit) return error;
  if (UrlElicitationRequiredError.isInstance(error)) {
    return new Failure(`error ${error.code}: ${error.message}: visit this first, then run the command again`, {
      notes: error.elicitations.map(({ url: address, message }) => {
        const shown = parseWebUrl(address)?.href ?? `no plain web address: ${abbreviate(address)}`;
        return `${shown} (${abbreviate(message)})`;
      }),
      cause: error,
    });
  }
  if (ProtocolError.isInstance(error)) {
    const notes = verbose && error.data !== undefined ? [`data: ${JSON.stringify(error.data)}`] : [];
    return new Failure(`error ${error.code}: ${error.message}`, { notes, cause: error });
  }
  if (SdkHttpError.isInstance(error))
    return new Failure(httpFailure(error.status, error.message, url), { cause: error });
  const network = explainNetworkError(error, url.href);
  if (network !== undefined) return new Failure(network, { cause: error });
  if (SdkError.isInstance(error)) {
    const text = error.code === SdkErrorCode.RequestTimeout ? `no answer from ${url}` : `${url}: ${error.message}`;
    return new Failure(text, { cause: error });
  }
  return error;
}

function httpFailure(status: number, message: string, { href }: URL): string {
  switch (status) {
    case 401:
      return `${href} needs authentication (401): give --token`;
    case 403:
      return `${href} does not let you in (403)`;
    case 404:
      return `${href} is not there (404): is the address right?`;
    default:
      return `${href} answered with HTTP status ${status}: ${message}`;
  }
}
