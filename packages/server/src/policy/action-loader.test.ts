import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { ActionFiles, ActionLoader, type ActionResult } from './action-loader.ts';
import { type Action, ActionCompileError } from './sandbox/action.ts';

const MIB = 1024 * 1024;

let folder: string;
let compiled: string[];
let loader: ActionLoader;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-loader-'));
  compiled = [];
  loader = new ActionLoader(new ActionFiles({ baseFolder: folder, actionsPath: undefined }), { compile });
  return () => rm(folder, { recursive: true });
});

/** Creates an action of the size in the file, in MiB. */
async function compile(component: Uint8Array, checksum = ''): Promise<Action> {
  const text = Buffer.from(component).toString();
  compiled.push(text);
  const mebibytes = Number.parseInt(text, 10);
  if (Number.isNaN(mebibytes)) throw new ActionCompileError('is not a component');
  return { checksum, glue: '', modules: [{ name: 'core', bytes: Buffer.alloc(mebibytes * MIB), pages: 1 }] };
}

/** Files that are read after a call of `proceed`. */
class BlockedFiles extends ActionFiles {
  readonly requested: string[] = [];
  readonly #blocked: (() => void)[] = [];

  override async read(path: string): Promise<Buffer> {
    this.requested.push(path);
    await new Promise<void>((resolve) => this.#blocked.push(resolve));
    return super.read(path);
  }

  proceed(): void {
    this.#blocked.shift()?.();
  }
}

async function load(files: Readonly<Record<string, string>>, known: readonly Action[] = []) {
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  return loader.load(Object.keys(files), { known });
}

it('compiles each content once, regardless of its name and however often it is loaded', async () => {
  await load({ a: '1', b: '1', c: '2' });
  await load({ c: '2', d: '1' });
  // Files are read concurrently.
  expect(compiled.toSorted()).toEqual(['1', '2']);
  // A file name does not identify its content.
  await load({ a: '3' });
  expect(compiled.slice(2)).toEqual(['3']);
});

it('reads four files concurrently, and each file once', async () => {
  const paths = ['a', 'b', 'c', 'd', 'e'];
  for (const path of paths) await writeFile(join(folder, path), '1');
  const files = new BlockedFiles({ baseFolder: folder, actionsPath: undefined });
  const loading = new ActionLoader(files, { compile }).load([...paths, 'a', 'e'], { known: [] });
  expect(files.requested).toEqual(['a', 'b', 'c', 'd']);
  files.proceed();
  await expect.poll(() => files.requested).toEqual(paths);
  for (const _path of paths) files.proceed();
  expect([...(await loading).keys()].toSorted()).toEqual(paths);
  expect(files.requested).toEqual(paths);
});

it('caches the 64 MiB that were loaded last', async () => {
  for (const [path, text] of Object.entries({ a: '30', b: '20', c: '10', again: '30', d: '5' }))
    await load({ [path]: text });
  expect(compiled).toEqual(['30', '20', '10', '5']);
  await load({ a: '30', c: '10', d: '5' });
  expect(compiled).toHaveLength(4);
  await load({ b: '20' });
  expect(compiled).toHaveLength(5);
});

it('does not compile active actions again, however large they are', async () => {
  const files = { a: '30', b: '29', c: '28' };
  const actions = actionsOf(await load(files));
  const again = actionsOf(await load(files, actions));
  expect(compiled).toHaveLength(3);
  expect(new Set([...actions, ...again]).size).toBe(3);
});

function actionsOf(loaded: ReadonlyMap<string, ActionResult>): Action[] {
  return [...loaded.values()].flatMap((each) => ('action' in each ? [each.action] : []));
}

it('compiles again what has failed to compile', async () => {
  const problem = { problem: 'is not a component' };
  expect(Object.fromEntries(await load({ a: 'x', b: 'x' }))).toEqual({ a: problem, b: problem });
  expect(compiled).toEqual(['x']);
  await load({ a: 'x' });
  expect(compiled).toEqual(['x', 'x']);
});
