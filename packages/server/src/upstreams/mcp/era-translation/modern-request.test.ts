import { parseMessage } from '@sluice/protocol/mcp/message';
import { describe, expect, it } from 'vitest';
import { post } from '../../../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { callText, clientOf, type SessionClient, sessionClient } from '../../../../testing/session-client.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { type MultiRoundSetup, multiRoundStarter } from './fixtures/multi-round.ts';
import { LegacyResponseRewriter } from './messages.ts';

const startSession = multiRoundStarter(liveTests());

const DONE = textResultText('done');
const KEY = 'io.modelcontextprotocol/';
const FACTS = { clientInfo: { name: 'c', version: '1' }, capabilities: {}, logLevel: undefined };
const ENVELOPE =
  `"${KEY}protocolVersion":"2026-07-28","${KEY}clientInfo":{"name":"c","version":"1"},` +
  `"${KEY}clientCapabilities":{}`;
const MORE = ['"inputResponses":{"k":{}}', '"requestState":"s"'];

/** Returns the params of a request as sent to a modern upstream. */
function sent(params: string | undefined, more: readonly string[] = []): string {
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call"${params === undefined ? '' : `,"params":${params}`}}`;
  const message = parseMessage(Buffer.from(text));
  if (message.kind !== 'request') throw new Error(`a ${message.kind}`);
  const result = String(new RequestEdits(message, []).toModern(FACTS, more).request(1, []).body);
  expect(result.startsWith('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":')).toBe(true);
  return result.slice(result.indexOf('"params":') + 9, -1);
}

describe('the metadata of a modern request', () => {
  it.each([
    [undefined, `{"_meta":{${ENVELOPE}}}`],
    ['{}', `{"_meta":{${ENVELOPE}}}`],
    ['{ "name" : "a" }', `{"_meta":{${ENVELOPE}}, "name" : "a" }`],
    ['{"_meta":{}}', `{"_meta":{${ENVELOPE}}}`],
    [
      '{"n":1.0,"_meta":{ "x":9223372036854775807 },"m":{}}',
      `{"n":1.0,"_meta":{${ENVELOPE}, "x":9223372036854775807 },"m":{}}`,
    ],
    ['{"\\u005fmeta":{"x":1}}', `{"\\u005fmeta":{${ENVELOPE},"x":1}}`],
    ['{"arguments":{"_meta":{"y":1}},"name":"a"}', `{"_meta":{${ENVELOPE}},"arguments":{"_meta":{"y":1}},"name":"a"}`],
  ])('is added to params %s, which are otherwise unchanged', (params, expected) => {
    expect(sent(params)).toBe(expected);
  });

  it.each([
    [undefined, `{"_meta":{${ENVELOPE}},${MORE}}`],
    ['{}', `{"_meta":{${ENVELOPE}},${MORE}}`],
    ['{"name":"a"}', `{"_meta":{${ENVELOPE}},${MORE},"name":"a"}`],
    ['{"name":"a","_meta":{"x":1}}', `{${MORE},"name":"a","_meta":{${ENVELOPE},"x":1}}`],
  ])('is added to params %s together with the params of a retry', (params, expected) => {
    expect(sent(params, MORE)).toBe(expected);
  });

  it.each([
    [`{"_meta":{"${KEY}clientCapabilities":{"roots":{}}}}`, `{"_meta":{${ENVELOPE}}}`],
    [`{"_meta":{"a":1,"${KEY}logLevel":"debug","b":2}}`, `{"_meta":{${ENVELOPE},"a":1,"b":2}}`],
    [`{"_meta":{"${KEY}clientInfo":1},"name":"a"}`, `{"_meta":{${ENVELOPE}},"name":"a"}`],
    ['{"_meta":5,"name":"a"}', `{"_meta":{${ENVELOPE}},"name":"a"}`],
    ['{"_meta":null}', `{"_meta":{${ENVELOPE}}}`],
    ['{"requestState":"mine","name":"a"}', `{"_meta":{${ENVELOPE}},"name":"a"}`],
    ['{"inputResponses":{},"_meta":{"x":1},"requestState":"mine"}', `{"_meta":{${ENVELOPE},"x":1}}`],
  ])('replaces members that a legacy client cannot mean: %s', (params, expected) => {
    expect(sent(params)).toBe(expected);
    const retried = sent(params, MORE);
    expect(JSON.parse(retried)).toEqual({ ...JSON.parse(expected), inputResponses: { k: {} }, requestState: 's' });
    expect(retried).not.toMatch(/mine|"debug"/);
    expect(retried.match(/requestState|inputResponses/g)).toHaveLength(2);
  });
});

/** `_meta` of the upstream's last request, without the members of every request. */
function received({ rounds }: MultiRoundSetup): Record<string, unknown> {
  const meta = { ...Object(rounds().at(-1)?.params._meta) };
  expect(meta[`${KEY}protocolVersion`]).toBe('2026-07-28');
  return { level: meta[`${KEY}logLevel`], who: meta[`${KEY}clientInfo`], can: meta[`${KEY}clientCapabilities`] };
}

async function called(client: SessionClient): Promise<string> {
  const reading = client.call('1');
  await reading.ended;
  return reading.messages.at(-1) ?? '';
}

describe('metadata that a modern upstream gets about a legacy client', () => {
  it('contains clientInfo and capabilities as declared, except those that are not translated', async () => {
    const capabilities =
      '{"roots":{"listChanged":true,"x":1},"sampling":{"tools":{}},"tasks":{"list":{}},"elicitation":{},' +
      '"experimental":{"\u00e4":[null]}}';
    const session = await startSession([DONE], { capabilities });
    await called(session.client);
    expect(received(session)).toEqual({
      level: 'info',
      who: { name: 'raw', version: '1' },
      can: { roots: { x: 1 }, sampling: { tools: {} }, elicitation: {}, experimental: { ä: [null] } },
    });
  });

  it.each([
    ['has no session', { 'mcp-protocol-version': '2025-11-25' }, 'info'],
    ['reads JSON only', { accept: 'application/json' }, undefined],
  ])('contains no capabilities for server requests if it %s', async (_what, headers, level) => {
    const session = await startSession([DONE], { capabilities: '{"roots":{},"sampling":{},"elicitation":{},"x":{}}' });
    const { url, client } = session;
    const inSession = 'accept' in headers;
    await post(url, callText('1'), { ...(inSession ? client.headers : {}), ...headers });
    const { who, ...rest } = received(session);
    expect(rest).toEqual({ level, can: inSession ? { x: {} } : {} });
    expect(who).toMatchObject({ name: inSession ? 'raw' : expect.any(String) });
  });

  it('contains the log level of its session, which may change, and info by default', async () => {
    const session = await startSession([DONE], { scripts: capabilityScripts('{"tools":{},"logging":{}}') });
    const { url, client } = session;
    await called(client);
    expect(received(session).level).toBe('info');
    for (const level of ['debug', 'emergency']) {
      expect(await client.request('logging/setLevel', `{"level":"${level}"}`)).toMatchObject({ result: {} });
      await called(client);
      expect(received(session).level).toBe(level);
    }
    await called(await sessionClient(url));
    expect(received(session).level).toBe('info');
    await clientOf(url, { ...client.headers, accept: 'application/json' }).post(callText('1'));
    expect(received(session).level).toBeUndefined();
  });

  it('is also in requests without input requests', async () => {
    const session = await startSession([`{"completion":{"values":[],"n":1.0},"resultType":"complete"}`], {
      method: 'completion/complete',
      scripts: {
        ...capabilityScripts('{"prompts":{},"completions":{}}'),
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
      },
      capabilities: '{"roots":{}}',
    });
    const params = '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}';
    const response = await session.client.post(
      `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":${params}}`,
    );
    expect(response.text).toContain('"result":{"completion":{"values":[],"n":1.0}');
    expect(received(session)).toEqual({ level: 'info', who: { name: 'raw', version: '1' }, can: { roots: {} } });
  });
});

describe('a result of a modern upstream', () => {
  it.each([
    ['"structuredContent":[1],"content":[],"n":1.0', '"content":[],"n":1.0'],
    ['"content":[],"structuredContent":9223372036854775807,"_meta":{}', '"content":[],"_meta":{}'],
    ['"content":[],"structuredContent":"x"', '"content":[]'],
    ['"content":[],"structuredContent":null', '"content":[]'],
    ['"structuredContent":[]', ''],
    ['"content":[{"structuredContent":[]}]', '"content":[{"structuredContent":[]}]'],
    ['"structuredContent":{"n":1.0,"list":[]},"content":[]', '"structuredContent":{"n":1.0,"list":[]},"content":[]'],
  ])('loses structured content that is not an object, and nothing else: %s', (members, expected) => {
    const text = `{"jsonrpc":"2.0","id":1,"result":{${members}}}`;
    expect(new LegacyResponseRewriter('failed', true).rewrite(text, JSON.parse(text))?.text ?? text).toBe(
      `{"jsonrpc":"2.0","id":1,"result":{${expected}}}`,
    );
  });

  it('is sent to the client in that form', async () => {
    const result =
      '{"structuredContent":[ 1.0 ],"content":[{"type":"x","n":9223372036854775807}],"resultType":"complete","\\u00e4":1e2}';
    const { client } = await startSession([result], { scripts: { 'tools/list': toolList(toolText('work')) } });
    expect(await called(client)).toBe(
      `{"jsonrpc":"2.0","id":1,"result":${result.replace('"structuredContent":[ 1.0 ],', '')}}`,
    );
  });
});
