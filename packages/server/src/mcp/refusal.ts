import { memberText } from '@sluice/json/scan';
import { METHOD_NOT_FOUND } from './protocol.ts';

/**
 * The answer to a server's request that no client can be asked: `ping` is answered for it, everything else is -32601.
 * `text` is the request, `method` its method; the answer has its id as that was spelled.
 */
export function refusalOf(text: string, method: unknown): string {
  const answer =
    method === 'ping'
      ? '"result":{}'
      : `"error":{"code":${METHOD_NOT_FOUND},"message":"the client cannot be asked on this connection"}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id')},${answer}}`;
}
