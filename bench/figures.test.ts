import { expect, it } from 'vitest';
import { costRatio, costSpread } from './figures.ts';

it('the lower quartile of costs lies between two of them, and that of one is itself', () => {
  expect(costSpread([40, 10, 30, 20])).toEqual({ lowerQuartile: 17.5, least: 10, greatest: 40 });
  expect(costSpread([3, 1, 5, 4, 2]).lowerQuartile).toBe(2);
  expect(costSpread([7])).toEqual({ lowerQuartile: 7, least: 7, greatest: 7 });
});

it('a ratio of costs counts only the rounds in which both were measured', () => {
  expect(costRatio([10], [5, 1, 1])).toEqual({ figure: 2, least: 2, greatest: 2 });
  expect(costRatio([8, 12, 90], [4, 4])).toEqual({ figure: 9 / 4, least: 2, greatest: 3 });
  expect(costRatio([], [4]).figure).toBeNaN();
});
