import { z } from 'zod';
import { defineOperation } from './operation.ts';

/** Backup of the service (decisions 10.6). */
export const backupOperations = {
  create: defineOperation({
    id: 'createBackup',
    method: 'GET',
    path: '/api/v1/backup',
    tag: 'service',
    summary: 'Download a backup',
    description:
      'The state of one moment as a gzip-compressed tar archive: `manifest.json` with the version, sizes and checksums, then `registry.json`, `evaluator-revisions.json` and `sessions.json`. It contains neither the session key nor secrets. `sluice backup` verifies what it downloads, `sluice restore` reads it.',
    responses: { 200: { description: 'The archive', data: z.unknown(), mediaType: 'application/gzip' } },
    errors: [],
  }),
};
