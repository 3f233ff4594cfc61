import { CompiledPolicy, type PolicyJson } from '@sluice/cedar/policy';
import { afterAll, expect, it } from 'vitest';
import { PolicyParser } from './policy-parser.ts';

const parser = new PolicyParser();
afterAll(() => parser.close());

const PERMIT = 'permit(principal, action, resource)';
const parse = (...texts: readonly string[]) => parser.respond(texts.map((text) => ({ kind: 'parse', text })));

it('policies are parsed to a form that can be compiled', async () => {
  const [response] = await parse(
    `@id("a") ${PERMIT} when { context.input.amount <= 500 && principal has name.first };`,
  );
  expect(response?.kind).toBe('parsed');
  const { policy } = response as { policy: PolicyJson };
  expect(policy.annotations).toEqual({ id: 'a' });
  expect(new CompiledPolicy('a', policy).conjuncts).toHaveLength(2);
});

it('what is wrong with a policy is said with its place', async () => {
  const [response] = await parse(`${PERMIT} when { "\u00e9" == 1 1 };`);
  expect(response).toEqual({
    kind: 'problems',
    problems: [{ policy: '', message: expect.stringContaining('unexpected token `1`'), at: 53 }],
  });
});

it('a policy that breaks the parser is the only one without a response', async () => {
  const broken = `${PERMIT} when { ${Array.from({ length: 4_000 }, () => 'true').join(' || ')} };`;
  const responses = await parse(`${PERMIT};`, broken, `${PERMIT};`, `${PERMIT} when { true };`);
  expect(responses.map((response) => response?.kind)).toEqual(['parsed', undefined, 'parsed', 'parsed']);
});

it('policies are validated against a schema', async () => {
  const schema = {
    Sluice: {
      entityTypes: { User: {}, Tool: {} },
      actions: {
        transfer: {
          appliesTo: {
            principalTypes: ['User'],
            resourceTypes: ['Tool'],
            context: { type: 'Record', attributes: { amount: { type: 'Long' } } },
          },
        },
      },
    },
  };
  const policyOf = (condition: string) =>
    `permit(principal is Sluice::User, action == Sluice::Action::"transfer", resource) when { ${condition} };`;
  const policies = {
    good: policyOf('context.amount <= 500'),
    bad: policyOf('context.amuont <= 500'),
    never: policyOf('false'),
  };
  const [response] = await parser.respond([{ kind: 'validate', schema, policies }]);
  const { problems } = response as { problems: { policy: string; isWarning?: true }[] };
  expect(problems.map(({ policy, isWarning }) => [policy, isWarning])).toEqual([
    ['bad', undefined],
    ['never', true],
  ]);
});

it('a request that does not end in time has no response', async () => {
  const impatient = new PolicyParser({ requestMs: 0 });
  expect(await impatient.respond([{ kind: 'parse', text: `${PERMIT};` }])).toEqual([undefined]);
});

it('after close, nothing is parsed', async () => {
  const closed = new PolicyParser();
  await closed.close();
  expect(await closed.respond([{ kind: 'parse', text: `${PERMIT};` }])).toEqual([undefined]);
});
