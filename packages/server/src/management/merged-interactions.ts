import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PeerResponses, StreamedResponse } from '../http/peers.ts';
import type { Interaction } from '../inference/interaction-store.ts';

/** Serializes an interaction. */
export type Serialize = (interaction: Interaction) => Iterable<string | Buffer>;

/** An interaction of some replica. */
interface Frame {
  readonly epochMs: number;
  readonly json: Buffer;
  /** Number of interactions of its replica from this one on. */
  readonly remaining: number;
}

/** Interactions as one replica passes them to another: their number in a line, and each with its time and length. */
export function* interactionFrames(found: readonly Interaction[], serialize: Serialize): Generator<Buffer> {
  yield Buffer.from(`${found.length}\n`);
  for (const { epochMs, json } of framesOf(found, serialize)) {
    yield Buffer.concat([Buffer.from(`${epochMs} ${json.length}\n`), json]);
  }
}

/** Interactions of this replica, each serialized when it is needed. */
function* framesOf(found: readonly Interaction[], serialize: Serialize): Generator<Frame> {
  for (const [at, interaction] of found.entries()) {
    const pieces = Array.from(serialize(interaction), (piece) =>
      typeof piece === 'string' ? Buffer.from(piece) : piece,
    );
    yield { epochMs: interaction.epochMs, json: Buffer.concat(pieces), remaining: found.length - at };
  }
}

/** Longest line before an interaction. */
const MAX_LINE = 64;

/** Interactions of another replica, which are read one at a time. */
async function* readFrames({ body }: StreamedResponse): AsyncGenerator<Frame> {
  const chunks = body[Symbol.asyncIterator]();
  let buffer: Buffer = Buffer.alloc(0);
  const read = async (): Promise<void> => {
    const { done, value } = await chunks.next();
    if (done) throw new Error('incomplete response');
    buffer = buffer.length === 0 ? value : Buffer.concat([buffer, value]);
  };
  const readLine = async (): Promise<string> => {
    let end = buffer.indexOf('\n');
    for (; end < 0; end = buffer.indexOf('\n')) {
      if (buffer.length > MAX_LINE) throw new Error('invalid response format');
      await read();
    }
    const line = buffer.toString('latin1', 0, end);
    buffer = buffer.subarray(end + 1);
    return line;
  };
  for (let remaining = wholeNumber(await readLine()); remaining > 0; remaining--) {
    const [epochMs, length] = (await readLine()).split(' ').map(wholeNumber);
    const parts: Buffer[] = [];
    for (let missing = length ?? 0; missing > 0; ) {
      if (buffer.length === 0) await read();
      const part = buffer.subarray(0, missing);
      parts.push(part);
      buffer = buffer.subarray(part.length);
      missing -= part.length;
    }
    yield { epochMs: epochMs ?? 0, json: Buffer.concat(parts), remaining };
  }
}

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error('invalid response format');
  return Number(text);
}

/** Interactions of one replica in order of arrival. */
interface Source {
  /** Undefined for this replica. */
  readonly replica: string | undefined;
  readonly frames: Iterator<Frame> | AsyncIterator<Frame>;
  /** The next one; undefined at the end. */
  head: Frame | undefined;
}

/** Bytes that are handled in one turn of the event loop, and sent at once. */
export const SLICE_BYTES = 128 * 1024;

/**
 * The response with the interactions of this replica and of others, in order of arrival. It is sent as fast as the client reads,
 * with one interaction of each replica in memory. `limit`: number of the newest interactions. The end of the response names the
 * replicas that have not sent all of theirs.
 */
export async function* mergedInteractions(
  own: readonly Interaction[],
  { responses, missingReplicas }: PeerResponses<StreamedResponse> = { responses: [], missingReplicas: [] },
  serialize: Serialize,
  limit: number | undefined,
): AsyncGenerator<Buffer> {
  const missing = [...missingReplicas];
  const sources: Source[] = [
    { replica: undefined, frames: framesOf(own, serialize), head: undefined },
    ...responses.map((response) => ({ replica: response.replica, frames: readFrames(response), head: undefined })),
  ];
  try {
    await Promise.all(sources.map((source) => advance(source, missing)));
    const total = sources.reduce((sum, { head }) => sum + (head?.remaining ?? 0), 0);
    let skipped = limit === undefined ? 0 : Math.max(0, total - limit);
    let slice: Buffer[] = [Buffer.from('{"data":[')];
    let handled = 0;
    let isFirst = true;
    for (let source = earliest(sources); source?.head; source = earliest(sources)) {
      const { json } = source.head;
      if (skipped > 0) skipped--;
      else {
        slice.push(Buffer.from(isFirst ? '' : ','), json);
        isFirst = false;
      }
      handled += json.length;
      await advance(source, missing);
      if (handled < SLICE_BYTES) continue;
      if (slice.length > 0) yield Buffer.concat(slice);
      slice = [];
      handled = 0;
      await nextTurn();
    }
    const end = missing.length === 0 ? '' : `,"unanswered":${JSON.stringify(missing.sort())}`;
    yield Buffer.concat([...slice, Buffer.from(`],"error":null${end}}`)]);
  } finally {
    for (const response of responses) response.close();
  }
}

/** The source with the interaction that arrived first; undefined at the end of all. */
function earliest(sources: readonly Source[]): Source | undefined {
  return sources.reduce<Source | undefined>((found, source) => {
    if (!source.head) return found;
    return found?.head && found.head.epochMs <= source.head.epochMs ? found : source;
  }, undefined);
}

/** Reads the next interaction of a source. */
async function advance(source: Source, missing: string[]): Promise<void> {
  try {
    const { done, value } = await source.frames.next();
    source.head = done ? undefined : value;
  } catch (error) {
    if (source.replica === undefined) throw error;
    source.head = undefined;
    missing.push(source.replica);
  }
}
