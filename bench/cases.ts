import type { Era } from './messages.ts';

/** The cases of requests: a method with a client and an upstream of one protocol era. */
export const caseNames = ['list-legacy', 'list-modern', 'call-legacy', 'call-modern'] as const;
export type CaseName = (typeof caseNames)[number];

/** The pairings of a client's era with an upstream's, in the order in which they are measured and printed. */
export const pairingNames = [
  'call-legacy-to-legacy',
  'call-legacy-to-modern',
  'call-modern-to-modern',
  'call-modern-to-legacy',
] as const;
export type PairingName = (typeof pairingNames)[number];

/** The cases of event streams, likewise. */
export const streamCaseNames = ['streams-legacy', 'streams-modern'] as const;
export type StreamCaseName = (typeof streamCaseNames)[number];

/** The cases of calls that a capability service carries out, likewise. */
export const bridgeCaseNames = ['bridge-legacy', 'bridge-modern'] as const;
export type BridgeCaseName = (typeof bridgeCaseNames)[number];

/** The cases of chat completions, likewise. */
export const inferenceCaseNames = ['inference-streams', 'inference-json'] as const;
export type InferenceCaseName = (typeof inferenceCaseNames)[number];

/** A method, by a client of one era, with an upstream of the same or of the other one. */
export interface Exchange {
  readonly name: CaseName | PairingName;
  readonly title: string;
  readonly method: 'list' | 'call';
  /** The client's. */
  readonly era: Era;
  readonly upstream: Era;
}

/** One case with what is expected of it. Ratios are requests per CPU-second against nginx in the same run. */
export interface Case extends Exchange {
  readonly aim: number;
  readonly floor: number;
}

/** One case of event streams. Ratios are chunks per CPU-second against nginx in the same run. */
export interface StreamCase {
  readonly name: StreamCaseName;
  readonly title: string;
  readonly method: 'stream';
  readonly era: Era;
  readonly aim: number;
  readonly floor: number;
}

/** One case of calls over gRPC. Ratios are calls per CPU-second against a bare client of the service in the same run. */
export interface BridgeCase {
  readonly name: BridgeCaseName;
  readonly title: string;
  readonly method: 'bridge';
  readonly era: Era;
  readonly aim: number;
  readonly floor: number;
}

/** One case of chat completions. Ratios are chunks or answers per CPU-second against nginx in the same run. */
export interface InferenceCase {
  readonly name: InferenceCaseName;
  readonly title: string;
  readonly method: 'completion';
  /** Undefined: nothing is expected of it, it is shown for comparison. */
  readonly aim: number | undefined;
  readonly floor: number | undefined;
}

/** Most that the gateway may add to the median answer time of a single caller, in milliseconds. */
export const addedLimitMs = 0.2;

/** Most that the gateway may add to the median delay of a chunk, in milliseconds. */
export const streamAddedLimitMs = 0.25;

/** Most CPU time that a `tools/call` across the eras may take, against one that stays in the client's era. */
export const pairingLimit = 1.5;

/** A plain `tools/call` in every pairing of eras. */
export const pairings: readonly Exchange[] = pairingNames.map((name) => {
  const era = name.startsWith('call-legacy') ? 'legacy' : 'modern';
  const upstream = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'call', era, upstream, title: `tools/call, ${era} to ${upstream}` };
});

/** All cases of requests in the order in which they are measured and printed. */
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

/** All cases of event streams, likewise. */
export const streamCases: readonly StreamCase[] = streamCaseNames.map((name) => {
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return { name, method: 'stream', era, title: `event streams, ${era} to ${era}`, aim: 0.45, floor: 0.38 };
});

/** All cases of calls over gRPC, likewise. */
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

/** The call that telemetry is measured with. */
export const telemetryCall: Exchange = {
  name: 'call-modern',
  title: 'tools/call, modern to modern',
  method: 'call',
  era: 'modern',
  upstream: 'modern',
};

/** Most that a `tools/call` may cost with telemetry exported, against off: what is aimed at, and the limit. */
export const exportingAim = 1.15;
export const exportingLimit = 1.3;

/** Most that telemetry may cost when it is off, against a source without it: a tie. */
export const offLimit = 1.1;
