import { LEGACY, legacyClient, post, send } from '../fixtures/raw-client.ts';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { LIST_END, toolList } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstreamOptions, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { fileSurfaces } from './file-surfaces.ts';
import { grpcReplies } from './grpc-replies.ts';
import type { HostileCase, HostilePeers, HostileTarget } from './hostile-case.ts';
import { discovered, tableCases } from './table-cases.ts';
import { HOSTILE_TEXTS } from './texts.ts';
import { answerWith, callTool, grpcContent, responseWith, summaryOf } from './traffic.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
/** Forms of text per parser. */
const FORMS = 3;

/** A parser of the service, and how a text reaches it. */
export interface Surface {
  readonly name: string;
  /** Largest text that it accepts, in bytes. */
  readonly maxBytes: number;
  /** False if the same load cannot be sent to a process that only reads. */
  readonly isComparable?: false;
  /** Sends a text, which is one JSON value. */
  readonly send: (text: string, peers: HostilePeers, target: HostileTarget) => Promise<string>;
}

/** Generates cases: each parser gets some forms of hostile text, of random size. The same seed generates the same cases. */
function variants(seed: number): HostileCase[] {
  const random = generator(seed);
  return surfaces().flatMap(({ name, maxBytes, isComparable = true, send: sendText }) => {
    const first = Math.floor(random() * HOSTILE_TEXTS.length);
    return Array.from({ length: FORMS }, (_, at): HostileCase => {
      // Five is prime to the number of forms: they differ.
      const form = HOSTILE_TEXTS[(first + at * 5) % HOSTILE_TEXTS.length] ?? { name: '', write: () => '' };
      const bytes = Math.floor(maxBytes * (0.5 + random() / 2));
      return {
        name: `${name}: ${form.name}, ${Math.round(bytes / KIB)} KiB`,
        group: 'generated variants',
        isComparable,
        send: (peers, target) => sendText(form.write(bytes), peers, target),
      };
    });
  });
}

/** Random numbers from 0 to 1 (mulberry32). */
export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const REQUEST_BYTES = 4 * MIB - 64 * KIB;
const MANAGEMENT_BYTES = MIB - 4 * KIB;

function surfaces(): Surface[] {
  return [...peerSurfaces(), ...fileSurfaces()];
}

/** Parsers that a running service has for its peers. */
export function peerSurfaces(): Surface[] {
  return [...requestSurfaces(), ...upstreamSurfaces(), ...discoverySurfaces(), ...otherSurfaces()];
}

function requestSurfaces(): Surface[] {
  const modern = (name: string, request: (text: string) => Parameters<typeof callTool>[2], namespace = 'modern') => ({
    name,
    maxBytes: REQUEST_BYTES,
    send: (text: string, _peers: HostilePeers, target: HostileTarget) => callTool(target, namespace, request(text)),
  });
  const posted = (name: string, body: (text: string) => string): Surface => ({
    name,
    maxBytes: REQUEST_BYTES,
    send: async (text, _peers, target) => summaryOf(await post(`${target.mcp}/legacy/mcp`, body(text))),
  });
  const initialize = (text: string) => `{"protocolVersion":"${LEGACY}","capabilities":{"x":${text}},"clientInfo":{}}`;
  return [
    modern('arguments of a modern client', (text) => ({ params: `"arguments":{"x":${text}}` })),
    modern('evaluated arguments', (text) => ({ params: `"arguments":{"x":${text}}` }), 'evaluated'),
    modern('client capabilities', (text) => ({ capabilities: `{"x":${text}}` })),
    modern('metadata of a request', (text) => ({ meta: `"x":${text}` })),
    posted('arguments of a legacy client', (text) => request('tools/call', `{"name":"a","arguments":{"x":${text}}}`)),
    posted('capabilities in initialize', (text) => request('initialize', initialize(text))),
    posted('a whole body', (text) => text),
    posted('a member beside the params', (text) => `{"x":${text},"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
  ];
}

function request(method: string, params: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
}

function upstreamSurfaces(): Surface[] {
  const answered = (
    name: string,
    era: Era,
    maxBytes: number,
    type: Parameters<typeof answerWith>[1],
    body: (text: string) => string,
    call: (target: HostileTarget) => Promise<string> = (target) => callTool(target, era),
  ): Surface => ({
    name,
    maxBytes,
    send(text, { upstreams }, target) {
      answerWith(upstreams[era], type, body(text));
      return call(target);
    },
  });
  const json = 'application/json';
  const stream = 'text/event-stream';
  const result = (text: string) =>
    responseWith(`{"content":[],"structuredContent":{"x":${text}},"resultType":"complete"}`);
  const error = (text: string) => `{"jsonrpc":"2.0","id":$id,"error":{"code":-32002,"message":"m","data":${text}}}`;
  const event = (text: string) => `data: ${text}\n\n`;
  const then = (message: string) => event(message) + event(responseWith('{"content":[]}'));
  const notification = (text: string) =>
    then(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${text}}}`);
  const elicitation = (text: string) =>
    then(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"m","requestedSchema":${text}}}`);
  const legacyCall = (capabilities: string, namespace: Era) => async (target: HostileTarget) => {
    // A process that only reads has no sessions.
    if (target.management === undefined) return callTool(target, namespace);
    const client = await legacyClient(`${target.mcp}/${namespace}/mcp`, capabilities);
    return summaryOf(await client.call('tools/call', '{"name":"a"}'));
  };
  return [
    answered('a result', 'modern', 40 * MIB, json, result),
    answered('a result for a client of the other era', 'legacy', 40 * MIB, json, result),
    answered('a result in an event', 'modern', 40 * MIB, stream, (text) => event(result(text))),
    answered('a result in an event, for a modern client', 'legacy', 40 * MIB, stream, (text) => event(result(text))),
    answered(
      'a result in an event, for a legacy client',
      'modern',
      40 * MIB,
      stream,
      (text) => event(result(text)),
      legacyCall('{}', 'modern'),
    ),
    answered('an error', 'modern', 8 * MIB, json, error),
    answered('an error for a client of the other era', 'legacy', 8 * MIB, stream, (text) => event(error(text))),
    answered('a log message', 'legacy', 8 * MIB, stream, notification, legacyCall('{}', 'legacy')),
    answered('a log message of 40 MiB', 'legacy', 40 * MIB, stream, notification, legacyCall('{}', 'legacy')),
    answered('a server request', 'legacy', 8 * MIB, stream, elicitation, legacyCall('{}', 'legacy')),
    answered('a whole event', 'legacy', 8 * MIB, stream, (text) => then(text)),
    answered('a whole JSON body', 'modern', 40 * MIB, json, (text) => text),
  ];
}

function discoverySurfaces(): Surface[] {
  const upstream = (name: string, era: Era, scripts: (text: string) => RawUpstreamOptions['scripts']): Surface => ({
    name,
    maxBytes: 4 * MIB,
    isComparable: false,
    async send(text, _peers, target) {
      const started = await startRawUpstream({ eras: [era], scripts: scripts(text) ?? {} });
      try {
        return await discovered(target, 'variant', started.url);
      } finally {
        await send(`${target.management}/api/v1/namespaces/variant?cascade=true`, 'DELETE');
        await started.close();
      }
    },
  });
  const server = '"serverInfo":{"name":"h","version":"1"}';
  return [
    upstream('a tool in a catalog', 'modern', (text) => ({
      'tools/list': toolList(`{"name":"t","inputSchema":{"type":"object","x":${text}}}`),
    })),
    upstream('a member of a list', 'legacy', (text) => ({ 'tools/list': `{"tools":[],"x":${text},${LIST_END}` })),
    upstream('the answer to initialize', 'legacy', (text) => ({
      initialize: `{"protocolVersion":"${LEGACY}","capabilities":{"x":${text}},${server}}`,
    })),
    upstream('the answer to server/discover', 'modern', (text) => ({
      'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":{"x":${text}},${server},${LIST_END}`,
    })),
  ];
}

function otherSurfaces(): Surface[] {
  const managed = (
    name: string,
    method: string,
    path: string,
    body: (text: string) => string,
    cleanup?: string,
  ): Surface => ({
    name,
    maxBytes: MANAGEMENT_BYTES,
    isComparable: false,
    async send(text, _peers, { management }) {
      const response = await send(
        `${management}/api/v1/${path}`,
        method,
        { 'content-type': 'application/json' },
        body(text),
      );
      if (cleanup !== undefined) await send(`${management}/api/v1/${cleanup}`, 'DELETE');
      return summaryOf(response);
    },
  });
  const tool = '"name":"large","description":"","uri":"http://large","toolType":"http"';
  const service = (name: string, tools: string, replies: number): Surface => ({
    name,
    maxBytes: 4 * MIB - 64 * KIB,
    isComparable: false,
    async send(text, peers, target) {
      peers.onGrpcCall = grpcReplies(replies, grpcContent(text));
      const client = await legacyClient(`${target.mcp}/default/mcp`);
      return summaryOf(await client.call('tools/call', `{"name":"${tools}","arguments":{"code":"x"}}`));
    },
  });
  const llm = (name: string, answer: (text: string) => HostilePeers['llm']['defaultResult']): Surface => ({
    name,
    maxBytes: MIB - 4 * KIB,
    isComparable: false,
    send(text, { llm: model, upstreams }, target) {
      model.defaultResult = answer(text);
      answerWith(upstreams.modern, 'application/json', responseWith('{"content":[]}'));
      return callTool(target, 'evaluated');
    },
  });
  const completed = (
    name: string,
    body: (text: string) => string,
    answer?: (text: string) => HostilePeers['llm']['defaultResult'],
  ): Surface => ({
    name,
    maxBytes: 16 * MIB,
    isComparable: false,
    async send(text, { llm: model }, { inference }) {
      if (answer) model.defaultResult = answer(text);
      return summaryOf(await post(`${inference}/v1/chat/completions`, body(answer ? '1' : text)));
    },
  });
  const completion = (text: string) => `{"model":"m","messages":[],"x":${text}}`;
  const eventStream = { 'content-type': 'text/event-stream' };
  return [
    completed('a completion request', completion),
    completed('the whole body of a completion request', (text) => text),
    completed('a completion', completion, (text) => ({ body: `{"choices":[],"x":${text}}` })),
    completed('a stream of a completion', completion, (text) => ({
      body: `data: {"choices":[],"x":${text}}\n\ndata: [DONE]\n\n`,
      headers: eventStream,
    })),
    managed(
      'the body of a new tool',
      'POST',
      'tools',
      (text) => `{${tool},"input_schema":{"type":"object","x":${text}}}`,
      'tools/large',
    ),
    managed('the body of a new forward', 'POST', 'forwards', (text) => `{"name":"f","address":${text}}`),
    managed('the body of evaluators', 'PUT', 'evaluators', (text) => `{"evaluators":[{"name":"x","trigger":${text}}]}`),
    service('a reply of a capability service', 'work', 1),
    service('a code stream', 'run', 8),
    llm('the answer of an LLM', (text) => ({ content: text })),
    llm('the body of an LLM', (text) => ({ body: text })),
  ];
}

/** All cases, in the order of the report: those of the known attacks, and generated ones. */
export function hostileCases(seed: number): HostileCase[] {
  return [...tableCases(), ...variants(seed)];
}
