import { expect, test } from 'vitest';
import { ifMatchOf } from '../../management/entity-tag.ts';
import { evaluatorDefinition } from '../../policy/fixtures/evaluator-definition.ts';
import { OperationError } from '../operation-error.ts';
import {
  activeRevision,
  addActive,
  addRejected,
  NO_REVISIONS,
  type RevisionInput,
  type Revisions,
  serializeContent,
} from './revisions.ts';

function input(name: string, more: Partial<RevisionInput> = {}): RevisionInput {
  return {
    content: serializeContent([evaluatorDefinition(name)]),
    origin: 'api',
    actor: undefined,
    at: '2026-01-02T03:04:05.678Z',
    ...more,
  };
}

function ids({ list }: Revisions): number[] {
  return list.map(({ id }) => id);
}

test('a revision has its content, actor, time and skipped evaluators', () => {
  const revisions = addActive(NO_REVISIONS, input('a', { actor: 'ann' }), ['a']);
  expect(revisions).toEqual({
    list: [
      {
        id: 1,
        created_at: '2026-01-02T03:04:05.678Z',
        activated_at: '2026-01-02T03:04:05.678Z',
        status: 'active',
        checksum: expect.stringMatching(/^[0-9a-f]{16}$/),
        origin: 'api',
        actor: 'ann',
        contentJson: JSON.stringify([evaluatorDefinition('a')]),
        skipped: ['a'],
      },
    ],
    activeId: 1,
    nextId: 2,
  });
  expect(NO_REVISIONS.list).toEqual([]);
});

test('the next revision supersedes it; a rejected one does not', () => {
  const first = addActive(NO_REVISIONS, input('a'), []);
  const rejected = addRejected(first, input('b'), 'invalid');
  expect(rejected.list).toMatchObject([
    { id: 1, status: 'active' },
    { id: 2, status: 'rejected', failure_reason: 'invalid', skipped: [] },
  ]);
  expect(rejected.list[1]).not.toHaveProperty('activated_at');
  expect(activeRevision(rejected)?.id).toBe(1);
  const second = addActive(rejected, input('c'), []);
  expect(second.list.map(({ status }) => status)).toEqual(['superseded', 'rejected', 'active']);
  expect(activeRevision(second)?.id).toBe(3);
});

test('equal evaluators have equal checksums, regardless of the order of members; different ones do not', () => {
  const { name, ...rest } = evaluatorDefinition('a');
  const [first, same, order, other] = [
    [evaluatorDefinition('a'), evaluatorDefinition('b')],
    [{ ...rest, name }, evaluatorDefinition('b')],
    [evaluatorDefinition('b'), evaluatorDefinition('a')],
    [evaluatorDefinition('a'), evaluatorDefinition('c')],
  ].map((evaluators) => serializeContent(evaluators).checksum);
  expect(same).toBe(first);
  expect(new Set([first, order, other]).size).toBe(3);
});

test('numbers that a double cannot represent are compared by notation', () => {
  const withMaximum = (maximum: string) => {
    const one = evaluatorDefinition('a');
    const schema = { properties: { n: { maximum: JSON.rawJSON(maximum) } } };
    const evaluators = [{ ...one, llm: { ...one.llm, result_schema: schema } }];
    return serializeContent(evaluators).checksum;
  };
  expect(withMaximum('9007199254740993')).toBe(withMaximum('9007199254740993'));
  expect(withMaximum('9007199254740993')).not.toBe(withMaximum('9007199254740992'));
});

test('the checksum is that of the canonical JSON', () => {
  // printf '[]' | sha256sum
  expect(serializeContent([]).checksum).toBe('4f53cda18c2baa0c');
});

test('at most 50 are stored; the oldest are removed first', () => {
  let revisions = NO_REVISIONS;
  for (let count = 0; count < 53; count++) revisions = addActive(revisions, input('a'), []);
  expect(ids(revisions)).toEqual(Array.from({ length: 50 }, (_, index) => index + 4));
  expect(revisions.nextId).toBe(54);
});

test('the active revision and the latest startup revision remain, however many are rejected later', () => {
  let revisions = addActive(NO_REVISIONS, input('old', { origin: 'startup' }), []);
  revisions = addActive(revisions, input('newer', { origin: 'startup' }), []);
  revisions = addActive(revisions, input('active'), []);
  for (let count = 0; count < 100; count++) revisions = addRejected(revisions, input('b'), 'invalid');
  expect(ids(revisions)).toEqual([2, 3, ...Array.from({ length: 48 }, (_, index) => index + 56)]);
  expect(activeRevision(revisions)?.id).toBe(3);
});

/** A revision of this size. */
function large(mebibytes: number, more: Partial<RevisionInput> = {}): RevisionInput {
  const one = evaluatorDefinition('a');
  const llm = { ...one.llm, prompt: 'p'.repeat(mebibytes * 1024 * 1024) };
  return input('', { content: serializeContent([{ ...one, llm }]), ...more });
}

test('at most 16 MiB are stored; the oldest are removed first', () => {
  let revisions = addActive(NO_REVISIONS, input('small'), []);
  for (let count = 0; count < 15; count++) revisions = addRejected(revisions, large(1), 'invalid');
  expect(ids(revisions)).toHaveLength(16);
  revisions = addActive(revisions, large(1), []);
  expect(ids(revisions)).toEqual(Array.from({ length: 15 }, (_, index) => index + 3));
  expect(ids(addRejected(revisions, large(4), 'invalid'))).toEqual([...ids(revisions).slice(4), 18]);
});

test('the UTF-8 bytes of reasons and skipped names count, too', () => {
  const reason = '€'.repeat(3 * 1024 * 1024);
  expect(ids(addRejected(addRejected(NO_REVISIONS, input('a'), reason), input('a'), reason))).toEqual([2]);
  expect(ids(addActive(addActive(NO_REVISIONS, input('a'), [reason]), input('a'), [reason]))).toEqual([2]);
});

test('the active revision and the latest startup revision remain, however large they are', () => {
  let revisions = addActive(NO_REVISIONS, large(9, { origin: 'startup' }), []);
  revisions = addActive(revisions, large(20), []);
  expect(ids(revisions)).toEqual([1, 2]);
  for (let count = 0; count < 3; count++) revisions = addRejected(revisions, large(1), 'invalid');
  expect(ids(revisions)).toEqual([1, 2]);
  expect(activeRevision(revisions)?.id).toBe(2);
  expect(ids(addActive(revisions, input('small'), []))).toEqual([1, 6]);
});

test.each([
  ['*', '*'],
  [' * ', '*'],
  ['"1"', [1]],
  ['"0"', [0]],
  [' "1" ,, "22"\t,', [1, 22]],
  // No revision has such a tag, and a weak one matches nothing.
  ['"01", "x", "", "1,2", "-1", W/"1", "9999999999999999"', []],
])('If-Match %j is parsed to %j', (header, named) => {
  expect(parsed(header)).toEqual(named);
});

test.each(['', ' ', ',', '1', '"1', '1"', '"1" "2"', '"1", 2', '*, "1"', '"1", *', 'w/"1"', 'W/1', '"a b"', "'1'"])(
  'If-Match %j is invalid',
  (header) => {
    expect(parsed(header)).toBeUndefined();
  },
);

test('a long If-Match is parsed quickly', () => {
  const started = performance.now();
  for (const part of [' ', ',', ' ,', '"', '",', 'W/']) {
    for (const end of ['', 'x']) parsed(part.repeat(16_384 / part.length) + end);
  }
  expect(performance.now() - started).toBeLessThan(1_000);
});

/** Undefined for an invalid header. */
function parsed(header: string): unknown {
  try {
    return ifMatchOf(header);
  } catch (error) {
    expect(error).toBeInstanceOf(OperationError);
    return undefined;
  }
}
