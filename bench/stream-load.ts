import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, parseJson } from './json.ts';
import type { Message, Streamed } from './messages.ts';
import type { StreamKind } from './stream-events.ts';

/** Event streams that are read at once. */
export const streamCount = 500;

/** What the process that reads event streams is told. */
export interface StreamPlan extends Streamed {
  readonly kind: StreamKind;
  readonly url: string;
  /** One call for each stream, which asks for what the plan says. */
  readonly messages: readonly Message[];
  /** Process whose CPU time is watched meanwhile. */
  readonly pid?: number;
}

/** What arrived while all streams were flowing. */
export interface StreamsSeen {
  readonly chunks: number;
  /** Chunks per second of wall-clock time, of all streams together. */
  readonly perSecond: number;
  /** CPU time of the watched process per chunk, in microseconds; NaN when none was watched. */
  readonly cpuPerChunkUs: number;
  /** From just before the upstream wrote a chunk until the reader had it, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of completions: SHA-256 of each stream's text, in the order of the plan's messages. */
  readonly digests: readonly unknown[];
}

const run = promisify(execFile);

/**
 * Opens all streams of the plan at once and reads each of them to its end.
 *
 * @param file takes the plan
 * @throws Error when a stream broke, stood still, or lost or changed an event
 */
export async function loadStreams(file: string, plan: StreamPlan): Promise<StreamsSeen> {
  writeFileSync(file, JSON.stringify(plan));
  const { stdout } = await run(process.execPath, [`${import.meta.dirname}/stream-reader.ts`, file]).catch(
    (error: unknown) => {
      throw new Error(`event streams: ${String(at(error, 'stderr')).trim()}`, { cause: error });
    },
  );
  const seen = parseJson(stdout);
  const digests = at(seen, 'digests');
  // JSON has no NaN: a figure that is none comes back as null.
  const figure = (name: string) => Number(at(seen, name) ?? Number.NaN);
  return {
    chunks: figure('chunks'),
    perSecond: figure('perSecond'),
    cpuPerChunkUs: figure('cpuPerChunkUs'),
    p50Ms: figure('p50Ms'),
    p99Ms: figure('p99Ms'),
    digests: Array.isArray(digests) ? digests : [],
  };
}
