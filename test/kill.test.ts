import { expect, it } from 'vitest';
import { killRounds } from './campaign/kill.ts';

it('a gateway killed under 200 concurrent writes has every acknowledged write after the restart', async () => {
  const rounds = await killRounds(2, 0);
  expect(rounds.flatMap(({ failures }) => failures)).toEqual([]);
  expect(rounds.reduce((sum, { acknowledged }) => sum + acknowledged, 0)).toBeGreaterThan(0);
}, 120_000);
