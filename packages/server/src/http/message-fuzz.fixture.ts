/** Returns a function that returns integers below its argument. Seeded, so that a failure can be reproduced (mulberry32). */
export function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** See {@link random}. */
export type Random = ReturnType<typeof random>;
/** Returns one of the choices. */
export const oneOf = <T>(next: Random, ...choices: readonly T[]): T => choices[next(choices.length)] as T;

/**
 * Returns the message with one to three mutations that a hostile or broken peer might make; `starts` are beginnings of other
 * messages.
 */
export function mutated(next: Random, valid: string, starts: readonly string[]): string {
  let text = valid;
  for (let times = 1 + next(3); times > 0; times--) {
    // Mostly near structural characters: line ends, colons, digits.
    let at = next(text.length + 1);
    if (next(2) === 0) {
      const near = text.slice(at).search(/[\r\n:;]|\d/);
      if (near >= 0) at += near;
    }
    const piece = oneOf(
      next,
      ...['\r', '\n', '\r\n', '\r\n\r\n', '\0', ' ', '\t', ':', ';', ',', '"', '\\', '=', '+', '-', '0', '1', 'f', 'g'],
      ...['\x7f', '\x80', '\x0b', '\x0c', '0x', '\r\n ', '0\r\n\r\n', ...starts],
      ...['Content-Length: 3\r\n', '\r\nContent-Length: 0', 'Transfer-Encoding: chunked\r\n', 'chunked', ', chunked'],
      ...[
        '\r\nTransfer-Encoding: identity',
        '\r\nTransfer-Encoding : chunked',
        'Connection: upgrade\r\nUpgrade: x\r\n',
      ],
    );
    const removed = oneOf(next, 0, 0, 1, 1, 2, 5);
    text = text.slice(0, at) + oneOf(next, piece, piece, '') + text.slice(at + removed);
  }
  return text;
}

/** Cuts bytes in pieces of up to 30 bytes. */
export function cutAtRandom(next: Random, bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + next(30);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}
