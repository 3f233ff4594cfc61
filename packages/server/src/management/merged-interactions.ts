import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Answers, StreamedAnswer } from '../http/replica-views.ts';
import type { Interaction } from '../inference/interaction-store.ts';

/** Serializes an interaction. */
export type Serialize = (interaction: Interaction) => Iterable<string | Buffer>;

/** An interaction of some replica. */
interface Frame {
  readonly epochMs: number;
  readonly json: Buffer;
}

/** Interactions as one replica passes them to another: their number in a line, and each with its time and length. */
export function* interactionFrames(found: readonly Interaction[], serialize: Serialize): Generator<Buffer> {
  yield Buffer.from(`${found.length}\n`);
  for (const interaction of found) {
    const { epochMs, json } = frameOf(interaction, serialize);
    yield Buffer.concat([Buffer.from(`${epochMs} ${json.length}\n`), json]);
  }
}

function frameOf(interaction: Interaction, serialize: Serialize): Frame {
  const pieces = Array.from(serialize(interaction), (piece) =>
    typeof piece === 'string' ? Buffer.from(piece) : piece,
  );
  return { epochMs: interaction.epochMs, json: Buffer.concat(pieces) };
}

/** Longest line before an interaction. */
const MAX_LINE = 64;

/** Interactions of another replica, which are read one at a time. */
class FrameReader {
  readonly replica: string;
  readonly #answer: StreamedAnswer;
  readonly #chunks: AsyncIterator<Buffer>;
  #buffer: Buffer = Buffer.alloc(0);

  constructor(answer: StreamedAnswer) {
    this.replica = answer.replica;
    this.#answer = answer;
    this.#chunks = answer.body[Symbol.asyncIterator]();
  }

  async count(): Promise<number> {
    return Number(await this.#line());
  }

  async next(): Promise<Frame> {
    const [epochMs = Number.NaN, length = Number.NaN] = (await this.#line()).split(' ').map(Number);
    const parts: Buffer[] = [];
    let missing = length;
    for (;;) {
      const part = this.#buffer.subarray(0, missing);
      parts.push(part);
      this.#buffer = this.#buffer.subarray(part.length);
      missing -= part.length;
      if (missing === 0) return { epochMs, json: Buffer.concat(parts) };
      await this.#read();
    }
  }

  close(): void {
    this.#answer.close();
  }

  async #line(): Promise<string> {
    for (;;) {
      const end = this.#buffer.indexOf('\n');
      if (end >= 0) {
        const line = this.#buffer.toString('latin1', 0, end);
        this.#buffer = this.#buffer.subarray(end + 1);
        return line;
      }
      if (this.#buffer.length > MAX_LINE) throw new Error('invalid response format');
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    if (done) throw new Error('incomplete response');
    this.#buffer = this.#buffer.length === 0 ? value : Buffer.concat([this.#buffer, value]);
  }
}

/** Interactions of one replica in order of arrival, of which the next one is known. */
interface Source {
  head: Frame;
  remaining: number;
  readonly replica: string | undefined;
  next(): Frame | Promise<Frame>;
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
  { answers, unanswered }: Answers<StreamedAnswer> = { answers: [], unanswered: [] },
  serialize: Serialize,
  limit: number | undefined,
): AsyncGenerator<Buffer> {
  const missing = [...unanswered];
  const readers = answers.map((answer) => new FrameReader(answer));
  try {
    const sources = await openSources(own, readers, serialize, missing);
    const total = sources.reduce((sum, { remaining }) => sum + remaining, 0);
    let skipped = limit === undefined ? 0 : Math.max(0, total - limit);
    let slice: Buffer[] = [Buffer.from('{"data":[')];
    let handled = 0;
    let isFirst = true;
    for (let source = earliest(sources); source; source = earliest(sources)) {
      const { json } = source.head;
      if (skipped > 0) skipped--;
      else {
        slice.push(Buffer.from(isFirst ? '' : ','), json);
        isFirst = false;
      }
      handled += json.length;
      await advance(source, sources, missing);
      if (handled < SLICE_BYTES) continue;
      if (slice.length > 0) yield Buffer.concat(slice);
      slice = [];
      handled = 0;
      await nextTurn();
    }
    const end = missing.length === 0 ? '' : `,"unanswered":${JSON.stringify(missing.sort())}`;
    yield Buffer.concat([...slice, Buffer.from(`],"error":null${end}}`)]);
  } finally {
    for (const reader of readers) reader.close();
  }
}

async function openSources(
  own: readonly Interaction[],
  readers: readonly FrameReader[],
  serialize: Serialize,
  missing: string[],
): Promise<Source[]> {
  const sources: Source[] = [];
  const [first, ...others] = own;
  if (first) {
    const rest = others.values();
    const next = () => frameOf(rest.next().value ?? first, serialize);
    sources.push({ head: frameOf(first, serialize), remaining: own.length, replica: undefined, next });
  }
  await Promise.all(
    readers.map(async (reader) => {
      try {
        const remaining = await reader.count();
        if (remaining === 0) return;
        sources.push({ head: await reader.next(), remaining, replica: reader.replica, next: () => reader.next() });
      } catch {
        missing.push(reader.replica);
      }
    }),
  );
  return sources;
}

/** The source with the interaction that arrived first. */
function earliest(sources: readonly Source[]): Source | undefined {
  return sources.reduce<Source | undefined>(
    (found, source) => (found && found.head.epochMs <= source.head.epochMs ? found : source),
    undefined,
  );
}

/** Reads the next interaction of a source, which is removed at its end. */
async function advance(source: Source, sources: Source[], missing: string[]): Promise<void> {
  source.remaining--;
  try {
    if (source.remaining > 0) {
      source.head = await source.next();
      return;
    }
  } catch (error) {
    if (source.replica === undefined) throw error;
    missing.push(source.replica);
  }
  sources.splice(sources.indexOf(source), 1);
}
