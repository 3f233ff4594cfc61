import { isJsonObject } from '@sluice/protocol/json/parse';
import { escapeInvisible } from '@sluice/protocol/text';
import type { ResponseHeaders } from '../../http/client/client.ts';
import { quoted } from '../../http/client/errors.ts';
import { mediaType } from '../../http/client/response-parser.ts';

/** Members of error bodies that contain a text for people, the most detailed first. */
const TEXT_MEMBERS = ['error_description', 'message', 'detail', 'error'];

/** Returns what to do about a status that means missing or wrong credentials, as the end of a message; else nothing. */
export function credentialsHint(status: number): string {
  if (status === 401) return '; set its credentials in "headers" of the forward';
  return status === 403 ? '; check its credentials in "headers" of the forward' : '';
}

/**
 * Returns the upstream's own text of a response with status 401 or 403 on one line, for a message: that of its body, unless
 * it is a web page, else that of its challenge. `value` is the parsed body.
 */
export function rejectionText(headers: ResponseHeaders, body: string, value: unknown): string {
  const text = textOf(value) ?? (mediaType(headers) === 'text/html' ? '' : body);
  return escapeInvisible(quoted(text.trim() === '' ? challengeText(headers['www-authenticate']) : text));
}

function textOf(value: unknown): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const { error } = value;
  if (isJsonObject(error) && typeof error.message === 'string') return error.message;
  return TEXT_MEMBERS.map((member) => value[member]).find((text) => typeof text === 'string');
}

/** `error_description` or `error` of a challenge (RFC 6750 3). */
function challengeText(challenge: ResponseHeaders[string]): string {
  const text = Array.isArray(challenge) ? challenge.join(', ') : (challenge ?? '');
  const [, found = ''] = /\berror_description="([^"]*)"/.exec(text) ?? /\berror="([^"]*)"/.exec(text) ?? [];
  return found;
}
