import { readFile, writeFile } from 'node:fs/promises';
import { runClientSuites } from './clients.ts';
import { writeDirectRecord } from './direct-record.ts';
import { runTranslationSuites } from './era-translation.ts';
import { report } from './report.ts';
import { runServerSuites } from './servers.ts';
import { clientFaults, serverFaults, translationFaults } from './verdict.ts';

/**
 * `npm run conformance`: runs the public conformance suites against the dual-era upstream directly and through the gateway,
 * against upstreams of the other era through the gateway, and against the gateway as a client. Prints the results and writes
 * them to their block in docs/conformance.md, and the results of the direct run to direct-record.json. Exits with code 1 on
 * a regression through the gateway, a deviation from the list of exceptions, a failed client scenario, or a failure of the
 * upstream itself.
 */
const DOCUMENT = new URL('../../docs/conformance.md', import.meta.url);
const [OPEN, CLOSE] = ['<!-- results -->', '<!-- /results -->'];

const servers = await runServerSuites();
const translated = await runTranslationSuites();
const clients = await runClientSuites();
const results = await report(servers, translated, clients);
console.log(results);
await writeResults(results);
await writeDirectRecord(servers);

const faults = [
  ...servers.flatMap((found) => serverFaults(found).map((fault) => `server ${found.suite.name}: ${fault}`)),
  ...translated.flatMap((found) =>
    translationFaults(found).map((fault) => `era translation ${found.suite.name}: ${fault}`),
  ),
  ...clients.flatMap((found) => clientFaults(found).map((fault) => `client ${found.suite.name}: ${fault}`)),
];
if (faults.length > 0) {
  console.error(`\n${faults.join('\n')}`);
  process.exitCode = 1;
}

async function writeResults(block: string): Promise<void> {
  const before = await readFile(DOCUMENT, 'utf8');
  const [from, to] = [before.indexOf(OPEN), before.indexOf(CLOSE)];
  if (from === -1 || to < from) throw new Error(`docs/conformance.md has no block ${OPEN} … ${CLOSE}`);
  await writeFile(DOCUMENT, `${before.slice(0, from)}${OPEN}\n${block}\n${before.slice(to)}`);
}
