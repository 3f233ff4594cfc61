import { tryParseJson } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { rejectionText } from './http-error.ts';

const CHALLENGE = 'Bearer realm="x", error="invalid_token", error_description="The token has expired"';

it.each<[string, string, Readonly<Record<string, string>>, string]>([
  ['of OAuth', '{"error":"invalid_token","error_description":"expired"}', {}, 'expired'],
  ['of JSON-RPC', '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"who are you"}}', {}, 'who are you'],
  ['with a message', '{"message":"no access","error":"Forbidden"}', {}, 'no access'],
  ['of a problem', '{"title":"Forbidden","detail":"no access"}', {}, 'no access'],
  ['with an error only', '{"error":"Unauthorized","message":5}', {}, 'Unauthorized'],
  ['of other JSON', '{"code":7}', {}, '{"code":7}'],
  ['of plain text', 'Bad\r\n\u0007credentials\u202e\u009b', {}, 'Bad credentials\\u202e'],
  ['that is long', 'x'.repeat(1_000), {}, `${'x'.repeat(300)}…`],
  ['of a web page', '<html>', { 'content-type': 'text/html; charset=utf-8' }, ''],
  ['of a challenge', ' ', { 'www-authenticate': CHALLENGE }, 'The token has expired'],
  [
    'of a challenge beside a web page',
    '<p>',
    { 'content-type': 'text/html', 'www-authenticate': CHALLENGE },
    'The token has expired',
  ],
  ['of a short challenge', '', { 'www-authenticate': 'Bearer error="invalid_token"' }, 'invalid_token'],
  ['that is missing', '', { 'www-authenticate': 'Basic realm="x"' }, ''],
])('the text of a rejection %s', (_what, body, headers, text) => {
  expect(rejectionText(headers, body, tryParseJson(body))).toBe(text);
});
