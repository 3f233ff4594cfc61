import { Readable } from 'node:stream';
import { operations } from '@sluice/contract';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import { type BackupSource, createBackup } from '../registry/store/backup-archive.ts';
import { RECORDS_FILE, RECORDS_FORMAT } from '../registry/store/record-file.ts';
import { REGISTRY_FORMAT } from '../registry/store/registry-file.ts';
import { revisionRecords } from '../registry/store/revision-store.ts';
import { VERSION } from '../telemetry/version.ts';
import type { ManagementContext } from './context.ts';
import { IDENTITY_REVISIONS } from './identity/identity-revisions.ts';
import type { Router } from './router.ts';

/** `/api/v1/backup`: what to back up, without keys and secrets. */
export function backupRoutes(router: Router, context: ManagementContext): void {
  router.add(operations.maintenance.backup, async () => {
    const now = new Date();
    const archive = await createBackup(backupSources(context), { version: VERSION, now });
    const name = `sluice-backup-${now.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z.tar.gz`;
    return {
      status: 200,
      headers: { 'content-type': 'application/gzip', 'content-disposition': `attachment; filename="${name}"` },
      body: Readable.fromWeb(archive),
    };
  });
}

/** All files as of one moment: nothing is awaited between them, and each is built over immutable state. */
function backupSources(context: ManagementContext): BackupSource[] {
  const { registry, evaluators, identityRevisions, sessionStore, storedBlocks } = context;
  const entries = registry.records();
  const { nextGeneration } = registry.log;
  const records = [
    ...sessionStore.records(),
    revisionRecords(evaluators.history.stored, EVALUATOR_REVISIONS),
    revisionRecords(identityRevisions.history.stored, IDENTITY_REVISIONS),
    storedBlocks.records(),
  ];
  return [
    { name: 'registry.json', slices: () => REGISTRY_FORMAT.write([entries], nextGeneration) },
    { name: RECORDS_FILE, slices: () => RECORDS_FORMAT.write(records, 1) },
  ];
}
