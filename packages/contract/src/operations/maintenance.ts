import { z } from 'zod';
import { diagnostics } from '../schemas/diagnostics.ts';
import { defineOperation } from './operation.ts';

/** Backup and checks of the service. */
export const maintenanceOperations = {
  backup: defineOperation({
    id: 'createBackup',
    method: 'GET',
    path: '/api/v1/backup',
    right: 'administer',
    tag: 'service',
    summary: 'Download a backup',
    description:
      'The state of one moment as a gzip-compressed tar archive: `manifest.json` with the version, sizes and checksums, then `registry.json` and `records.snapshot`. It contains neither the session key nor secrets. `sluice backup` verifies what it downloads, `sluice restore` reads it.',
    responses: { 200: { description: 'The archive', data: z.unknown(), mediaType: 'application/gzip' } },
    errors: [],
  }),
  diagnostics: defineOperation({
    id: 'runDiagnostics',
    method: 'POST',
    path: '/api/v1/diagnostics',
    right: 'change_registry',
    tag: 'service',
    summary: 'Check the service and what it depends on',
    description:
      'Checks the platform, the registry folder, limits of the operating system, the headers of the proxy that this request passed, and the configured addresses: name, connection, certificate and HTTP, for at most 5 seconds each. No credentials are sent, except by the tests of forwards that are not available (`testForward`). Only one run at a time.',
    responses: { 200: { description: 'All checks', data: diagnostics } },
    errors: ['UNAVAILABLE'],
  }),
};
