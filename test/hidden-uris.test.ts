import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startTestService } from '../packages/server/testing/service.ts';
import { runUris } from './campaign/uris-run.ts';
import { createFileFolder, startFileServer } from './fixtures/file-server.ts';
import { propertyRuns, testSeed } from './fixtures/seed.ts';
import { hiddenSpelling } from './fixtures/uri-spellings.ts';

test('a hidden file is read by no spelling of its uri, visible files as listed', async (context) => {
  const folder = await createFileFolder();
  context.onTestFinished(folder.close);
  const server = await startFileServer(folder.path);
  context.onTestFinished(server.close);
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  const spellings = fc.sample(hiddenSpelling, { seed: testSeed(), numRuns: propertyRuns(1_000) });
  const system = { api: service.manage, url: service.url };
  const { served, visible, failures } = await runUris(system, 'files', server.url, spellings);
  expect(failures).toEqual([]);
  expect(visible).toBe(40);
  // Else the spellings would show nothing.
  expect(served).toBeGreaterThan(spellings.length / 10);
});
