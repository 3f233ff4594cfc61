import { findMember, memberText, replaceAt } from '../json/text.ts';
import { METHOD_NOT_FOUND } from './constants.ts';

/**
 * The response to a server request that cannot be sent to a client: an empty result for `ping`, else -32601. `text`:
 * the request, whose exact id is repeated.
 */
export function rejectServerRequest(text: string, method: unknown): string {
  const response =
    method === 'ping'
      ? '"result":{}'
      : `"error":{"code":${METHOD_NOT_FOUND},"message":"the client does not accept server requests on this connection"}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id')},${response}}`;
}

/** Replaces the id of a response; `idText` is JSON text. */
export function withId(text: string, idText: string): string {
  const id = findMember(text, 'id');
  if (id) return text.slice(0, id.start) + idText + text.slice(id.end);
  // An error without an id.
  return text.replace('{', () => `{"id":${idText},`);
}

/** JSON text of a member of `params`. */
export function paramText(text: string, name: string): string | undefined {
  return memberText(memberText(text, 'params') ?? '', name);
}

/** JSON text of the progress token, if the request has one. */
export function progressTokenText(text: string): string | undefined {
  return memberText(paramText(text, '_meta') ?? '', 'progressToken');
}

/** Replaces the value of a member of `params`, if it exists. */
export function withParam(text: string, name: string, replacement: string): string {
  return replaceAt(text, ['params', name], replacement);
}
