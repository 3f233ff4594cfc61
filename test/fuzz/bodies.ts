import { Buffer } from 'node:buffer';
import fc from 'fast-check';

/** The bytes of a request's body. */
export interface FuzzBody {
  readonly bytes: Buffer;
  /** Two readers may take it for different things, so that no answer follows from the schema. */
  readonly ambiguous: boolean;
}

/** Bytes that a body may have (decisions 8); the document says so where it describes status 413. */
export const BODY_LIMIT = 1024 * 1024;

/** The JSON text of a value. */
export function asJson(value: unknown): FuzzBody {
  const text = JSON.stringify(value);
  // Escapes of lone surrogates are no text that every reader can hold.
  return { bytes: Buffer.from(text), ambiguous: /\\ud[89a-f]/i.test(text) };
}

type Break = (text: string, at: number) => Buffer | string;

/** Ways in which a text stops being JSON, or JSON that fits. */
const BREAKS: readonly Break[] = [
  () => '',
  () => ' \r\n\t ',
  () => 'null',
  () => '[]',
  () => '"text"',
  () => '0',
  () => 'NaN',
  () => '{',
  () => '{"a"',
  () => '{"name":"\\u12"}',
  () => '{"name":"\\x41"}',
  () => "{'name':'a'}",
  () => '{"name":01}',
  () => '{"name":+1}',
  () => '{"name":.5}',
  () => '{"name":Infinity}',
  () => '// comment\n{}',
  () => '--boundary\r\nContent-Disposition: form-data; name="name"\r\n\r\na\r\n--boundary--\r\n',
  () => 'name=a&labels=b',
  () => '[{"__proto__":[]}]',
  () => '['.repeat(200_000),
  () => '{"a":'.repeat(100_000),
  () => '['.repeat(100_000) + ']'.repeat(100_000),
  (text) => `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)},${text.slice(1)}`,
  (text) => `[${text}]`,
  (text) => text + text,
  (text) => `${text}\u0000`,
  (text) => text.replace(/\}$/, ',}'),
  (text) => text.replace(':', ' '),
  (text) => text.replaceAll('"', "'"),
  (text) => text.replace('"', '"\n'),
  (text) => JSON.stringify(text),
  (text) => Buffer.from(text, 'utf16le'),
  (text, at) => text.slice(0, at % text.length),
  (text, at) => splice(text, at, [0xff]),
  (text, at) => splice(text, at, [0xc3, 0x28]),
  (text, at) => splice(text, at, [0xed, 0xa0, 0x80]),
  (text, at) => splice(text, at, [0xc0, 0x80]),
  (text, at) => splice(text, at, [0]),
  (text) => text.padEnd(BODY_LIMIT + 1),
  (text) => text.replace('{', `{"padding":"${'x'.repeat(BODY_LIMIT)}",`),
];

/** Texts of which it is open what they say, or whether a reader has to take them. */
const AMBIGUITIES: readonly Break[] = [
  (text) => `\ufeff${text}`,
  (text) => text.replace('{', '{"name":null,"labels":3,'),
  (text) => text.replace('{', '{"name":"first","n\\u0061me":"second",'),
  (text) => text.replace(/\}$/, ',"name":"last"}'),
  (text) => `{"a":${'['.repeat(255)}${']'.repeat(255)},${text.slice(1)}`,
];

/** Bodies around a JSON text: mostly no JSON any more. */
export function broken(values: fc.Arbitrary<unknown>): fc.Arbitrary<FuzzBody> {
  const breaks = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...BREAKS).map((change) => ({ change, ambiguous: false })) },
    { weight: 1, arbitrary: fc.constantFrom(...AMBIGUITIES).map((change) => ({ change, ambiguous: true })) },
    // Blanks around a text change nothing, up to the very limit.
    { weight: 1, arbitrary: fc.constant({ change: (text: string) => text.padEnd(BODY_LIMIT), ambiguous: false }) },
  );
  return fc.tuple(values, breaks, fc.nat()).map(([value, { change, ambiguous }, at]) => {
    const whole = asJson(value);
    return { bytes: Buffer.from(change(whole.bytes.toString(), at)), ambiguous: ambiguous || whole.ambiguous };
  });
}

function splice(text: string, at: number, bytes: readonly number[]): Buffer {
  const whole = Buffer.from(text);
  const where = at % (whole.length + 1);
  return Buffer.concat([whole.subarray(0, where), Buffer.from(bytes), whole.subarray(where)]);
}
