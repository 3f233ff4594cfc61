import { isJsonObject } from '@sluice/protocol/json/parse';
import { escapeInvisible } from '@sluice/protocol/text';
import type { ResponseHeaders } from '../../http/client/client.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { mediaType } from '../../http/client/response-parser.ts';
import { rejectionText } from './session-loss.ts';

/** A response that is not the JSON-RPC response to its request. */
interface UnusableResponse {
  /** HTTP method and JSON-RPC method of the request, such as `tools/list`. */
  readonly request: string;
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** The body, or its beginning. */
  readonly body: Buffer;
  /** The parsed body; undefined if it is not JSON. */
  readonly value: unknown;
}

/** Members of an error body with a text for people, the most detailed first. */
const DETAILED_FIRST = ['error_description', 'message', 'detail', 'error'];
/** Bytes of the body that are examined. */
const EXAMINED_BYTES = 4 * 1024;
/** Characters of the body that a message shows. */
const SHOWN_CHARACTERS = 160;
const SHOWN_MEMBERS = 6;
/** A body with more other characters than one in so many is binary. */
const BINARY_SHARE = 10;

/** Returns the error for a response of the upstream at this address: `http` for an error status, else `invalid`. */
export function unusableResponse(address: string, received: UnusableResponse): UpstreamError {
  const { status } = received;
  const response = { ...received, body: received.body.subarray(0, EXAMINED_BYTES) };
  const path = URL.parse(address)?.pathname ?? '/';
  const options = { status, remedy: remedyOf(response) };
  return new UpstreamError(status < 300 ? 'invalid' : 'http', address, describe(response, path), options);
}

/**
 * Returns what an upstream did, as the predicate of a message: what it answered to which request with which status, type and
 * text. The query of the address is not shown: it may contain credentials.
 */
function describe(response: UnusableResponse, path: string): string {
  const { request, status, headers, body, value } = response;
  const type = headers['content-type'];
  const label = type === undefined ? '' : `, ${quoted(String(type))}`;
  const text = shownText(response, path);
  const content = text === '' ? '' : `: ${text}`;
  if (status >= 300) return `answered ${request} with HTTP ${status}${label}${content}`;
  if (body.length === 0) return `accepted ${request} without answering it (HTTP ${status}${label})`;
  if (value === undefined)
    return `answered ${request} with ${describeContent(response)} (HTTP ${status}${label})${content}`;
  const what = `JSON that is not the JSON-RPC response${memberNames(value)}`;
  return `answered ${request} with ${what} (HTTP ${status}${label})`;
}

/** Of JSON that may be a result, only the names of its members are shown. */
function memberNames(value: unknown): string {
  if (!isJsonObject(value)) return '';
  const names = Object.keys(value).slice(0, SHOWN_MEMBERS);
  return names.length === 0 ? '' : `, with the members ${quoted(names.join(', '))}`;
}

function describeContent({ body, headers }: UnusableResponse): string {
  if (isWebPage(headers, body)) return 'a web page';
  return isBinary(body) ? 'binary data' : 'text that is not JSON';
}

function isWebPage(headers: ResponseHeaders, body: Buffer): boolean {
  return mediaType(headers) === 'text/html' || /^\s*<(?:!doctype html|html)/i.test(body.toString('latin1', 0, 100));
}

/** Returns whether the beginning of a body is no text. */
export function isBinary(body: Buffer): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is counted
  const others = body.toString().match(/[\u0000-\u0008\u000e-\u001f\ufffd]/g)?.length ?? 0;
  return others > body.length / BINARY_SHARE;
}

/** The text of a response on one line, in double quotes: of an error, a web page's title, a challenge, or the body itself. */
function shownText({ headers, body, value, status }: UnusableResponse, path: string): string {
  const text = withoutQuery(textOf(headers, body, value), path);
  const own = text.trim() === '' && status >= 400 ? challengeText(headers['www-authenticate']) : text;
  const line = escapeInvisible(quoted(own.slice(0, 4 * SHOWN_CHARACTERS)));
  if (line === '') return '';
  return line.length > SHOWN_CHARACTERS ? `"${line.slice(0, SHOWN_CHARACTERS)}…"` : `"${line}"`;
}

/** Removes the query of the address, which error pages repeat. */
function withoutQuery(text: string, path: string): string {
  const [before = '', ...after] = text.split(`${path}?`);
  return [before, ...after.map((rest) => rest.replace(/^[^\s"'<>]*/, '…'))].join(`${path}?`);
}

function textOf(headers: ResponseHeaders, body: Buffer, value: unknown): string {
  if (isJsonObject(value)) return rejectionText(value, body.toString(), DETAILED_FIRST);
  if (isWebPage(headers, body)) return pageText(body.toString());
  return isBinary(body) ? '' : body.toString();
}

/** Title of a web page, else the text at its beginning. */
function pageText(page: string): string {
  const [, title] = /<title[^>]*>([^<]*)/i.exec(page) ?? [];
  if (title?.trim()) return title;
  const content = page.replace(/<(style|script)[\s\S]*?(?:<\/\1>|$)/gi, ' ').replace(/<[^>]*(?:>|$)/g, ' ');
  return content.replace(/\s+/g, ' ');
}

/** `error_description` or `error` of a challenge (RFC 6750 3). */
function challengeText(challenge: ResponseHeaders[string]): string {
  const text = Array.isArray(challenge) ? challenge.join(', ') : (challenge ?? '');
  const [, found = ''] = /\berror_description="([^"]*)"/.exec(text) ?? /\berror="([^"]*)"/.exec(text) ?? [];
  return found;
}

const PATH_REMEDY = 'check the URL path (usually /mcp)';
const PROXY_REMEDY = 'a proxy in front of it cannot reach it: check that it runs';

/** What to do about a status; others have none. */
const REMEDIES: Readonly<Record<number, string>> = {
  304: 'a cache in front of it answers the request: have it pass requests on',
  400: 'the log of the upstream says what it expects',
  401: 'set its credentials in "headers" of the forward',
  404: PATH_REMEDY,
  405: PATH_REMEDY,
  406: `it accepts neither JSON nor event streams: ${PATH_REMEDY}`,
  407: 'a proxy in front of it requires credentials: check "proxy" of the forward',
  410: PATH_REMEDY,
  411: 'a proxy in front of it rejects the request: check the address',
  413: 'raise the limit of request bodies of the upstream',
  415: `it does not accept JSON: ${PATH_REMEDY}`,
  421: 'the upstream serves another host: check the host of the address',
  426: 'it requires another protocol: check the scheme of the address',
  429: 'raise its rate limit, or wait',
  431: 'remove headers of the forward',
  451: 'check the address',
  502: PROXY_REMEDY,
  503: PROXY_REMEDY,
  504: PROXY_REMEDY,
};

function remedyOf({ status, headers, body, value }: UnusableResponse): string {
  const text = body.toString('latin1', 0, 2_048);
  if (/HTTPS server|SSL-enabled server port|plain HTTP request was sent to HTTPS/i.test(text)) {
    return 'use an https:// address';
  }
  if (/invalid (?:host|origin)|host (?:header )?(?:is )?not allowed|blocked host|disallowed.?host/i.test(text)) {
    return 'allow the host of the address in the settings of the upstream';
  }
  const found = REMEDIES[status];
  if (found !== undefined) return found;
  if (status === 403) {
    return isWebPage(headers, body) || headers['cf-ray'] !== undefined
      ? 'a firewall in front of it rejects the request: allow it there, by its User-Agent for example'
      : 'check its credentials in "headers" of the forward';
  }
  if (status >= 500) return 'see the log of the upstream';
  if (status >= 400) return PATH_REMEDY;
  if (status >= 300) return 'register the target address';
  if (isWebPage(headers, body)) return 'check the URL path (usually /mcp), and whether a login is required';
  return isJsonObject(value) && 'jsonrpc' in value ? 'see the log of the upstream' : PATH_REMEDY;
}
