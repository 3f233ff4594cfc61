import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';

/** Returns a progress notification; `token` is JSON text. */
export function progressNotification(token: string, progress: number, message: string): string {
  const params = `{"progressToken":${token},"progress":${progress},"message":${JSON.stringify(message)}}`;
  return `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`;
}

/** Returns the params of a progress notification, given as text; undefined for other messages. */
export function progressParams(text: string): JsonObject | undefined {
  const value = tryParseJson(text);
  const isProgress = isJsonObject(value) && value.method === 'notifications/progress';
  return isProgress && isJsonObject(value.params) ? value.params : undefined;
}

/** Returns the progress token of a notification as text: a server may send a number as a string. */
export function tokenOf({ params }: JsonObject): string | undefined {
  const token = isJsonObject(params) ? params.progressToken : undefined;
  return typeof token === 'string' || typeof token === 'number' ? String(token) : undefined;
}
