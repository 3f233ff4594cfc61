import { seeded } from '@sluice/protocol/json/fixtures/documents';
import { describe, expect, it } from 'vitest';
import { RandomCases } from './fixtures/random-cases.ts';
import { requestOf } from './fixtures/reference.ts';
import { CompiledPolicy, type ConstraintJson, type PolicyJson } from './policy.ts';
import { type KnownRequest, PolicySet } from './policy-set.ts';
import { ANYTHING, CedarRecord, Entity, Failure, type Result } from './values.ts';

const ALL: ConstraintJson = { op: 'All' };
const ANA = new Entity('User', 'ana', { ancestors: new Set([new Entity('Group', 'staff').key]) });
const TRANSFER = new Entity('Action', 'transfer', { ancestors: new Set([new Entity('Action', 'call').key]) });
const AMOUNT = { '.': { left: { '.': { left: { Var: 'context' }, attr: 'input' } }, attr: 'amount' } };

function policy(effect: PolicyJson['effect'], body?: unknown, scope: Partial<PolicyJson> = {}): PolicyJson {
  const conditions = body === undefined ? [] : [{ kind: 'when', body } as const];
  return { effect, principal: ALL, action: ALL, resource: ALL, conditions, ...scope };
}

function setOf(...policies: readonly PolicyJson[]): PolicySet {
  return new PolicySet(policies.map((json, at) => new CompiledPolicy(`p${at}`, json)));
}

function request(input: Result): KnownRequest {
  const context = CedarRecord.of(new Map([['input', input]]));
  return { principal: ANA, action: TRANSFER, resource: new Entity('Tool', 'x'), context, entities: new Map() };
}

function inputOf(members: Readonly<Record<string, Result>>): CedarRecord {
  return CedarRecord.of(new Map(Object.entries(members)));
}

const AT_MOST_500 = { '<=': { left: AMOUNT, right: { Value: 500 } } };
const OVER_500 = { '>': { left: AMOUNT, right: { Value: 500 } } };

function choice(one: boolean, other: boolean): unknown {
  const branches = [
    ['then', { Value: one }],
    ['else', { Value: other }],
  ] as const;
  return { 'if-then-else': { if: OVER_500, ...Object.fromEntries(branches) } };
}

describe('a decision', () => {
  it.each<[string, Result, boolean]>([
    ['a value that the permit names', 500, true],
    ['another value', 501, false],
    ['an integer beyond 2^53', 2n ** 62n, false],
    ['a negative one', -(2n ** 62n), true],
    ['a value of another type', '1', false],
    ['a value that cannot be said exactly', new Failure('not exact'), false],
  ])('on %s', (_what, amount, isAllowed) => {
    expect(setOf(policy('permit', AT_MOST_500)).decide(request(inputOf({ amount }))).isAllowed).toBe(isAllowed);
  });

  it('is a denial if a policy that forbids fails, and has its reason without values', () => {
    const set = setOf(policy('permit'), policy('forbid', OVER_500));
    expect(set.decide(request(inputOf({ amount: 1 }))).isAllowed).toBe(true);
    const decision = set.decide(request(inputOf({ amount: 'secret' })));
    expect(decision.isAllowed).toBe(false);
    expect(decision.failures.map(({ policy: { id }, failure }) => [id, failure.reason])).toEqual([
      ['p1', 'expected long, datetime or duration, got string'],
    ]);
  });

  it('has its policies in the order of the files, each once, whatever finds them', () => {
    const named = (id: string): ConstraintJson => ({
      op: 'in',
      entities: [
        { type: 'Action', id },
        { type: 'Action', id: 'call' },
      ],
    });
    const set = setOf(
      policy('permit', undefined, { principal: { op: 'in', entity: { type: 'Group', id: 'staff' } } }),
      policy('permit', undefined, { action: named('transfer') }),
      policy('permit'),
      policy('permit', undefined, { action: named('other') }),
      policy('permit', undefined, { principal: { op: '==', entity: { type: 'User', id: 'ben' } } }),
      policy('permit', undefined, { principal: { op: '==', entity: { type: 'User', id: 'ana' } } }),
    );
    const ids = set.decide(request(inputOf({}))).permits.map(({ id }) => id);
    expect(ids).toEqual(['p0', 'p1', 'p2', 'p3', 'p5']);
  });
});

describe('whether a request can be allowed', () => {
  const unknown = request(ANYTHING);
  const BOTH = { '&&': { left: AT_MOST_500, right: { Value: false } } };
  it.each<[string, boolean, readonly PolicyJson[]]>([
    ['without policies', false, []],
    ['a permit of any value', true, [policy('permit')]],
    ['a permit of some value', true, [policy('permit', AT_MOST_500)]],
    ['a permit of no value', false, [policy('permit', BOTH)]],
    [
      'a permit of no value, with the unknown on the right',
      false,
      [policy('permit', { '&&': { left: { Value: false }, right: AT_MOST_500 } })],
    ],
    ['a value that is forbidden', true, [policy('permit'), policy('forbid', OVER_500)]],
    ['everything is forbidden', false, [policy('permit', AT_MOST_500), policy('forbid')]],
    [
      'each value is forbidden',
      false,
      [policy('permit'), policy('forbid', { '||': { left: { Value: true }, right: OVER_500 } })],
    ],
    [
      'a forbid that always fails',
      false,
      [policy('permit'), policy('forbid', { '<': { left: { Value: 'a' }, right: { Value: 1 } } })],
    ],
    [
      'another action',
      false,
      [policy('permit', undefined, { action: { op: '==', entity: { type: 'Action', id: 'read' } } })],
    ],
    [
      'another type of the principal',
      false,
      [policy('permit', undefined, { principal: { op: 'is', entity_type: 'Robot' } })],
    ],
    ['a choice by something unknown', true, [policy('permit', choice(false, true))]],
    ['a choice that changes nothing', false, [policy('permit', choice(false, false))]],
    ['the opposite of the unknown', true, [policy('permit', { '!': { arg: OVER_500 } })]],
    [
      'the opposite of what must be',
      false,
      [policy('permit', { '!': { arg: { '||': { left: { Value: true }, right: OVER_500 } } } })],
    ],
    [
      'a record with it',
      true,
      [policy('permit', { '==': { left: { Record: { a: AMOUNT } }, right: { Record: { a: { Value: 1 } } } } })],
    ],
    ['a set with it', true, [policy('permit', { contains: { left: { Set: [AMOUNT] }, right: { Value: 1 } } })]],
    [
      'a record with it beside another member',
      false,
      [
        policy('permit', {
          '==': { left: { '.': { left: { Record: { a: AMOUNT, b: { Value: 1 } } }, attr: 'b' } }, right: { Value: 2 } },
        }),
      ],
    ],
  ])('%s: %s', (_what, canBeAllowed, policies) => {
    expect(setOf(...policies).canBeAllowed(unknown)).toBe(canBeAllowed);
  });

  it('is true for each request that is allowed, whatever is unknown of it', () => {
    const random = seeded(2);
    const cases = new RandomCases((limit) => Math.floor(random() * limit));
    const seen = { allowed: 0, impossible: 0 };
    for (let count = 0; count < 5_000; count++) {
      const next = cases.next();
      const set = new PolicySet(Object.entries(next.policies).map(([id, json]) => new CompiledPolicy(id, json)));
      const known = requestOf(next);
      const context = new Map<string, Result>();
      const { source } = known.context as CedarRecord;
      for (const name of source.names()) context.set(name, random() < 0.5 ? ANYTHING : (source.get(name) ?? ANYTHING));
      const canBeAllowed = set.canBeAllowed({ ...known, context: CedarRecord.of(context) });
      const { isAllowed } = set.decide(known);
      expect({ next, canBeAllowed: canBeAllowed || !isAllowed }).toEqual({ next, canBeAllowed: true });
      if (isAllowed) seen.allowed++;
      if (!canBeAllowed) seen.impossible++;
    }
    expect(seen.allowed).toBeGreaterThan(500);
    expect(seen.impossible).toBeGreaterThan(500);
  });
});
