import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checksummed, recordsFile } from '../../packages/server/testing/records.ts';
import { startGateway } from '../fixtures/gateway.ts';
import type { Surface } from './variants.ts';

const KIB = 1024;

/** Files that the service reads at its start. Each case starts a service of its own, which must start or say what is wrong. */
export function fileSurfaces(): Surface[] {
  const file = (name: string, path: string, content: (text: string) => string, flag?: string): Surface => ({
    name,
    maxBytes: flag === undefined ? 4 * KIB * KIB : 256 * KIB,
    isComparable: false,
    async send(text) {
      const folder = await mkdtemp(join(tmpdir(), 'sluice-hostile-file-'));
      try {
        await writeFile(join(folder, path), content(text));
        const args = flag === undefined ? [] : [flag, join(folder, path)];
        const gateway = await startGateway({
          args,
          ...(flag === undefined && { env: { SERVICE_PERSIST_PATH: folder } }),
        });
        await gateway.close();
        return 'started';
      } catch (error) {
        const lines = error instanceof Error ? error.message.split('\n') : [];
        if (!lines.some((line) => line.includes('sluice: '))) throw error;
        return `rejected: ${lines.find((line) => line.includes('sluice: '))?.slice(0, 200)}`;
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  });
  const put = (json: string) => `[["put","tools","a",${JSON.stringify(json)}]]`;
  return [
    file('a pipeline file', 'pipeline.yaml', (text) => `listeners: []\nx: ${text}\n`, '--pipeline-config'),
    file('a bootstrap file', 'service.yaml', (text) => `forwards: ${text}\n`, '--service-config'),
    file('the registry file', 'registry.json', (text) => `{"version":1,"namespaces":${text}}`),
    file(
      'an entry of the registry file',
      'registry.json',
      (text) => `{"version":1,"tools":[{"name":"t","x":${text}}]}`,
    ),
    file('the journal of the registry', 'registry.journal.1', (text) => checksummed(put(text))),
    file('a whole line of the journal of the registry', 'registry.journal.1', (text) => checksummed(text)),
    file('a damaged journal of the registry', 'registry.journal.1', (text) => `${checksummed('[]')}${put(text)}`),
    file('a record of a session', 'records.snapshot', (text) => recordsFile([['sessions', 'a', text]])),
    file(
      'a line of the file of records',
      'records.snapshot',
      (text) => `${checksummed('[["begin",1,1]]')}${checksummed(text)}`,
    ),
    file('the journal of records', 'records.journal.1', (text) => checksummed(`[${text}]`)),
    file('a damaged journal of records', 'records.journal.1', (text) => `[${text}\n${checksummed('[]')}`),
  ];
}
