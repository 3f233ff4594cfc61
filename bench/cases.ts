import type { ContentName, Era } from './messages.ts';

/** Cases of requests, in order of measurement. */
export const caseNames = [
  'list-legacy',
  'list-modern',
  'call-legacy',
  'call-modern',
  'read',
  'prompt',
  'answer-64k',
  'answer-prose',
  'answer-escaped',
  'answer-dense',
  'request-64k',
  'request-prose',
  'request-escaped',
  'request-dense',
  'mixed',
] as const;
export type CaseName = (typeof caseNames)[number];

/** Parts with the cases of requests. */
export const requestParts = ['list', 'call', 'read', 'large', 'mixed'] as const;
export type RequestPart = (typeof requestParts)[number];

/** Pairings of client and upstream era, in order of measurement. */
export const pairingNames = [
  'call-legacy-to-legacy',
  'call-legacy-to-modern',
  'call-modern-to-modern',
  'call-modern-to-legacy',
] as const;
export type PairingName = (typeof pairingNames)[number];

/** Cases of event streams. */
export const streamCaseNames = ['streams-legacy', 'streams-modern'] as const;
export type StreamCaseName = (typeof streamCaseNames)[number];

/** Cases of calls to a capability service. */
export const bridgeCaseNames = ['bridge-legacy', 'bridge-modern'] as const;
export type BridgeCaseName = (typeof bridgeCaseNames)[number];

/** Cases of chat completions. */
export const inferenceCaseNames = ['inference-streams', 'inference-json'] as const;
export type InferenceCaseName = (typeof inferenceCaseNames)[number];

/** Requests with the eras of client and upstream. */
export interface Exchange {
  readonly name: CaseName | PairingName;
  readonly title: string;
  readonly method: 'list' | 'call' | 'read' | 'prompt' | 'mixed';
  /** Era of the client. */
  readonly era: Era;
  readonly upstream: Era;
  /** Contents of a call with a large response or request. */
  readonly answer?: ContentName;
  readonly argument?: ContentName;
  /** Connections of the load generator. */
  readonly connections: number;
}

/** Case of requests. Ratios are the CPU time of the relay per response divided by that of the service. */
export interface Case extends Exchange {
  readonly name: CaseName;
  readonly part: RequestPart;
  /** Undefined if the case has no limits. */
  readonly aim: number | undefined;
  readonly floor: number | undefined;
}

/** Case of event streams. Ratios are chunks per CPU-second relative to nginx. */
export interface StreamCase {
  readonly name: StreamCaseName;
  readonly title: string;
  readonly method: 'stream';
  readonly era: Era;
  readonly aim: number;
  readonly floor: number;
}

/** Case of calls over gRPC. Ratios are calls per CPU-second relative to a plain gRPC client. */
export interface BridgeCase {
  readonly name: BridgeCaseName;
  readonly title: string;
  readonly method: 'bridge';
  readonly era: Era;
  readonly aim: number;
  readonly floor: number;
}

/** Case of chat completions. Ratios are chunks or responses per CPU-second relative to nginx. */
export interface InferenceCase {
  readonly name: InferenceCaseName;
  readonly title: string;
  readonly method: 'completion';
  /** Undefined if the case has no limits. */
  readonly aim: number | undefined;
  readonly floor: number | undefined;
}

/**
 * Limit of the CPU time with 10,000 tools in other namespaces, relative to that without. Two processes with the same settings
 * differ by up to a fifth, as V8 compiles them.
 */
export const loadedLimit = 1.25;

/** Limits of the median response time of a single caller minus that through nginx, in milliseconds. */
export const singleLimitsMs = { list: { aim: 0, limit: 0 }, call: { aim: 0.035, limit: 0.06 } } as const;

/** Limit of the p99 at a steady rate, relative to that of the relay in the same round. */
export const pacedLimit = 1.5;

/** Limits of the memory after the first of several large responses to a slow reader, in MB. */
export const memoryLimitsMB = { peak: 32, live: 10 } as const;

/** Limit of the added median delay of a chunk, in milliseconds. */
export const streamAddedLimitMs = 0.25;

/** Limit of the CPU time of a `tools/call` across eras, relative to one within the client's era. */
export const pairingLimit = 1.5;

/** `tools/call` in every pairing of eras. */
export const pairings: readonly Exchange[] = pairingNames.map((name) => {
  const era = name.startsWith('call-legacy') ? 'legacy' : 'modern';
  const upstream = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'call', era, upstream, title: `tools/call, ${era} to ${upstream}`, connections: 64 };
});

/** Cases of requests in order of measurement. */
export const cases: readonly Case[] = [
  ...(['legacy', 'modern'] as const).map((era) =>
    requestCase(`list-${era}`, 'list', `tools/list 10 kB, ${era}`, 2.5, 3.5),
  ),
  ...(['legacy', 'modern'] as const).map((era) => requestCase(`call-${era}`, 'call', `tools/call, ${era}`, 1.5, 2.2)),
  requestCase('read', 'read', 'resources/read', 1.5, 2.2),
  { ...requestCase('prompt', 'read', 'prompts/get', 1.7, 2.3), method: 'prompt' },
  largeCase('answer', '64k', 'response of 64 kB', 1.2, 1.5),
  largeCase('answer', 'prose', 'response of 1 MB, prose', 0.9, 1.1),
  largeCase('answer', 'escaped', 'response of 1 MB, escaped text', 0.6, 0.8),
  largeCase('answer', 'dense', 'response of 1 MB, dense structure', 0.6, 0.8),
  largeCase('request', '64k', 'request of 64 kB', 1.1, 1.4),
  largeCase('request', 'prose', 'request of 1 MB, prose', 0.85, 1.1),
  largeCase('request', 'escaped', 'request of 1 MB, escaped text', 0.6, 0.8),
  largeCase('request', 'dense', 'request of 1 MB, dense structure', 0.6, 0.8),
  requestCase('mixed', 'mixed', 'mixed load'),
];

function requestCase(
  name: CaseName,
  part: Exclude<RequestPart, 'large'>,
  title: string,
  floor?: number,
  aim?: number,
): Case {
  const era = name.endsWith('modern') ? 'modern' : 'legacy';
  return { name, part, method: part, title, era, upstream: era, connections: 64, floor, aim };
}

function largeCase(
  side: 'answer' | 'request',
  large: '64k' | 'prose' | 'escaped' | 'dense',
  title: string,
  floor: number,
  aim: number,
): Case {
  const connections = large === '64k' ? 64 : 16;
  const contents = side === 'answer' ? { answer: large } : { argument: large };
  const eras = { era: 'legacy', upstream: 'legacy' } as const;
  return {
    name: `${side}-${large}`,
    part: 'large',
    method: 'call',
    title,
    ...eras,
    ...contents,
    connections,
    floor,
    aim,
  };
}

/** Cases of event streams in order of measurement. */
export const streamCases: readonly StreamCase[] = streamCaseNames.map((name) => {
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'stream', era, title: `event streams, ${era} to ${era}`, aim: 0.6, floor: 0.5 };
});

/** Cases of calls over gRPC in order of measurement. */
export const bridgeCases: readonly BridgeCase[] = bridgeCaseNames.map((name) => {
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'bridge', era, title: `tools/call over gRPC, ${era}`, aim: 0.5, floor: 0.35 };
});

/** Chat completions as event streams. */
export const completionStreams: InferenceCase = {
  name: 'inference-streams',
  title: 'completions, streamed',
  method: 'completion',
  aim: 0.43,
  floor: 0.36,
};

/** Chat completions in one piece. */
export const completionAnswers: InferenceCase = {
  name: 'inference-json',
  title: 'completions of 2 kB, JSON',
  method: 'completion',
  aim: undefined,
  floor: undefined,
};

/** Call of the telemetry part. */
export const telemetryCall: Exchange = {
  name: 'call-modern',
  title: 'tools/call, modern to modern',
  method: 'call',
  era: 'modern',
  upstream: 'modern',
  connections: 64,
};

/** Aim and limit of the CPU time of a `tools/call` with telemetry export, relative to without. */
export const exportingAim = 1.15;
export const exportingLimit = 1.3;

/** Limit of the CPU time with telemetry off, relative to a commit without telemetry. */
export const offLimit = 1.1;
