import fc from 'fast-check';

/** Positions at which bytes are split into chunks. */
export const splitPositions = fc.array(fc.nat(), { maxLength: 12 });

/** Calls back with the chunks of the bytes, split at these positions. */
export function deliverChunks(bytes: Buffer, positions: readonly number[], onChunk: (chunk: Buffer) => void): void {
  const ends = [...positions.map((position) => position % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let start = 0;
  for (const end of ends) {
    onChunk(bytes.subarray(start, end));
    start = end;
  }
}
