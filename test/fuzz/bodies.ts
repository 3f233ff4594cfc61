import { Buffer } from 'node:buffer';
import fc from 'fast-check';

/** The bytes of a request's body. */
export interface FuzzBody {
  readonly bytes: Buffer;
  /** Parsers may read it differently, so that the schema determines no response. */
  readonly ambiguous: boolean;
}

const MIB = 1024 * 1024;
/** Maximum body sizes of operations that have another one than the rest. */
const LIMITS: ReadonlyMap<string, number> = new Map([
  ['applyState', 16 * MIB],
  ['replaceIdentity', 4 * MIB],
]);

/** Returns the maximum size of the body of an operation in bytes, as the document describes for status 413. */
export function bodyLimit(operation: string | undefined): number {
  return LIMITS.get(operation ?? '') ?? MIB;
}

/** The JSON text of a value. */
export function asJson(value: unknown): FuzzBody {
  const text = JSON.stringify(value);
  // Not every parser accepts escapes of lone surrogates.
  return { bytes: Buffer.from(text), ambiguous: /\\ud[89a-f]/i.test(text) };
}

type Corruption = (text: string, at: number) => Buffer | string;

/** Changes after which a text is not JSON, or does not match its schema. */
const CORRUPTIONS: readonly Corruption[] = [
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
  (text) => text.padEnd(MIB + 1),
  (text) => text.replace('{', `{"padding":"${'x'.repeat(MIB)}",`),
];

/** Changes after which the meaning or validity of a text depends on the parser. */
const AMBIGUITIES: readonly Corruption[] = [
  (text) => `\ufeff${text}`,
  (text) => text.replace('{', '{"name":null,"labels":3,'),
  (text) => text.replace('{', '{"name":"first","n\\u0061me":"second",'),
  (text) => text.replace(/\}$/, ',"name":"last"}'),
  (text) => `{"a":${'['.repeat(255)}${']'.repeat(255)},${text.slice(1)}`,
];

/** Corrupted JSON texts, most of them not JSON. */
export function malformed(values: fc.Arbitrary<unknown>): fc.Arbitrary<FuzzBody> {
  const corruptions = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...CORRUPTIONS).map((change) => ({ change, ambiguous: false })) },
    { weight: 1, arbitrary: fc.constantFrom(...AMBIGUITIES).map((change) => ({ change, ambiguous: true })) },
    // Whitespace around a text, up to the limit, changes nothing.
    { weight: 1, arbitrary: fc.constant({ change: (text: string) => text.padEnd(MIB), ambiguous: false }) },
  );
  return fc.tuple(values, corruptions, fc.nat()).map(([value, { change, ambiguous }, at]) => {
    const whole = asJson(value);
    return { bytes: Buffer.from(change(whole.bytes.toString(), at)), ambiguous: ambiguous || whole.ambiguous };
  });
}

function splice(text: string, at: number, bytes: readonly number[]): Buffer {
  const whole = Buffer.from(text);
  const where = at % (whole.length + 1);
  return Buffer.concat([whole.subarray(0, where), Buffer.from(bytes), whole.subarray(where)]);
}
