import { expect, it } from 'vitest';
import { killRounds } from './campaign/kill.ts';

it('a gateway killed under 200 concurrent writes holds every acknowledged one when it is back', async () => {
  const rounds = await killRounds(3, 0);
  expect(rounds.flatMap(({ wrong }) => wrong)).toEqual([]);
  expect(rounds.reduce((sum, { acknowledged }) => sum + acknowledged, 0)).toBeGreaterThan(0);
}, 120_000);
