import type { Era } from './messages.ts';

/** Cases of requests: a method, with client and upstream of the same protocol era. */
export const caseNames = ['list-legacy', 'list-modern', 'call-legacy', 'call-modern'] as const;
export type CaseName = (typeof caseNames)[number];

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

/** A method with the eras of client and upstream. */
export interface Exchange {
  readonly name: CaseName | PairingName;
  readonly title: string;
  readonly method: 'list' | 'call';
  /** Era of the client. */
  readonly era: Era;
  readonly upstream: Era;
}

/** Case of requests with its aim and floor. Ratios are requests per CPU-second relative to nginx. */
export interface Case extends Exchange {
  readonly aim: number;
  readonly floor: number;
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

/** Limit of the added median response time of a single caller, in milliseconds. */
export const addedLimitMs = 0.2;

/** Limit of the added median delay of a chunk, in milliseconds. */
export const streamAddedLimitMs = 0.25;

/** Limit of the CPU time of a `tools/call` across eras, relative to one within the client's era. */
export const pairingLimit = 1.5;

/** `tools/call` in every pairing of eras. */
export const pairings: readonly Exchange[] = pairingNames.map((name) => {
  const era = name.startsWith('call-legacy') ? 'legacy' : 'modern';
  const upstream = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'call', era, upstream, title: `tools/call, ${era} to ${upstream}` };
});

/** Cases of requests in order of measurement. */
export const cases: readonly Case[] = caseNames.map((name) => {
  const method = name.startsWith('list') ? 'list' : 'call';
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return {
    name,
    method,
    era,
    upstream: era,
    title: method === 'list' ? `tools/list 10 kB, ${era}` : `tools/call, ${era} to ${era}`,
    aim: method === 'list' ? 1.0 : 0.4,
    floor: method === 'list' ? 0.75 : 0.28,
  };
});

/** Cases of event streams in order of measurement. */
export const streamCases: readonly StreamCase[] = streamCaseNames.map((name) => {
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'stream', era, title: `event streams, ${era} to ${era}`, aim: 0.45, floor: 0.38 };
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
};

/** Aim and limit of the CPU time of a `tools/call` with telemetry export, relative to without. */
export const exportingAim = 1.15;
export const exportingLimit = 1.3;

/** Limit of the CPU time with telemetry off, relative to a commit without telemetry. */
export const offLimit = 1.1;
