import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { findCommand } from '../packages/cli/src/command-words.ts';
import { createProgram } from '../packages/cli/src/program.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { readExamples } from './fixtures/documented-commands.ts';

// The commands of the documentation exist. `documented-commands.slow.test.ts` runs them.

const DOCS = fileURLToPath(new URL('../docs', import.meta.url));
const PAGES = [join(DOCS, '../README.md'), ...pages()];

function pages(): string[] {
  const names = readdirSync(DOCS, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith('.md')).map((name) => join(DOCS, name));
}

type Program = Awaited<ReturnType<typeof createProgram>>;

/** The word of a line that is no command, with those before it; undefined if all are. */
function unknownCommand(program: Program, line: string): string | undefined {
  const words = /^[a-z][a-z -]*/.exec(line)?.[0].trim().split(' ') ?? [];
  let command = program;
  for (const [at, word] of words.entries()) {
    if (command.commands.length === 0 || command.registeredArguments.length > 0) return undefined;
    const found = findCommand(command, word);
    if (!found) return words.slice(0, at + 1).join(' ');
    command = found;
  }
  return undefined;
}

it('the commands of the documentation exist', async () => {
  const unused = () => {
    throw new Error('no command runs');
  };
  const context = { terminal: scriptedTerminal(), options: unused, connect: unused, output: unused };
  const program = await createProgram(context);
  expect(unknownCommand(program, 'rescue recover --data-folder x')).toBe('rescue');
  expect(unknownCommand(program, 'tools lst')).toBe('tools lst');
  const examples = (await Promise.all(PAGES.map((page) => readExamples(page, page.slice(DOCS.length + 1))))).flat();
  const lines = examples.flatMap(({ at, line }) =>
    [...line.matchAll(/(?<![\w./-])sluice ((?!-)\S.*?)(?=[|)<>]|$)/g)].map(([, words = '']) => ({ at, words })),
  );
  expect(lines.length).toBeGreaterThan(100);
  expect(lines.filter(({ words }) => unknownCommand(program, words) !== undefined)).toEqual([]);
});
