import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

const here = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');

it.each(['my-action.ts', 'ctx.json'])('the documentation contains %s unchanged', async (name) => {
  expect(await here('../../../docs/actions.md')).toContain(`\n${await here(`../starter/${name}`)}\`\`\`\n`);
});
