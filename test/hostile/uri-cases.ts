import { legacyClient, MODERN, post } from '../fixtures/raw-client.ts';
import { LIST_END } from '../fixtures/raw-upstream/texts.ts';
import type { HostileCase } from './hostile-case.ts';
import { summaryOf } from './traffic.ts';

/** Metadata of a modern request. */
export const ENVELOPE = `"_meta":{"io.modelcontextprotocol/protocolVersion":"${MODERN}","io.modelcontextprotocol/clientCapabilities":{}}`;

/** Lists templates that differ only behind an expression that may match everything before. */
export const TEMPLATE_LIST = `{"resourceTemplates":[${Array.from(
  { length: 1_000 },
  (_, at) => `{"name":"t${at}","uriTemplate":"x://h/{+a}/${at}/{b}"}`,
).join()}],${LIST_END}`;

/** The longest uri that is matched with templates. */
const LONG_URI = `x://h/${'a/'.repeat(4_090)}`;

/** Uris that are matched with all templates of the legacy upstream. */
export function uriCases(): HostileCase[] {
  const uriCase = (name: string, send: HostileCase['send']): HostileCase => ({
    name: `1,000 templates: ${name}`,
    group: 'templates',
    isComparable: false,
    send,
  });
  const read = `"method":"resources/read","params":{"uri":"${LONG_URI}"}`;
  return [
    uriCase('a long uri', async (_peers, { mcp }) => {
      const client = await legacyClient(`${mcp}/legacy/mcp`);
      return summaryOf(await client.call('resources/read', `{"uri":"${LONG_URI}"}`));
    }),
    uriCase('a completion for a long uri', async (_peers, { mcp }) => {
      const client = await legacyClient(`${mcp}/legacy/mcp`);
      const params = `{"ref":{"type":"ref/resource","uri":"${LONG_URI}"},"argument":{"name":"a","value":"b"}}`;
      return summaryOf(await client.call('completion/complete', params));
    }),
    uriCase('a batch of 100 long uris', async (_peers, { mcp }) => {
      const url = `${mcp}/legacy/mcp`;
      const version = '2025-03-26';
      const params = `{"protocolVersion":"${version}","capabilities":{},"clientInfo":{"name":"h","version":"1"}}`;
      const { headers } = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
      const session = { 'mcp-session-id': String(headers['mcp-session-id']), 'mcp-protocol-version': version };
      const messages = Array.from({ length: 100 }, (_, id) => `{"jsonrpc":"2.0","id":${id},${read}}`);
      return summaryOf(await post(url, `[${messages.join()}]`, session));
    }),
    uriCase('a subscription to 1,000 uris', async (_peers, { mcp }) => {
      const uris = Array.from({ length: 1_000 }, (_, at) => `"x://h/${'a/'.repeat(26)}${at}"`);
      return await subscribe(`${mcp}/legacy/mcp`, `{"resourceSubscriptions":[${uris.join()}]}`);
    }),
  ];
}

/** Opens a subscription until its response begins, and returns the status; `notifications` is JSON text. */
export async function subscribe(url: string, notifications: string): Promise<string> {
  const method = 'subscriptions/listen';
  const ending = new AbortController();
  const { status } = await fetch(url, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
    },
    body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${ENVELOPE},"notifications":${notifications}}}`,
    signal: ending.signal,
  });
  // The stream does not end by itself.
  ending.abort();
  return String(status);
}
