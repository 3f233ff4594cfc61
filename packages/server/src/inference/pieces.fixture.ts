import fc from 'fast-check';

/** Places at which bytes are cut: whatever comes, it may come in any pieces. */
export const cuts = fc.array(fc.nat(), { maxLength: 12 });

/** The bytes in pieces, cut at these places. */
export function givePieces(bytes: Buffer, places: readonly number[], give: (piece: Buffer) => void): void {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let start = 0;
  for (const end of ends) {
    give(bytes.subarray(start, end));
    start = end;
  }
}
