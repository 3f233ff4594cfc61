import type { Era } from './messages.ts';

/** The cases of requests: a method with a client and an upstream of one protocol era. */
export const caseNames = ['list-legacy', 'list-modern', 'call-legacy', 'call-modern'] as const;
export type CaseName = (typeof caseNames)[number];

/** The cases of event streams, likewise. */
export const streamCaseNames = ['streams-legacy', 'streams-modern'] as const;
export type StreamCaseName = (typeof streamCaseNames)[number];

/** One case with what is expected of it. Ratios are requests per CPU-second against nginx in the same run. */
export interface Case {
  readonly name: CaseName;
  readonly title: string;
  readonly method: 'list' | 'call';
  readonly era: Era;
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

/** Most that the gateway may add to the median answer time of a single caller, in milliseconds. */
export const addedLimitMs = 0.2;

/** Most that the gateway may add to the median delay of a chunk, in milliseconds. */
export const streamAddedLimitMs = 0.25;

/** All cases of requests in the order in which they are measured and printed. */
export const cases: readonly Case[] = caseNames.map((name) => {
  const method = name.startsWith('list') ? 'list' : 'call';
  const era = name.endsWith('legacy') ? 'legacy' : 'modern';
  return {
    name,
    method,
    era,
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
