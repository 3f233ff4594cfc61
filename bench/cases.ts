import { CONNECTIONS } from './load.ts';
import { bridged, type ContentName, type Era } from './messages.ts';
import type { Bound } from './rounds.ts';

/** Parts with the cases of requests. */
export const requestParts = ['list', 'call', 'read', 'large'] as const;
export type RequestPart = (typeof requestParts)[number];

/** Case of requests. */
export interface RequestCase {
  readonly name: string;
  readonly part: RequestPart | 'pairings' | 'bridge';
  readonly title: string;
  readonly method: 'list' | 'call' | 'read' | 'prompt';
  /** Era of the client. */
  readonly era: Era;
  /** Named after the era of its upstream. */
  readonly namespace: string;
  /** Contents of a call with a large response or request. */
  readonly answer?: ContentName;
  readonly argument?: ContentName;
  /** Connections of the load generator. */
  readonly connections: number;
  /** Of the CPU time of the baseline per response relative to that of the gateway, or of the reverse. */
  readonly bound: Bound;
}

const eras = ['legacy', 'modern'] as const;

function requestCase(
  name: string,
  part: RequestCase['part'],
  title: string,
  bound: Bound,
  others: Partial<RequestCase> = {},
): RequestCase {
  const era = name.endsWith('modern') ? 'modern' : 'legacy';
  const method = part === 'list' || part === 'read' ? part : 'call';
  return { name, part, method, title, era, namespace: era, connections: CONNECTIONS, bound, ...others };
}

function largeCase(name: string, contents: Pick<RequestCase, 'answer' | 'argument'>, title: string, bound: Bound) {
  const connections = name.endsWith('64k') ? CONNECTIONS : 16;
  return requestCase(name, 'large', title, bound, { ...contents, connections });
}

/** Cases that are compared with the relay, in order of measurement. */
export const requestCases: readonly RequestCase[] = [
  ...eras.map((era) => requestCase(`list-${era}`, 'list', `tools/list 10 kB, ${era}`, { floor: 2.5, aim: 3.5 })),
  ...eras.map((era) => requestCase(`call-${era}`, 'call', `tools/call, ${era}`, { floor: 1.5, aim: 2.2 })),
  requestCase('read', 'read', 'resources/read', { floor: 1.5, aim: 2.2 }),
  requestCase('prompt', 'read', 'prompts/get', { floor: 1.7, aim: 2.3 }, { method: 'prompt' }),
  largeCase('answer-64k', { answer: '64k' }, 'response of 64 kB', { floor: 1.2, aim: 1.5 }),
  largeCase('answer-prose', { answer: 'prose' }, 'response of 1 MB, prose', { floor: 0.9, aim: 1.1 }),
  largeCase('answer-escaped', { answer: 'escaped' }, 'response of 1 MB, escaped text', { floor: 0.6, aim: 0.8 }),
  largeCase('answer-dense', { answer: 'dense' }, 'response of 1 MB, dense structure', { floor: 0.6, aim: 0.8 }),
  largeCase('request-64k', { argument: '64k' }, 'request of 64 kB', { floor: 1.1, aim: 1.4 }),
  largeCase('request-prose', { argument: 'prose' }, 'request of 1 MB, prose', { floor: 0.85, aim: 1.1 }),
  largeCase('request-escaped', { argument: 'escaped' }, 'request of 1 MB, escaped text', { floor: 0.6, aim: 0.8 }),
  largeCase('request-dense', { argument: 'dense' }, 'request of 1 MB, dense structure', { floor: 0.6, aim: 0.8 }),
];

/** Returns the cases of a part. */
export const casesOf = (...parts: readonly RequestPart[]) =>
  requestCases.filter(({ part }) => parts.some((each) => each === part));

/** Limit of the CPU time of a `tools/call` across eras, relative to one within the client's era. */
const pairingBound = { limit: 1.5 };

/** `tools/call` across eras. */
export const crossings: readonly RequestCase[] = eras.map((era) => {
  const namespace = era === 'legacy' ? 'modern' : 'legacy';
  const title = `tools/call, ${era} client`;
  return requestCase(`call-${era}-to-${namespace}`, 'pairings', title, pairingBound, { era, namespace });
});

/** Calls of a capability service, compared with a plain gRPC client. */
export const bridgeCases: readonly RequestCase[] = eras.map((era) =>
  requestCase(`bridge-${era}`, 'bridge', `tools/call over gRPC, ${era}`, { floor: 0.35, aim: 0.5 }, bridged),
);

/** Case of event streams, compared with nginx. */
export interface StreamCase {
  readonly name: string;
  readonly part: 'streams' | 'inference';
  readonly title: string;
  readonly era: Era;
  readonly bound: Bound;
}

/** Progress notifications of calls. */
export const streamCases: readonly StreamCase[] = eras.map((era) => ({
  name: `streams-${era}`,
  part: 'streams',
  title: `event streams, ${era} to ${era}`,
  era,
  bound: { floor: 0.5, aim: 0.6 },
}));

/** Streamed chat completions, which have no era. */
export const completionCase: StreamCase = {
  name: 'inference-streams',
  part: 'inference',
  title: 'completions, streamed',
  era: 'modern',
  bound: { floor: 0.36, aim: 0.43 },
};

/**
 * Limit of the CPU time with 10,000 tools in other namespaces, relative to that without. Two processes with the same settings
 * differ by up to a fifth, as V8 compiles them.
 */
export const loadedBound: Bound = { limit: 1.25 };
