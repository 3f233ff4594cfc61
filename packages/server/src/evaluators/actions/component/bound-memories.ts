import { ByteReader } from './byte-reader.ts';
import { type CoreModule, type CoreNames, type Limits, type LimitsSection, walkCoreModule } from './core-module.ts';
import { limits } from './limits.ts';

/** A core module whose memories and tables cannot grow without end. */
export interface BoundedModule {
  readonly bytes: Uint8Array;
  /** How many pages of 64 KiB the memories of one instance of it may come to. */
  readonly pages: number;
}

/**
 * Gives every memory that the modules define a maximum, so that one instance of each of them has at most `pages` in
 * all, and every table one within `elements`. What is left beyond the minimums is shared out by them; who declares that
 * it wants less leaves the rest to others. Modules that need no change are returned as they are; in the others only
 * limits (and the size of their section) change. Further instances of a module are for the host to count.
 * Throws `ComponentRefusal` for what is no core module; minimums beyond the sum have been refused before.
 */
export function boundMemories(
  modules: readonly Uint8Array[],
  pages: number = limits.memoryPages,
  elements: number = limits.allTableElements,
): BoundedModule[] {
  const walked = modules.map((bytes) => ({ bytes, ...walkCoreModule(new ByteReader(bytes), anyNames) }));
  const memories = maximaOf(walked, 'memories', pages);
  const tables = maximaOf(walked, 'tables', elements);
  return walked.map((module) => ({
    bytes: rewritten(module.bytes, module, memories, tables),
    pages: sumOf(module.memories, memories),
  }));
}

/** Names were judged in the component; what jco adds itself (adapters between components) has names of its own. */
const anyNames: CoreNames = { imported: () => {}, exported: () => {} };

type Maxima = ReadonlyMap<Limits, number>;

/**
 * The maximum of every memory or table: its minimum, and of what is left of `budget` a share that is the larger the more
 * it begins with. An adapter's page beside an engine's memory is not to take half of it.
 */
function maximaOf(modules: readonly CoreModule[], what: 'memories' | 'tables', budget: number): Maxima {
  const items = modules.flatMap((module) => module[what]?.items ?? []);
  const room = items.map((item) => {
    const wanted = Math.max(0, (item.maximum ?? Number.POSITIVE_INFINITY) - item.minimum);
    const weight = item.minimum + 1;
    return { item, wanted, weight, part: wanted / weight };
  });
  // Who wants less than its part leaves the rest to those after it.
  room.sort((one, another) => (one.part < another.part ? -1 : 1));
  let weights = room.reduce((sum, { weight }) => sum + weight, 0);
  let left = Math.max(
    0,
    items.reduce((rest, item) => rest - item.minimum, budget),
  );
  const maxima = new Map<Limits, number>();
  for (const { item, wanted, weight } of room) {
    const share = Math.min(wanted, Math.floor((left * weight) / weights));
    maxima.set(item, item.minimum + share);
    left -= share;
    weights -= weight;
  }
  return maxima;
}

function sumOf(section: LimitsSection | undefined, maxima: Maxima): number {
  return (section?.items ?? []).reduce((sum, item) => sum + (maxima.get(item) ?? item.minimum), 0);
}

function rewritten(bytes: Uint8Array, { memories, tables }: CoreModule, ofMemories: Maxima, ofTables: Maxima) {
  const changes: { start: number; end: number; replacement: Uint8Array }[] = [];
  for (const [section, maxima] of [
    [memories, ofMemories],
    [tables, ofTables],
  ] as const) {
    if (!section?.items.some((item) => item.maximum !== maxima.get(item))) continue;
    changes.push({ start: section.start, end: section.end, replacement: withMaxima(bytes, section, maxima) });
  }
  changes.sort((one, another) => one.start - another.start);
  return splice(bytes, changes);
}

/** A section anew: what stands between limits (a count, types of elements) is taken over. */
function withMaxima(bytes: Uint8Array, section: LimitsSection, maxima: Maxima): Uint8Array {
  const contents = splice(
    bytes.subarray(0, section.end),
    section.items.map((item) => ({
      start: item.start,
      end: item.end,
      replacement: Uint8Array.from([0x01, ...leb128(item.minimum), ...leb128(maxima.get(item) ?? item.minimum)]),
    })),
  ).subarray(section.contents);
  return Uint8Array.from([
    ...bytes.subarray(section.start, section.start + 1),
    ...leb128(contents.length),
    ...contents,
  ]);
}

/** Bytes with some ranges replaced; the ranges are in order. The same object when there are none. */
function splice(
  bytes: Uint8Array,
  changes: readonly { start: number; end: number; replacement: Uint8Array }[],
): Uint8Array {
  if (changes.length === 0) return bytes;
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { start, end, replacement } of changes) {
    parts.push(bytes.subarray(at, start), replacement);
    at = end;
  }
  return Uint8Array.from(Buffer.concat([...parts, bytes.subarray(at)]));
}

/** An unsigned LEB128. */
function leb128(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) + 0x80, ...leb128(Math.floor(value / 0x80))];
}
