import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateGuestTypes } from '@bytecodealliance/jco-transpile';
import { afterAll, beforeAll, expect, it } from 'vitest';

const WIT = fileURLToPath(new URL('../wit/evaluator.wit', import.meta.url));
const TYPES = fileURLToPath(new URL('../types/evaluator.d.ts', import.meta.url));
const TSC = fileURLToPath(new URL('../../../node_modules/.bin/tsc', import.meta.url));
const INTERFACES = ['registry', 'conversation', 'response', 'validation', 'log'];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-test-types-'));
  const options = {
    strict: true,
    noEmit: true,
    lib: ['es2024'],
    module: 'esnext',
    moduleResolution: 'bundler',
    types: [],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts'] }));
});
afterAll(() => rm(folder, { recursive: true }));

/** The compiler's messages for these files. */
async function compiled(files: Readonly<Record<string, string>>): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const { stdout, error } = spawnSync(TSC, ['--pretty', 'false'], { cwd: folder, encoding: 'utf8' });
  expect(error).toBeUndefined();
  for (const name of Object.keys(files)) await rm(join(folder, name));
  return stdout;
}

/** The declarations that a tool generates from the WIT, under its own names. */
async function typesOfWit(wit: string): Promise<string> {
  const witPath = join(folder, 'evaluator.wit');
  await writeFile(witPath, wit);
  const files = await generateGuestTypes(witPath, { worldName: 'evaluator-action', outDir: 'types' });
  const texts = Object.entries(files)
    .filter(([name]) => name.includes('interfaces/'))
    .map(([, bytes]) => Buffer.from(bytes).toString());
  return texts
    .join('\n')
    .replace(/^\/\/\/.*$/gm, '')
    .replaceAll('service:evaluator/', 'wit:evaluator/');
}

/** Whether two interfaces have the same functions, with the same arguments and results. */
const COMPARISON = `
type Same<A, B> = [A, B] extends [B, A] ? true : never;
${INTERFACES.map(
  (name, at) => `
const names${at}: Same<keyof typeof import('service:evaluator/${name}'), keyof typeof import('wit:evaluator/${name}')> = true;
const interface${at}: Same<typeof import('service:evaluator/${name}'), typeof import('wit:evaluator/${name}')> = true;`,
).join('')}
${['EvaluationContext', 'ToolEntry', 'Message']
  .map(
    (name) => `
const keys${name}: Same<
  keyof import('service:evaluator/types').${name},
  keyof import('wit:evaluator/types').${name}
> = true;
const record${name}: Same<import('service:evaluator/types').${name}, import('wit:evaluator/types').${name}> = true;`,
  )
  .join('')}
export {};
`;

it('match the WIT exactly', async () => {
  const wit = await readFile(WIT, 'utf8');
  // Authors may pass lists that are read-only, which the tool does not say.
  const committed = (await readFile(TYPES, 'utf8')).replaceAll('readonly ', '');
  expect(
    await compiled({ 'ours.d.ts': committed, 'wit.d.ts': await typesOfWit(wit), 'comparison.ts': COMPARISON }),
  ).toBe('');

  for (const [from, to] of [
    ['get-tool: func(name: string)', 'get-tool: func(name: u32)'],
    ['tool-name: option<string>', 'tool-name: string'],
    ['set-metadata: func', 'set-label: func'],
    ['-> list<message>', '-> list<string>'],
  ] as const) {
    expect(wit).toContain(from);
    const changed = await typesOfWit(wit.replace(from, to));
    const drift = await compiled({ 'ours.d.ts': committed, 'wit.d.ts': changed, 'comparison.ts': COMPARISON });
    expect(drift, from).toMatch(/^comparison\.ts/);
  }
}, 60_000);

it('accept valid actions, and reject others', async () => {
  const committed = await readFile(TYPES, 'utf8');
  const action = `
import { getHistory, type Message } from 'service:evaluator/conversation';
import * as log from 'service:evaluator/log';
import { copyToolToNamespace, getTool, listTools, listToolsInNamespace } from 'service:evaluator/registry';
import { block, filterTools, setMetadata } from 'service:evaluator/response';
import type { EvaluationContext, ToolEntry } from 'service:evaluator/types';
import { verifyLlmResult } from 'service:evaluator/validation';

export function evaluate(ctx: EvaluationContext): void {
  const messages: Message[] = ctx.conversationId === undefined ? [] : getHistory(ctx.conversationId);
  const tools: ToolEntry[] = [...listTools(), ...listToolsInNamespace(ctx.namespace)];
  const type: string | undefined = getTool('x')?.toolType;
  for (const [name, value] of ctx.arguments) log.info(name + value);
  console.log(messages, tools, type, copyToolToNamespace('a', 'b'), verifyLlmResult(ctx.llmResult));
  setMetadata('k', 'v');
  filterTools(['a'] as const);
  block('no');
}
`;
  expect(await compiled({ 'evaluator.d.ts': committed, 'action.ts': action })).toBe('');
  const wrong = action
    .replace("block('no')", 'block()')
    .replace('ctx.llmResult', 'ctx.llm_result')
    .replace("from 'service:evaluator/log'", "from 'service:evaluator/logs'");
  const output = await compiled({ 'evaluator.d.ts': committed, 'action.ts': wrong });
  expect(output.split('\n').filter((line) => line.startsWith('action.ts'))).toHaveLength(3);
}, 60_000);
