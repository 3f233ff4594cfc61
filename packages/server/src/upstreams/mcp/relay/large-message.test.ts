import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { LargeMessage, removalEdits } from './large-message.ts';

function scanned(body: Buffer, splits: readonly number[] = []): LargeMessage {
  const scan = new LargeMessage();
  let from = 0;
  for (const at of [...splits.map((split) => split % (body.length + 1)), body.length].sort((a, b) => a - b)) {
    scan.write(body.subarray(from, at));
    from = at;
  }
  return scan;
}

/** The message with another id and these edits. */
function withId(message: LargeMessage, idText: string, edits?: Parameters<LargeMessage['cut']>[0]): string {
  const { before, after } = message.cut(edits);
  return Buffer.concat([...before, Buffer.from(idText), ...after]).toString();
}

/** Arrays and objects without their content. */
function emptied(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return [];
  return isJsonObject(value) ? {} : value;
}

type Pick = (value: JsonValue) => JsonValue;

/** The members with these keys. */
function picking(members: Readonly<Record<string, Pick>>): Pick {
  return (value) => {
    if (!isJsonObject(value)) return emptied(value);
    const entries = Object.entries(value).flatMap(([key, member]) => {
      const pick = Object.hasOwn(members, key) ? members[key] : undefined;
      return pick ? [[key, pick(member)] as const] : [];
    });
    return Object.fromEntries(entries);
  };
}

const listOf =
  (pick: Pick): Pick =>
  (value) =>
    Array.isArray(value) ? value.map(pick) : pick(value);
const elementsOf =
  (pick: Pick): Pick =>
  (value) =>
    Array.isArray(value) ? value.map(pick) : emptied(value);
const block = picking({ type: emptied, text: emptied, uri: emptied });
const linkBlock = picking({ type: emptied, uri: emptied });
const message = picking({ content: listOf(linkBlock) });
const response = picking({
  id: emptied,
  method: emptied,
  result: picking({
    isError: emptied,
    resultType: emptied,
    structuredContent: emptied,
    content: listOf(block),
    messages: elementsOf(message),
  }),
  error: picking({ code: emptied, message: emptied }),
});

const anything = fc.jsonValue({ maxDepth: 2 });
const blocks = fc.record(
  { type: fc.constantFrom('text', 'resource_link'), text: anything, uri: anything, other: anything },
  { requiredKeys: [] },
);
const content = fc.oneof(anything, blocks, fc.array(fc.oneof(anything, blocks), { maxLength: 4 }));
const results = fc.record(
  {
    isError: anything,
    content,
    structuredContent: anything,
    messages: fc.oneof(anything, fc.array(fc.record({ role: anything, content }, { requiredKeys: [] }))),
  },
  { requiredKeys: [] },
);
const responses = fc.record(
  {
    jsonrpc: fc.constant('2.0'),
    id: fc.oneof(fc.integer(), anything),
    result: fc.oneof(results, anything),
    error: fc.oneof(fc.record({ code: anything, message: anything, data: anything }, { requiredKeys: [] }), anything),
    other: anything,
  },
  { requiredKeys: [] },
);

describe('the scan of a large response', () => {
  it('stores exactly the members that telemetry and resource links need', () => {
    fc.assert(
      fc.property(responses, fc.constantFrom(0, 1), fc.array(fc.nat(), { maxLength: 8 }), (value, indent, splits) => {
        const text = JSON.stringify(value, null, indent);
        const scan = scanned(Buffer.from(text), splits);
        const parsed: JsonValue = JSON.parse(text);
        expect(JSON.stringify(scan.value)).toBe(JSON.stringify(response(parsed)));
      }),
      { numRuns: propertyRuns(3_000) },
    );
  });

  it('replaces the id, and adds a missing one', () => {
    fc.assert(
      fc.property(responses, fc.array(fc.nat(), { maxLength: 8 }), (value, splits) => {
        const text = JSON.stringify({ ...value, error: {} });
        const sent: JsonObject = JSON.parse(withId(scanned(Buffer.from(text), splits), '"other"'));
        expect(sent).toEqual({ ...JSON.parse(text), id: 'other' });
      }),
      { numRuns: propertyRuns(1_000) },
    );
  });

  it('removes members of the result, wherever they are', () => {
    const name = fc.constantFrom('structuredContent', 'resultType', 'content', 'x');
    const members = fc.array(fc.tuple(name, anything), { maxLength: 6 });
    const space = fc.constantFrom('', ' ', '\n\t');
    fc.assert(
      fc.property(members, space, fc.array(fc.nat(), { maxLength: 8 }), (entries, blank, splits) => {
        const result = entries.map(
          ([key, value]) => `${blank}"${key}"${blank}:${blank}${JSON.stringify(value)}${blank}`,
        );
        const body = Buffer.from(`{"id":1,"result":{${result.join(',')}${entries.length > 0 ? '' : blank}}}`);
        const message = scanned(body, splits);
        const edits = removalEdits(message.result?.members ?? [], 'structuredContent');
        const { structuredContent: _removed, ...rest } = JSON.parse(body.toString()).result;
        expect(JSON.parse(withId(message, '2', edits))).toEqual({ id: 2, result: rest });
        expect(message.result?.isEmpty).toBe(entries.length === 0);
      }),
      { numRuns: propertyRuns(3_000) },
    );
  });

  it('parses only what takes no longer than a few milliseconds', () => {
    const texts = [
      `["${'a'.repeat(1_000_000)}"]`,
      `[${'0,'.repeat(60_000)}0]`,
      '['.repeat(60_000) + ']'.repeat(60_000),
    ];
    expect(texts.map((text) => typeof scanned(Buffer.from(text)).parse() === 'object')).toEqual([true, false, false]);
  });

  it('stores the beginning of long texts, without a truncated character', () => {
    const texts = ['a'.repeat(100_000), `x${'é'.repeat(60_000)}`, '\u{1f600}'.repeat(30_000), '\n'.repeat(70_000)];
    const body = Buffer.from(
      JSON.stringify({ id: 1, result: { content: texts.map((text) => ({ type: 'text', text })) } }),
    );
    for (const splits of [[], [1_000, 65_000, 65_003, 300_000, 301_001]]) {
      const { value } = scanned(body, splits);
      const stored = isJsonObject(value) && isJsonObject(value.result) ? value.result.content : [];
      expect(stored).toHaveLength(texts.length);
      for (const [at, text] of texts.entries()) {
        const found: unknown = Object(Array.isArray(stored) ? stored[at] : undefined).text;
        expect(text.startsWith(String(found))).toBe(true);
        expect(Buffer.byteLength(String(found))).toBeGreaterThan(16 * 1024);
      }
    }
  });

  it('stores a bounded number of content blocks', () => {
    const list = Array.from({ length: 5_000 }, () => ({ type: 'text' }));
    const body = Buffer.from(JSON.stringify({ id: 1, result: { content: list, isError: true } }));
    expect(scanned(body).value).toEqual({ id: 1, result: { content: list.slice(0, 1_000), isError: true } });
  });

  it('has no value for text that is not JSON', () => {
    for (const text of ['{"id":1,"result":{}', '{"id":1,"result":{}}}', '{"id":1,"result":tru}']) {
      const body = Buffer.from(text);
      expect(scanned(body).value).toBeUndefined();
    }
  });

  it('is read up to its first 10,000 members, and those of its result', () => {
    const many = '"a":1,'.repeat(20_000);
    const first = scanned(
      Buffer.from(`{"id":7,"result":{"isError":true,${many}"resultType":"complete"},${many}"method":"x"}`),
    );
    expect(first.value).toEqual({ id: 7, result: { isError: true } });
    expect(first.result?.members).toBeUndefined();
    expect(withId(first, '"c"')).toContain('{"id":"c","result"');
    expect(scanned(Buffer.from(`{${many}"id":7,"result":{}}`)).value).toEqual({});
  });

  it('stores only the first texts of many blocks, and the URIs of all', () => {
    const block = `{"type":"text","text":"${'x'.repeat(10_000)}","uri":"u:a"}`;
    const { value } = scanned(Buffer.from(`{"id":1,"result":{"content":[${Array(200).fill(block).join(',')}]}}`));
    const blocks: readonly { text: string; uri: string }[] = Object(value).result.content;
    expect(blocks.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(300_000);
    expect(blocks.slice(0, 20).every(({ text }) => text.length === 10_000)).toBe(true);
    expect(blocks.every(({ uri }) => uri === 'u:a')).toBe(true);
  });
});
