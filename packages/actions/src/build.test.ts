import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ActionBuildError, buildAction } from './build.ts';
import { bundle } from './bundle/bundle.ts';

const RESPONSE = 'service:evaluator/response';
const PASSES = 'export function evaluate() {}\n';

// Building takes a second of a whole core, of which other tests want their share.
vi.setConfig({ testTimeout: 120_000 });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-test-build-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

const path = (name: string) => join(folder, name);

async function write(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), text);
  }
}

/** What is wrong with an action, without the folder that it is in. */
async function problems(files: Readonly<Record<string, string>>, engine?: 'starlingmonkey'): Promise<string[]> {
  await write(files);
  try {
    await buildAction({ entry: path('a.ts'), engine });
  } catch (error) {
    if (!(error instanceof ActionBuildError)) throw error;
    return error.problems.map((problem) => problem.replaceAll(`${folder}/`, ''));
  }
  return [];
}

describe('what is wrong is told with its place', () => {
  it('a mistake of syntax, in the entry or in what it imports', async () => {
    expect(await problems({ 'a.ts': 'const a = 1;\nconst b: number = = 2;\n' })).toEqual([
      'a.ts:2:19: Unexpected token',
    ]);
    expect(await problems({ 'a.ts': `import './b.ts';\n${PASSES}`, 'b.ts': '\n  }' })).toEqual([
      'b.ts:2:3: Unexpected token',
    ]);
  });

  it('an entry that is not there, a folder, and one without evaluate', async () => {
    expect(await problems({})).toEqual(['a.ts: no such file']);
    await expect(buildAction({ entry: folder })).rejects.toThrow(
      `${folder}: it is a folder; name the file that exports evaluate`,
    );
    expect(await problems({ 'a.ts': 'export function Evaluate() {}' })).toEqual([
      'a.ts: there is no export "evaluate"; write: export function evaluate(ctx: EvaluationContext)',
    ]);
  });

  it('a function that the interface has not got', async () => {
    const text = `import { pass,\n  deny } from '${RESPONSE}';\nexport function evaluate() { deny('x'); pass(); }`;
    expect(await problems({ 'a.ts': text })).toEqual([
      `a.ts:2:3: ${RESPONSE} has no "deny"; it has pass, block, rejectMalformed, warn, filterTools, setMetadata`,
    ]);
  });

  it('all modules that cannot be imported, at once', async () => {
    const text = `import fs from 'node:fs';
import { pass } from 'service:evaluator/answers';
import { gone } from "./gone.ts";
import left from 'no-such-package';
import events from 'events';
export function evaluate() { pass(fs, gone, left, events); }`;
    expect((await problems({ 'a.ts': text })).sort()).toEqual([
      'a.ts:1:16: "node:fs" is part of Node.js, which is not there in an action',
      expect.stringMatching(
        /^a\.ts:2:22: there is no "service:evaluator\/answers"; there are service:evaluator\/registry, .*types$/,
      ),
      'a.ts:3:22: "./gone.ts" cannot be imported: there is no such file',
      'a.ts:4:18: "no-such-package" cannot be imported: it is not installed',
      'a.ts:5:20: "events" is part of Node.js, which is not there in an action',
    ]);
  });

  it.each([
    [
      'an asynchronous evaluate',
      'export async function evaluate() {}',
      /^evaluate must not be async: nothing runs any more once it has returned$/,
    ],
    ['an evaluate that is none', 'export const evaluate = 7;', /^the export "evaluate" must be a function$/],
    ['a top level that throws', `throw new Error('no settings'); ${PASSES}`, /^the top level .* failed: no settings/],
    [
      'a verdict at the top level',
      `import { pass } from '${RESPONSE}'; pass(); ${PASSES}`,
      /^service:evaluator\/response is called at the top level of a module; call it in evaluate$/,
    ],
  ])('%s', async (_, text, problem) => {
    const [first, ...others] = await problems({ 'a.ts': text });
    expect(first).toMatch(problem);
    expect(others).toEqual([]);
  });
});

it('puts in what is imported: files, JSON, and packages, also those called as parts of Node.js are', async () => {
  await write({
    'a.ts': `import { limit } from './settings.ts';
import words from './words.json';
import { shout } from 'shout';
import old from 'events';
export function evaluate(): void { console.log(limit, words, shout('x'), old.name); }`,
    'settings.ts': 'export const limit: number = 41 + 1;',
    'words.json': '["from-json"]',
    'node_modules/shout/package.json': '{"name":"shout","type":"module","exports":"./index.js"}',
    'node_modules/shout/index.js': `export const shout = (text) => text + 'from-module';
if (process.env.NODE_ENV !== 'production') throw new Error('for development');`,
    'node_modules/events/package.json': '{"name":"events","main":"./main.js"}',
    'node_modules/events/main.js': `exports.name = 'from-commonjs';`,
  });
  const source = await bundle(path('a.ts'));
  for (const part of ['from-json', 'from-module', 'from-commonjs']) expect(source).toContain(part);
  const imported = [...source.matchAll(/from "([^"]+)"/g)].map(([, name]) => name);
  expect(imported).toEqual(['service:evaluator/log']);
  // A component, not a core module.
  const component = await buildAction({ entry: path('a.ts') });
  expect([...component.subarray(0, 8)]).toEqual([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]);
  expect(component.length).toBeLessThan(1_500_000);
});

it('writes the component where it is told to, or leaves nothing', async () => {
  await write({ 'a.js': PASSES, 'folder.wasm/there.txt': '' });
  const [component] = await Promise.all([
    buildAction({ entry: path('a.js'), output: path('out.wasm') }),
    expect(buildAction({ entry: path('a.js'), output: path('folder.wasm') })).rejects.toThrow(/EISDIR/),
  ]);
  expect(Buffer.compare(await readFile(path('out.wasm')), component)).toBe(0);
  expect((await readdir(folder)).sort()).toEqual(['a.js', 'folder.wasm', 'out.wasm']);
});

it('leaves no temporary files, whether StarlingMonkey succeeds or fails', async () => {
  await mkdir(path('tmp'));
  vi.stubEnv('TMPDIR', path('tmp'));
  expect(await problems({ 'a.ts': PASSES }, 'starlingmonkey')).toEqual([]);
  expect(await readdir(path('tmp'))).toEqual([]);
  const failed = await problems({ 'a.ts': `throw new Error('no settings'); ${PASSES}` }, 'starlingmonkey');
  expect(failed).toEqual([expect.stringContaining('no settings')]);
  expect(await problems({ 'a.ts': 'export async function evaluate() {}' }, 'starlingmonkey')).toEqual([
    'evaluate must not be async: nothing runs any more once it has returned',
  ]);
  expect(await readdir(path('tmp'))).toEqual([]);
});

it('says how to get StarlingMonkey where it is not installed', async () => {
  await write({ 'a.js': PASSES });
  const script = `
import { registerHooks } from 'node:module';
registerHooks({ resolve(name, context, next) { return next(name.startsWith('@bytecodealliance/') ? 'not-there' : name, context); } });
const { buildAction } = await import(${JSON.stringify(new URL('./build.ts', import.meta.url).href)});
await buildAction({ entry: ${JSON.stringify(path('a.js'))}, engine: 'starlingmonkey' }).catch((error) => console.log(error.message));
`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(stdout).toMatch(
    /^the engine starlingmonkey needs the package @bytecodealliance\/componentize-js; install it: npm/,
  );
});
