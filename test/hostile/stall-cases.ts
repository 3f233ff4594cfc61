import { LEGACY, legacyClient, MODERN, modernClient, post } from '../fixtures/raw-client.ts';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import type { HostileCase } from './hostile-case.ts';
import { pieceCases } from './piece-cases.ts';
import { HOSTILE_TEXTS, hostileText } from './texts.ts';
import { answerWith, callTool, responseWith, summaryOf } from './traffic.ts';
import { ENVELOPE, subscribe, uriCases } from './uri-cases.ts';
import { generator, peerSurfaces, type Surface } from './variants.ts';

const MIB = 1024 * 1024;
/** Largest text of a message. */
const TEXT_BYTES = 4 * MIB - 64 * 1024;

/** Number of cases. */
const COUNT = 300;

/** Places and forms that have taken 0.1 to 0.8 s. */
const KNOWN: readonly (readonly [place: string, form: string])[] = [
  ['clientInfo', 'many members'],
  ['clientInfo', 'many escaped keys'],
  ['notifications/cancelled of a client', 'many escaped keys'],
  ['the name of a tool', 'empty objects'],
  ['input responses', 'many members'],
  ['input responses', 'many escaped keys'],
  ['a request state', 'many small objects'],
  ['the argument of a completion', 'many escaped keys'],
  ['arguments of a prompt', 'many members'],
  ['a batch with a call', 'many small objects'],
];

/**
 * Generates cases: messages in small pieces, and hostile texts of random size in every place of a message that a client or an
 * upstream can send. Places take turns, each with all forms in random order. The same seed generates the same cases.
 */
export function stallCases(seed: number): HostileCase[] {
  const random = generator(seed);
  const pieces = [...pieceCases(), ...uriCases()];
  const places = [...requestPlaces(), ...upstreamPlaces(), ...peerSurfaces()].map((place) => ({
    ...place,
    forms: shuffled(HOSTILE_TEXTS, random),
  }));
  const known = KNOWN.map(([name, form]): HostileCase => {
    const found = places.find((candidate) => candidate.name === name);
    if (!found) throw new Error(`no such place: ${name}`);
    return {
      name: `${name}: ${form}`,
      group: 'known attacks',
      isComparable: false,
      send: (peers, target) => found.send(hostileText(form, TEXT_BYTES), peers, target),
    };
  });
  const texts = Array.from({ length: COUNT - pieces.length - known.length }, (_, at): HostileCase => {
    const place = places[at % places.length];
    const form = place?.forms[Math.floor(at / places.length) % HOSTILE_TEXTS.length];
    if (!place || !form) throw new Error('there are no places');
    const bytes = Math.floor(Math.min(place.maxBytes, TEXT_BYTES) * (0.75 + random() / 4));
    return {
      name: `${place.name}: ${form.name}, ${Math.round(bytes / 1024)} KiB (${at})`,
      group: 'hostile texts',
      isComparable: false,
      send: (peers, target) => place.send(form.write(bytes), peers, target),
    };
  });
  return [...pieces, ...known, ...texts];
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, order: random() }))
    .sort((one, other) => one.order - other.order)
    .map(({ item }) => item);
}

function place(name: string, send: Surface['send']): Surface {
  return { name, maxBytes: TEXT_BYTES, send };
}

/** Places of messages of clients that are not among the parsers of {@link peerSurfaces}. */
function requestPlaces(): Surface[] {
  const posted = (name: string, body: (text: string) => string): Surface =>
    place(name, async (text, _peers, target) => summaryOf(await post(`${target.mcp}/legacy/mcp`, body(text))));
  const initialize = (name: string, params: (text: string) => string): Surface =>
    posted(name, (text) => request('initialize', params(text)));
  /** In a session; `version`: that of the protocol. */
  const inSession = (name: string, body: (text: string) => string, version = LEGACY): Surface =>
    place(name, async (text, _peers, target) => {
      const url = `${target.mcp}/legacy/mcp`;
      const params = `{"protocolVersion":"${version}","capabilities":{},"clientInfo":{"name":"h","version":"1"}}`;
      const { headers } = await post(url, request('initialize', params));
      const session = { 'mcp-session-id': String(headers['mcp-session-id']), 'mcp-protocol-version': version };
      return summaryOf(await post(url, body(text), session));
    });
  const notification = (method: string, params: (text: string) => string): Surface =>
    inSession(`${method} of a client`, (text) => `{"jsonrpc":"2.0","method":"${method}","params":${params(text)}}`);
  const modern = (name: string, method: string, params: (text: string) => string): Surface =>
    place(name, async (text, _peers, { mcp }) => {
      const body = request(method, `{${ENVELOPE},${params(text)}}`);
      const named = /^"(?:name|uri|taskId)":"(.)"/.exec(params('0'))?.[1];
      const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...(named && { 'mcp-name': named }) };
      return summaryOf(await post(`${mcp}/modern/mcp`, body, headers));
    });
  return [
    initialize('clientInfo', (text) => `{"protocolVersion":"${LEGACY}","capabilities":{},"clientInfo":{"x":${text}}}`),
    initialize('a protocol version', (text) => `{"protocolVersion":${text},"capabilities":{},"clientInfo":{}}`),
    initialize(
      'metadata of initialize',
      (text) => `{"_meta":{"x":${text}},"protocolVersion":"${LEGACY}","capabilities":{},"clientInfo":{}}`,
    ),
    notification('notifications/cancelled', (text) => `{"requestId":7,"reason":${text}}`),
    notification('notifications/progress', (text) => `{"progressToken":${text},"progress":1}`),
    notification('notifications/roots/list_changed', (text) => `{"_meta":{"x":${text}}}`),
    notification('notifications/x', (text) => `{"x":${text}}`),
    inSession('a response of a client', (text) => `{"jsonrpc":"2.0","id":"7","result":{"x":${text}}}`),
    inSession(
      'an error of a client',
      (text) => `{"jsonrpc":"2.0","id":"7","error":{"code":1,"message":"m","data":${text}}}`,
    ),
    inSession('params of ping', (text) => request('ping', `{"x":${text}}`)),
    inSession('an id', (text) => `{"jsonrpc":"2.0","id":${text},"method":"ping"}`),
    inSession(
      'a batch with a call',
      (text) => `[${request('tools/call', `{"name":"a","arguments":{"x":${text}}}`)}]`,
      '2025-03-26',
    ),
    inSession('a batch', (text) => text, '2025-03-26'),
    inSession('arguments of a prompt', (text) => request('prompts/get', `{"name":"a","arguments":${text}}`)),
    inSession('the name of a tool', (text) => request('tools/call', `{"name":${text}}`)),
    modern('input responses', 'tools/call', (text) => `"name":"a","requestState":"x","inputResponses":{"x":${text}}`),
    modern('a request state', 'tools/call', (text) => `"name":"a","requestState":${text}`),
    modern('an answer to a task', 'tasks/update', (text) => `"taskId":"a","inputResponses":{"x":${text}}`),
    place('the filter of a subscription', (text, _peers, { mcp }) => subscribe(`${mcp}/modern/mcp`, `{"x":${text}}`)),
    modern(
      'the argument of a completion',
      'completion/complete',
      (text) => `"ref":{"type":"ref/prompt","name":"a"},"argument":${text}`,
    ),
    modern('params of a vendor method', 'vendor/method', (text) => `"x":${text}`),
    place('the client of a modern request', (text, _peers, target) =>
      callTool(target, 'modern', { meta: `"io.modelcontextprotocol/logLevel":${text}` }),
    ),
    place('messages of a completion request', async (text, _peers, { inference }) =>
      summaryOf(
        await post(`${inference}/v1/chat/completions`, `{"model":"m","messages":[{"role":"user","content":${text}}]}`),
      ),
    ),
  ];
}

/** Places of messages of upstreams that are not among the parsers of {@link peerSurfaces}. */
function upstreamPlaces(): Surface[] {
  const inStream = (name: string, era: Era, messages: (text: string) => string[]): Surface =>
    place(name, async (text, { upstreams }, target) => {
      const events = [...messages(text), responseWith('{"content":[],"resultType":"complete"}')];
      answerWith(upstreams[era], 'text/event-stream', events.map((message) => `data: ${message}\n\n`).join(''));
      if (era === 'modern') return callTool(target, era, { meta: '"progressToken":1' });
      const client = await legacyClient(`${target.mcp}/${era}/mcp`, '{"elicitation":{},"sampling":{}}');
      return summaryOf(await client.call('tools/call', '{"name":"a","_meta":{"progressToken":1}}'));
    });
  const notification = (era: Era, method: string, params: (text: string) => string): Surface =>
    inStream(`${method} of a ${era} upstream`, era, (text) => [
      `{"jsonrpc":"2.0","method":"${method}","params":${params(text)}}`,
    ]);
  const listed = (kind: string, method: string): Surface =>
    place(`an entry of ${method}`, async (text, { upstreams }, target) => {
      upstreams.modern.scripts[method] =
        `{"${kind}":[{"name":"p","uri":"x://p","uriTemplate":"x://p","x":${text}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`;
      const client = modernClient(`${target.mcp}/modern/mcp`, `{"extensions":{"x/${text.length}":{}}}`);
      const response = await client.call(method);
      Reflect.deleteProperty(upstreams.modern.scripts, method);
      return summaryOf(response);
    });
  return [
    notification('legacy', 'notifications/progress', (text) => `{"progressToken":1,"progress":1,"message":${text}}`),
    notification('modern', 'notifications/message', (text) => `{"level":"error","data":${text}}`),
    notification('modern', 'notifications/progress', (text) => `{"progressToken":1,"progress":1,"x":${text}}`),
    notification('legacy', 'notifications/x', (text) => `{"x":${text}}`),
    notification('legacy', 'notifications/cancelled', (text) => `{"requestId":${text}}`),
    inStream('a sampling request', 'legacy', (text) => [
      `{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"messages":${text},"maxTokens":1}}`,
    ]),
    inStream('an array of messages', 'legacy', (text) => [`[${text}]`]),
    inStream('a response to another request', 'modern', (text) => [`{"jsonrpc":"2.0","id":"other","result":${text}}`]),
    place('an input request', (text, { upstreams }, target) => {
      const input = `{"resultType":"input_required","inputRequests":{"x":{"method":"elicitation/create","params":${text}}}}`;
      answerWith(upstreams.modern, 'application/json', responseWith(input));
      return callTool(target, 'modern', { capabilities: '{"elicitation":{}}' });
    }),
    place('content blocks', (text, { upstreams }, target) => {
      answerWith(upstreams.modern, 'application/json', responseWith(`{"content":${text},"resultType":"complete"}`));
      return callTool(target, 'modern');
    }),
    place('content blocks for a client of the other era', (text, { upstreams }, target) => {
      answerWith(upstreams.legacy, 'application/json', responseWith(`{"content":${text}}`));
      return callTool(target, 'legacy');
    }),
    listed('prompts', 'prompts/list'),
    listed('resources', 'resources/list'),
    listed('resourceTemplates', 'resources/templates/list'),
  ];
}

function request(method: string, params: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
}
