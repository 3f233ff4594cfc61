import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generateProtocolTypes, TYPES_FOLDER } from '../../../scripts/protocol-types.ts';

test('the types of the protocols are those of the .proto files; `npm run generate` renews them', async ({
  onTestFinished,
}) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-types-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await generateProtocolTypes(folder);
  expect(await filesIn(TYPES_FOLDER)).toEqual(await filesIn(folder));
});

/** The texts of all files in a folder, by path. */
async function filesIn(folder: string): Promise<Readonly<Record<string, string>>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const texts = paths.map(async (path) => [path.slice(folder.length), await readFile(path, 'utf8')] as const);
  return Object.fromEntries(await Promise.all(texts));
}
