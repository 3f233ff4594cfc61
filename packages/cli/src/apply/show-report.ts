import type { JsonObject } from '@sluice/json/lossless';
import { explain } from '../connection/explain.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import type { Outcome } from './execute.ts';
import { stepJson } from './show-plan.ts';
import { subject } from './words.ts';

const DONE = { create: 'created', update: 'changed', park: 'changed', replace: 'replaced', delete: 'deleted' } as const;

/** A step that has had its turn, or will not have it, on a line for people. */
export function outcomeLine(outcome: Outcome, host: string, style: Style): string {
  const what = subject(outcome.step);
  switch (outcome.status) {
    case 'done': {
      const notes = outcome.notes.length === 0 ? '' : ` (${harmlessLine(outcome.notes.join('; '))})`;
      return `${style('green', DONE[outcome.step.action])} ${what}${notes}`;
    }
    case 'unchanged':
      return `${style('green', 'as it should be')} ${what}`;
    case 'failed':
      return `${style('red', 'failed')} ${what}: ${failureLine(outcome.error, host)}`;
    case 'not done':
      return `${style('yellow', 'not done')} ${what}`;
  }
}

/** Why a step failed, on one line. */
export function failureLine(error: unknown, host: string): string {
  const { message, notes } = explain(error, host);
  return harmlessLine([message, ...notes].join('; '));
}

/** The report for programs: `{changes: [{..., status, error?}]}`, the status of each being done, unchanged, failed or not done. */
export function reportJson(outcomes: readonly Outcome[], host: string): { changes: JsonObject[] } {
  return {
    changes: outcomes.map((outcome) => ({
      ...stepJson(outcome.step),
      status: outcome.status,
      ...(outcome.status === 'done' && { result: [...outcome.notes] }),
      ...(outcome.status === 'failed' && { error: failureLine(outcome.error, host) }),
    })),
  };
}
