import { describe, expect, it } from 'vitest';
import type { Check, CheckStatus } from './check.ts';
import { compare, isRegression } from './compare.ts';
import { clientPasses, type Scenario } from './scenario.ts';

const check = (id: string, status: CheckStatus): Check => ({ id, name: id, status, message: '' });
const scenario = (...checks: Check[]): Scenario => ({ name: 'one', unscored: undefined, checks });

/** The regressions, as `id status`, and whether the scenario is broken. */
function compareChecks(direct: readonly Check[], through: readonly Check[]) {
  const [pair] = compare([scenario(...direct)], [scenario(...through)]);
  return {
    broken: pair?.failed,
    worse: pair?.changed.filter(isRegression).map(({ id, through: status }) => `${id} ${status}`),
  };
}

describe('a scenario through the gateway', () => {
  it('is unchanged if every check has the same result, failures included', () => {
    const checks = [check('a', 'SUCCESS'), check('b', 'FAILURE'), check('c', 'WARNING')];
    expect(compareChecks(checks, checks)).toEqual({ broken: false, worse: [] });
  });

  it('has failed when a check fails that succeeds directly', () => {
    expect(compareChecks([check('a', 'SUCCESS')], [check('a', 'FAILURE')])).toEqual({
      broken: true,
      worse: ['a FAILURE'],
    });
  });

  it('is worse when a check warns, is skipped or is not reached', () => {
    const direct = [check('a', 'SUCCESS'), check('b', 'SUCCESS'), check('c', 'SUCCESS')];
    expect(compareChecks(direct, [check('a', 'WARNING'), check('b', 'SKIPPED')])).toEqual({
      broken: false,
      worse: ['a WARNING', 'b SKIPPED', 'c absent'],
    });
  });

  it('has the worst result of a repeated check', () => {
    const twice = [check('a', 'SUCCESS'), check('a', 'WARNING')];
    expect(compareChecks([check('a', 'SUCCESS'), check('a', 'SUCCESS')], twice).worse).toEqual(['a WARNING']);
  });

  it('is worse when a check fails that is not made directly', () => {
    expect(compareChecks([], [check('a', 'FAILURE')])).toEqual({ broken: true, worse: ['a FAILURE'] });
  });

  it('may differ where the protocol allows it', () => {
    expect(compareChecks([check('a', 'SUCCESS')], [check('a', 'INFO')])).toEqual({ broken: false, worse: [] });
  });

  it('has failed when the suite could not run it', () => {
    const [pair] = compare([scenario(check('a', 'SUCCESS'))], []);
    expect(pair).toMatchObject({ failed: true, changed: [{ id: 'a', through: 'absent' }] });
  });
});

describe('a client', () => {
  it('passes without failures and warnings, but not without checks', () => {
    expect(clientPasses(scenario(check('a', 'SUCCESS'), check('b', 'SKIPPED')))).toBe(true);
    expect(clientPasses(scenario(check('a', 'SUCCESS'), check('b', 'WARNING')))).toBe(false);
    expect(clientPasses(scenario(check('a', 'SKIPPED')))).toBe(false);
  });
});
