import { requestedLevel } from './log-level.ts';
import type { RequestMessage } from './message.ts';
import { progressTokenText } from './params-text.ts';
import { META_LOG_LEVEL } from './protocol.ts';

/**
 * Of a request what is needed while its answer is waited for, and no more: id, method, progress token and log level. A
 * copy: the request's text and params are not kept with it.
 */
export function outlineOf(message: RequestMessage): RequestMessage {
  const { idText, method } = message;
  const token = progressTokenText(message.text);
  const level = requestedLevel(message);
  const meta = [
    ...(token === undefined ? [] : [`"progressToken":${token}`]),
    ...(level === undefined ? [] : [`"${META_LOG_LEVEL}":"${level}"`]),
  ].join(',');
  const opening = '{"jsonrpc":"2.0","id":';
  const beforeParams = `${opening}${idText},"method":${JSON.stringify(method)},"params":`;
  const text = Buffer.from(`${beforeParams}{"_meta":{${meta}}}}`).toString();
  const idRange = { start: opening.length, end: opening.length + idText.length };
  return {
    kind: 'request',
    text,
    idText: text.slice(idRange.start, idRange.end),
    idRange,
    method,
    params: JSON.parse(text).params,
    paramsRange: { start: beforeParams.length, end: text.length - 1 },
  };
}
