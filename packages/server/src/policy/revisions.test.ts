import { expect, test } from 'vitest';
import { definition } from './fixtures/definition.ts';
import {
  activeRevision,
  contentOf,
  NO_REVISIONS,
  type Revisions,
  type Submission,
  withActive,
  withRejected,
} from './revisions.ts';

function submission(name: string, more: Partial<Submission> = {}): Submission {
  return {
    content: contentOf([definition(name)]),
    origin: 'api',
    actor: undefined,
    at: '2026-01-02T03:04:05.678Z',
    ...more,
  };
}

function ids({ list }: Revisions): number[] {
  return list.map(({ id }) => id);
}

test('a revision says who submitted what, when, and what was left out', () => {
  const revisions = withActive(NO_REVISIONS, submission('a', { actor: 'ann' }), ['a']);
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
        evaluatorsJson: JSON.stringify([definition('a')]),
        skipped: ['a'],
      },
    ],
    activeId: 1,
    nextId: 2,
  });
  expect(NO_REVISIONS.list).toEqual([]);
});

test('the next one supersedes it; one that was rejected does not', () => {
  const first = withActive(NO_REVISIONS, submission('a'), []);
  const rejected = withRejected(first, submission('b'), 'because');
  expect(rejected.list).toMatchObject([
    { id: 1, status: 'active' },
    { id: 2, status: 'rejected', failure_reason: 'because', skipped: [] },
  ]);
  expect(rejected.list[1]).not.toHaveProperty('activated_at');
  expect(activeRevision(rejected)?.id).toBe(1);
  const second = withActive(rejected, submission('c'), []);
  expect(second.list.map(({ status }) => status)).toEqual(['superseded', 'rejected', 'active']);
  expect(activeRevision(second)?.id).toBe(3);
});

test('equal evaluators have equal checksums, whatever the order of members; others have others', () => {
  const { name, ...rest } = definition('a');
  const [first, same, order, other] = [
    [definition('a'), definition('b')],
    [{ ...rest, name }, definition('b')],
    [definition('b'), definition('a')],
    [definition('a'), definition('c')],
  ].map((evaluators) => contentOf(evaluators).checksum);
  expect(same).toBe(first);
  expect(new Set([first, order, other]).size).toBe(3);
});

test('numbers that a double cannot carry count by their spelling', () => {
  const withMaximum = (maximum: string) => {
    const one = definition('a');
    const schema = { properties: { n: { maximum: JSON.rawJSON(maximum) } } };
    const evaluators = [{ ...one, llm: { ...one.llm, result_schema: schema } }];
    return contentOf(evaluators).checksum;
  };
  expect(withMaximum('9007199254740993')).toBe(withMaximum('9007199254740993'));
  expect(withMaximum('9007199254740993')).not.toBe(withMaximum('9007199254740992'));
});

test('the checksum is that of the canonical JSON', () => {
  // printf '[]' | sha256sum
  expect(contentOf([]).checksum).toBe('4f53cda18c2baa0c');
});

test('50 are kept, the oldest going first', () => {
  let revisions = NO_REVISIONS;
  for (let count = 0; count < 53; count++) revisions = withActive(revisions, submission('a'), []);
  expect(ids(revisions)).toEqual(Array.from({ length: 50 }, (_, index) => index + 4));
  expect(revisions.nextId).toBe(54);
});

test('the active one is kept however many are rejected after it, and so is the newest of the configuration', () => {
  let revisions = withActive(NO_REVISIONS, submission('old', { origin: 'startup' }), []);
  revisions = withActive(revisions, submission('newer', { origin: 'startup' }), []);
  revisions = withActive(revisions, submission('active'), []);
  for (let count = 0; count < 100; count++) revisions = withRejected(revisions, submission('b'), 'because');
  expect(ids(revisions)).toEqual([2, 3, ...Array.from({ length: 48 }, (_, index) => index + 56)]);
  expect(activeRevision(revisions)?.id).toBe(3);
});

/** A submission of so many MiB. */
function large(mebibytes: number, more: Partial<Submission> = {}): Submission {
  const one = definition('a');
  const llm = { ...one.llm, prompt: 'p'.repeat(mebibytes * 1024 * 1024) };
  return submission('', { content: contentOf([{ ...one, llm }]), ...more });
}

test('16 MiB are kept, the oldest going first, as many as have to', () => {
  let revisions = withActive(NO_REVISIONS, submission('small'), []);
  for (let count = 0; count < 15; count++) revisions = withRejected(revisions, large(1), 'because');
  expect(ids(revisions)).toHaveLength(16);
  revisions = withActive(revisions, large(1), []);
  expect(ids(revisions)).toEqual(Array.from({ length: 15 }, (_, index) => index + 3));
  expect(ids(withRejected(revisions, large(4), 'because'))).toEqual([...ids(revisions).slice(4), 18]);
});

test('bytes of a reason and of names that were left out count too, by UTF-8', () => {
  const reason = '€'.repeat(3 * 1024 * 1024);
  expect(ids(withRejected(withRejected(NO_REVISIONS, submission('a'), reason), submission('a'), reason))).toEqual([2]);
  expect(ids(withActive(withActive(NO_REVISIONS, submission('a'), [reason]), submission('a'), [reason]))).toEqual([2]);
});

test('the active one is kept however large it and others are, and so is the newest of the configuration', () => {
  let revisions = withActive(NO_REVISIONS, large(9, { origin: 'startup' }), []);
  revisions = withActive(revisions, large(20), []);
  expect(ids(revisions)).toEqual([1, 2]);
  for (let count = 0; count < 3; count++) revisions = withRejected(revisions, large(1), 'because');
  expect(ids(revisions)).toEqual([1, 2]);
  expect(activeRevision(revisions)?.id).toBe(2);
  expect(ids(withActive(revisions, submission('small'), []))).toEqual([1, 6]);
});
