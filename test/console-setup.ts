import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { browserPrograms } from './fixtures/browser.ts';
import { installDebianPackages } from './fixtures/debian-packages.ts';

const BUILD = fileURLToPath(new URL('../scripts/admin.mjs', import.meta.url));

/** Runs once before the tests of the web console: builds it if its sources have changed, and installs a browser. */
export default async function prepareConsole(): Promise<void> {
  await Promise.all([
    promisify(execFile)(process.execPath, [BUILD, '--if-changed']),
    installDebianPackages([browserPrograms]),
  ]);
}
