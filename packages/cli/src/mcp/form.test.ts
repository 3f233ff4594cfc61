import { expect, it } from 'vitest';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';
import { fillForm } from './form.ts';

it('checks lengths, but no pattern, which could take forever', async () => {
  const hostile = { type: 'string', minLength: 3, pattern: '^(a+)+$' } as const;
  const terminal = scriptedTerminal({ answers: ['x', 'xyz'] });
  expect(await fillForm({ type: 'object', properties: { a: hostile } }, terminal)).toEqual({ a: 'xyz' });
  expect(terminal.err()).toContain('must NOT have fewer than 3 characters');
});
