import { readFile, writeFile } from 'node:fs/promises';
import { refereeClients } from './clients.ts';
import { refereeCrossed } from './crossed.ts';
import { writeDirectRecord } from './direct-record.ts';
import { report } from './report.ts';
import { refereeServers } from './servers.ts';
import { clientFaults, crossedFaults, serverFaults } from './verdict.ts';

/**
 * `npm run conformance`: lets the public conformance suites judge the dual-era upstream directly and through the gateway,
 * upstreams of one era through the gateway for clients of the other, and the gateway as a client. Prints what they found
 * and writes it to its block in docs/conformance.md, and what the direct run found to direct-record.json. Ends with code 1 when anything ends worse through the gateway, the
 * list of exceptions between the eras is not true, a client scenario does not pass, or the upstream itself falls short.
 */
const DOCUMENT = new URL('../../docs/conformance.md', import.meta.url);
const [OPEN, CLOSE] = ['<!-- results -->', '<!-- /results -->'];

const servers = await refereeServers();
const crossed = await refereeCrossed();
const clients = await refereeClients();
const results = await report(servers, crossed, clients);
console.log(results);
await keep(results);
await writeDirectRecord(servers);

const faults = [
  ...servers.flatMap((found) => serverFaults(found).map((fault) => `server ${found.suite.name}: ${fault}`)),
  ...crossed.flatMap((found) => crossedFaults(found).map((fault) => `crossed ${found.suite.name}: ${fault}`)),
  ...clients.flatMap((found) => clientFaults(found).map((fault) => `client ${found.suite.name}: ${fault}`)),
];
if (faults.length > 0) {
  console.error(`\n${faults.join('\n')}`);
  process.exitCode = 1;
}

async function keep(block: string): Promise<void> {
  const before = await readFile(DOCUMENT, 'utf8');
  const [from, to] = [before.indexOf(OPEN), before.indexOf(CLOSE)];
  if (from === -1 || to < from) throw new Error(`docs/conformance.md has no block ${OPEN} … ${CLOSE} for the results`);
  await writeFile(DOCUMENT, `${before.slice(0, from)}${OPEN}\n${block}\n${before.slice(to)}`);
}
