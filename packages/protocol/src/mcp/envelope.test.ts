import { expect, test } from 'vitest';
import { randomDocument, seeded } from '../json/fixtures/documents.ts';
import { type Envelope, scanEnvelope, scanText, toTextPositions } from './envelope.ts';

const MAX_MEMBERS = 100;

/** What the scanner of bytes finds, with positions in the text. */
function byBytes(text: string): Envelope {
  const body = Buffer.from(text);
  const envelope = scanEnvelope([body], MAX_MEMBERS);
  if (typeof envelope === 'number') throw new Error(`invalid at byte ${envelope}: ${text}`);
  if (!envelope.isAscii) toTextPositions(envelope.root, body);
  return { ...envelope, isAscii: true };
}

test('3,000 generated objects have the same structure in the text as in its bytes', () => {
  for (let seed = 1; seed <= 3_000; seed++) {
    const random = seeded(seed);
    const [params, meta, other] = [randomDocument(random), randomDocument(random), randomDocument(random)];
    const members = [
      `"id" : ${JSON.stringify(`é${seed}`)}`,
      `"params":{ "_meta":${meta} ,"arguments":${params},"n\\u0061me":${other},"_meta":{} }`,
      `"x":${other}`,
      `"params":${params}`,
    ];
    const text = ` {${members.slice(seed % 4).join(', ')}}\n`;
    expect(scanText(text, MAX_MEMBERS), `seed ${seed}: ${text}`).toEqual(byBytes(text));
  }
});

test('the nesting counts all arrays and objects', () => {
  for (const text of ['{}', '{"params":{}}', '{"params":{"_meta":{"a":[[{}]]}}}', '{"a":[[[]]],"params":{"b":{}}}']) {
    expect(scanText(text, MAX_MEMBERS)?.depth).toBe(byBytes(text).depth);
  }
});

test('a text with too many members in one object is left to the scanner of bytes', () => {
  const many = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":0`).join()}}`;
  for (const wrap of [(of: string) => of, (of: string) => `{"params":${of}}`]) {
    expect(scanText(wrap(many(MAX_MEMBERS)), MAX_MEMBERS)).toBeDefined();
    expect(scanText(wrap(many(MAX_MEMBERS + 1)), MAX_MEMBERS)).toBeUndefined();
  }
});
