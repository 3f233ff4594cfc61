// `node scripts/setup.mjs [serve|console|all]`: installs the locked dependencies of serving, of building the web console, or all
// of them, unless they are installed already. Runs before every npm script, on the machine's Node.js: plain JavaScript that an
// older Node.js can read, which it rejects. The dependencies include Node.js 26, which runs everything else.
import { fileURLToPath } from 'node:url';
import { checkMachine, checkNode } from './setup/machine.mjs';

/**
 * Installs a set of packages. Ends the process with an explanation if that is impossible.
 * @param {import('./setup/packages.mjs').SetName} name
 * @param {{ isBackground?: boolean }} [options] `isBackground`: something else writes to the terminal as well
 * @returns {Promise<void>}
 */
export async function setUp(name, options) {
  try {
    checkNode(process.versions.node);
    // Read by Node.js 20 and later only.
    const { installPackages, isInstalled } = await import('./setup/packages.mjs');
    if (isInstalled(name)) return;
    checkMachine(name);
    await installPackages(name, options);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'SetupError') throw error;
    console.error(`sluice: ${error.message}`);
    process.exit(1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const name = process.argv[2] || 'all';
  if (name === 'serve' || name === 'console' || name === 'all') await setUp(name);
  else throw new TypeError(`unknown set of packages: ${name}`);
}
